"""Every statement of the comparison with other packages has a link, a command or a page."""

from __future__ import annotations

import pytest

from tests.docs.pages import read_page

STATEMENTS, *_ = read_page("docs/alternatives.md").split("\n## ", 1)
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in STATEMENTS.splitlines()
    if line.startswith("| ") and not line.startswith(("| | ", "| ---"))
]


def is_supported(cell: str) -> bool:
    return cell == "—" or "](" in cell or "`slotwise " in cell


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_statement_can_be_checked(row: list[str]) -> None:
    assert len(row) == 6
    assert all(is_supported(cell) for cell in row[1:]), row


def test_a_bare_claim_is_noticed() -> None:
    assert len(ROWS) >= 7
    assert not is_supported("yes, much better")
