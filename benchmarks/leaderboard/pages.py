"""The leaderboard as a page, as Markdown, and as a block within a page of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.leaderboard import (
    RECOMMENDATION_RULE,
    RULE,
    Leaderboard,
    write_table,
)
from benchmarks.leaderboard.page import gather_board
from slotwise.errors import InvalidInput
from slotwise.figures.templating import templates

__all__ = [
    "BLOCK_END",
    "BLOCK_START",
    "WrittenLeaderboard",
    "leaderboard_block",
    "update_block",
    "write_leaderboard",
]

BLOCK_START = "<!-- leaderboard: written by `python -m benchmarks.leaderboard --update` -->"
BLOCK_END = "<!-- leaderboard: end -->"

TEMPLATES = Path(__file__).parent / "templates"


class WrittenLeaderboard(NamedTuple):
    """Where a leaderboard was written."""

    html: Path
    markdown: Path
    json: Path
    table: Path


def write_leaderboard(board: Leaderboard, out_dir: str | Path) -> WrittenLeaderboard:
    """Write `leaderboard.html`, `.md`, `.json` and `.parquet` into `out_dir`.

    The page needs nothing beside itself.
    """
    stem = Path(out_dir) / "leaderboard"
    written = WrittenLeaderboard(
        *(stem.with_suffix(kind) for kind in (".html", ".md", ".json", ".parquet"))
    )
    board.save(written.json)
    write_table(board, written.table)
    for path, is_html in ((written.html, True), (written.markdown, False)):
        path.write_text(_render(board, f"{path.name}.jinja", is_html=is_html), encoding="utf-8")
    return written


def leaderboard_block(board: Leaderboard) -> str:
    """Return the part of the leaderboard that a page of the documentation shows, as Markdown."""
    return _render(board, "leaderboard_block.md.jinja", is_html=False)


def update_block(page: Path, board: Leaderboard) -> None:
    """Write the block between the markers of a Markdown page, in place of what stood there."""
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(BLOCK_START)
    _, end, after = rest.partition(BLOCK_END)
    if not start or not end:
        rule = f"a page with the lines {BLOCK_START} and {BLOCK_END}"
        raise InvalidInput.of("page", rule, str(page))
    block = leaderboard_block(board).strip()
    page.write_text(f"{before}{start}\n\n{block}\n\n{end}{after}", encoding="utf-8")


def _render(board: Leaderboard, template: str, *, is_html: bool) -> str:
    return (
        templates(TEMPLATES, is_html=is_html)
        .get_template(template)
        .render(
            page=gather_board(board),
            rule=RULE,
            recommendation_rule=RECOMMENDATION_RULE,
            dark_rules="",
        )
    )
