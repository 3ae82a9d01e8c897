"""Pages for users are read in one sitting; figures and trials belong into docs/decisions/."""

from __future__ import annotations

import pytest

from tests.docs.pages import read_page

MAX_WORDS = 1_500


@pytest.mark.parametrize("page", ["choosing-a-policy", "embed", "visitors-and-slots"])
def test_a_page_is_read_in_one_sitting(page: str) -> None:
    assert len(read_page(f"docs/{page}.md").split()) <= MAX_WORDS


def test_the_benchmarks_of_the_manual_have_no_targets() -> None:
    text = read_page("docs/benchmarks.md").lower()
    assert [word for word in ("target", "missed", "verdict") if word in text] == []
