"""The records of decisions: at most a page each, and every number can be followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
PARTS = ["Why", "Instead of", "What follows"]

MAX_WORDS = 480
"""A page has about 450 words and the rows of its tables."""

MAX_ROWS = 30
"""Lines of tables, with their headings."""


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_at_most_a_page(record: Path) -> None:
    lines = record.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if not line.startswith("|") for word in line.split()]
    assert len(words) <= MAX_WORDS
    assert sum(line.startswith("|") for line in lines) <= MAX_ROWS


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_its_parts(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert text.startswith(f"# {record.name[:4]}: ")
    assert re.search(r"^Status: accepted", text, re.MULTILINE), "replaced ones are merged"
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert [one for one in headings if one in PARTS] == PARTS


def test_every_number_is_a_record_or_says_where_it_went() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    moved = dict(re.findall(r"^\| (\d{4}) \| .* \| (.+) \|$", index, re.MULTILINE))
    present = {path.name[:4] for path in RECORDS}
    assert len(present) == len(RECORDS)
    assert not present & set(moved)
    last = max(int(number) for number in present)
    assert present | set(moved) == {f"{number:04}" for number in range(1, last + 1)}
    for number, place in moved.items():
        link = re.fullmatch(r"\[\d{4}\]\((\S+)\)", place)
        assert link is None or f"contains {number}" in (FOLDER / link[1]).read_text(), number
