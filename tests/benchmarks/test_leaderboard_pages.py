"""The leaderboard's page and texts: whole, safe for odd names, and true to the numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.leaderboard.board import Leaderboard, write_table
from benchmarks.leaderboard.page import (
    BLOCK_END,
    BLOCK_START,
    leaderboard_block,
    recommendation,
    update_block,
    write_leaderboard,
)
from benchmarks.leaderboard.run import all_entrants, knows_horizon
from slotwise.errors import InvalidInput
from tests.benchmarks.boards import Fared, make_board, make_case
from tests.figures.test_report import Outline

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def board() -> Leaderboard:
    return make_board(
        make_case(
            "coupon-mild",
            {
                "paced-bayes": Fared(1_500.0, 0.0),
                "queue-ts": Fared(3_000.0, 10.0),
                "cucb": Fared(-700.0, 9_000.0),
            },
            refused={"picky": "`n_slots` must be odd"},
        ),
        make_case("other", {"paced-bayes": Fared(1_300.0, 0.0), "queue-ts": Fared(1_000.0, 0.0)}),
        make_case("far", {"paced-bayes": Fared(0.0, 52_000.0)}, floor=7.0, status="infeasible"),
    )


def test_the_page_is_well_formed_and_needs_nothing_outside(
    board: Leaderboard, tmp_path: Path
) -> None:
    outline = Outline(write_leaderboard(board, tmp_path).html.read_text(encoding="utf-8"))
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    for link in outline.links:
        assert link.startswith("#")
        assert link[1:] in outline.ids
    assert not {"script", "link", "img", "iframe"} & set(outline.elements)


def test_both_forms_show_numbers_rule_and_reasons(board: Leaderboard, tmp_path: Path) -> None:
    written = write_leaderboard(board, tmp_path)
    for path in (written.html, written.markdown):
        text = path.read_text(encoding="utf-8").replace("\\", "")
        for expected in (
            "1.50k",
            "52.0k",
            "3 cases, 20 runs each, seed 1; slotwise 0.1.0, commit 0123abc.",
            "the lowest priced regret is best",
            "picky rejects this case",
            "a file was not given",
            "largest running deficit",
            "10.0",
        ):
            assert expected in text, expected
        has_aims = "1,500 / 0" in text
        assert has_aims == (path == written.html), "the manual shows no aims"
    assert Leaderboard.load(written.json).labels == board.labels


def test_both_forms_and_the_file_have_the_share_of_the_gain(tmp_path: Path) -> None:
    gains = {"value_without_visitors": 0.8, "value_without_order": 0.9}
    case = make_case("segments", {"paced-bayes": Fared(2_500.0, 0.0, spread=100.0)}, gains=gains)
    written = write_leaderboard(make_board(case), tmp_path)
    for path in (written.html, written.markdown):
        text = path.read_text(encoding="utf-8").replace("\\", "")
        assert "Share of the gain that knowing the visitors can bring: paced-bayes 75 % (7" in text
        assert "Share of the gain that order on the page can bring: paced-bayes 50 % (" in text
    loaded = Leaderboard.load(written.json).cases[0].standings[0].measures
    assert loaded["gain_of_visitors"].mean == pytest.approx(0.75)


def test_markdown_tables_are_whole(board: Leaderboard, tmp_path: Path) -> None:
    lines = write_leaderboard(board, tmp_path).markdown.read_text(encoding="utf-8").splitlines()
    tables = 0
    for above, line in pairwise(lines):
        if line.startswith("|") and above.startswith("|"):
            tables += "---" in line
            assert line.count("|") == above.count("|")
    assert tables == 3 + len(board.cases)


def test_odd_names_cannot_break_out(tmp_path: Path) -> None:
    odd = make_case("<b>case</b> | x", {"<script>": Fared(900.0, 0.0)})
    written = write_leaderboard(make_board(odd), tmp_path)
    outline = Outline(written.html.read_text(encoding="utf-8"))
    assert outline.open == []
    assert not {"script", "b"} & set(outline.elements)
    assert r"\<script\>" in written.markdown.read_text(encoding="utf-8")


def test_the_recommendation_follows_the_numbers(board: Leaderboard) -> None:
    first, behind, keepers = recommendation(board)
    assert first.startswith("Use paced-bayes if you know nothing else: it keeps every floor")
    assert first.endswith("It is the default.")
    assert "its ratio to the best policy of a case is at most 1.30 (on other)" in first
    assert "paced-bayes is not the best on other (queue-ts, 1.30" in behind
    assert keepers.startswith(
        "Policies that keep every floor that can be kept: paced-bayes, queue-ts."
    )


def test_a_policy_that_knows_the_horizon_is_named_beside_the_recommendation() -> None:
    case = make_case("one", {"paced-bayes": Fared(1_200.0, 0.0), "queue-ts": Fared(1_000.0, 0.0)})
    first, known, *_ = recommendation(make_board(case))
    assert first.startswith("Use paced-bayes if you know nothing else")
    assert known.startswith("If the number of rounds is known, queue-ts ranks higher")


def test_a_default_that_is_beaten_is_said_so() -> None:
    case = make_case("one", {"paced-bayes": Fared(2_000.0, 0.0), "new": Fared(1_000.0, 0.0)})
    first = recommendation(make_board(case))[0]
    assert first.startswith("Use new if you know nothing else")
    assert "by the rule below, new should replace it" in first


def test_a_block_is_written_between_its_markers(board: Leaderboard, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BLOCK_START}\nold\n{BLOCK_END}\nafter\n", encoding="utf-8")
    update_block(page, board)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BLOCK_START}\n\nUse paced-bayes if")
    assert text.endswith(f"{BLOCK_END}\nafter\n")
    assert "old" not in text
    update_block(page, board)
    assert page.read_text(encoding="utf-8") == text


def test_a_page_without_markers_is_refused(board: Leaderboard, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no markers\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="`page` must be a page with the lines"):
        update_block(page, board)


def test_the_documentation_shows_the_leaderboard_that_lies_beside_it() -> None:
    text = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    shown = text.partition(BLOCK_START)[2].partition(BLOCK_END)[0].strip()
    board = Leaderboard.load(DOCS / "leaderboard.json")
    assert shown == leaderboard_block(board).strip()


def test_the_page_of_the_documentation_is_one_screen_and_a_file(tmp_path: Path) -> None:
    text = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\w+", text)) <= 750
    assert len(re.findall(r"^\| --- ", text, re.MULTILINE)) == 1
    board = Leaderboard.load(DOCS / "leaderboard.json")
    assert f"Every policy on {len(board.cases)} cases" in text
    write_table(board, tmp_path / "leaderboard.csv")
    assert (tmp_path / "leaderboard.csv").read_text() == (DOCS / "leaderboard.csv").read_text()


def test_the_documentation_says_of_each_policy_whether_it_knows_the_horizon() -> None:
    entrants = all_entrants()
    for case in Leaderboard.load(DOCS / "leaderboard.json").cases:
        for one in case.standings:
            assert one.knows_horizon == knows_horizon(entrants[one.label]), one.label
