"""The report: whole in itself, safe for odd names, and true to the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from slotwise.errors import InvalidInput
from slotwise.figures import (
    Pictures,
    WrittenReport,
    canvas,
    paper_report as report_module,
    write_report,
)
from slotwise.figures.style import measured
from tests.simulation.synthetic import BEHAVIOURS, make_results, make_sweep

LABELS = (*BEHAVIOURS, "paced-bayes")
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Reads a page: ids, references, addresses, and whether every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("href", "src", "xlink:href") and value:
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module", autouse=True)
def _small_pictures() -> Iterator[None]:
    """Draw a tenth of the pixels; `test_figures` draws all of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(canvas, "PNG_DOTS_PER_INCH", 50)
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> WrittenReport:
    ads = {"name": "ads-like", "title": "Ad-Clicks", "look_alike": True}
    results = [
        make_results(LABELS, n_runs=6, n_checkpoints=40),
        make_results(LABELS, n_runs=6, n_checkpoints=40, seed=2, changes={"dataset": ads}),
    ]
    return write_report(results, [make_sweep()], tmp_path_factory.mktemp("report"))


def test_it_writes_a_page_a_text_and_every_figure(report: WrittenReport) -> None:
    names = [path.name for path in report.figures]
    assert names == [
        f"{name}.{kind}"
        for name in ("coupon-like", "ads-like", "coupon-like-sweep")
        for kind in ("svg", "png")
    ]
    assert all(path.stat().st_size > 1_000 for path in (*report.figures, *report[:2]))


def test_the_page_is_well_formed_and_needs_nothing_outside(report: WrittenReport) -> None:
    outline = Outline(report.html.read_text(encoding="utf-8"))
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.links
    for link in outline.links:
        assert link.startswith("#")
        assert link[1:] in outline.ids
    assert outline.elements.count("svg") == 3
    assert not {"script", "link", "img", "iframe"} & set(outline.elements)


def test_the_page_follows_the_readers_light_or_dark(report: WrittenReport) -> None:
    page = report.html.read_text(encoding="utf-8")
    assert "@media (prefers-color-scheme: dark)" in page
    dark = set(re.findall(r"--c-([0-9a-f]{6}): #", page))
    used = set(re.findall(r"var\(--c-([0-9a-f]{6}),", page))
    assert used
    assert used <= dark


def test_both_forms_show_settings_numbers_bounds_and_verdicts(report: WrittenReport) -> None:
    results = make_results(n_runs=6, n_checkpoints=40)
    regret = results.final("con-ucb", "regret").mean()
    for path in report[:2]:
        text = path.read_text(encoding="utf-8")
        assert f"{regret / 1000:.1f}k" in text
        for expected in (
            "Coupon-Purchase (look-alike, h = 4)",
            "Ad-Clicks (look-alike, h = 4)",
            "seed 1",
            "slotwise 0.1.0",
            "commit 0123abc",
            "20.8M",
            "750k",
            "5.59M",
            "does not hold",
            "the printed γ",
            "γ/1440",
            "even the violation of the oracle",
            "has a higher ratio than the oracle",
            "seek another optimum",
            "On average a link is shown on 2.77k, so many bounds stay at 1",
        ):
            assert expected in text, expected


def test_the_verdicts_come_first_and_all_but_two_tables_are_folded(report: WrittenReport) -> None:
    for path in report[:2]:
        text = path.read_text(encoding="utf-8").partition("(IJCAI 2018)")[2]
        seen, _, folded = text.partition("<details")
        assert seen.index("The regret of Con-UCB is below") < seen.index("Not in the paper: paced")
        assert seen.index("statements hold") < seen.index("The regret of Con-UCB is")
        assert "All of these together" in seen
        assert "<svg" not in seen
        assert "![" not in seen
        assert re.sub(r"(?s)<details.*</details>", "", text).count("Coupons, made up") == 0
        for summary in ("conclusion in full", "Coupon-Purchase", "Ad-Clicks", "printed value down"):
            assert re.search(f"<summary>[^<]*{summary}", folded), summary
        assert text.count("<details") == text.count("</details>")


def test_a_policy_that_is_not_in_the_paper_is_marked_and_compared(report: WrittenReport) -> None:
    results = make_results(LABELS, n_runs=6, n_checkpoints=40)
    regrets = [results.final(one, "regret").mean() for one in ("paced-bayes", "con-ucb/1440")]
    text = report.markdown.read_text(encoding="utf-8")
    assert "Not in the paper: paced-bayes, the default policy of slotwise" in text
    mine, best = map(measured, regrets)
    assert f"| Coupon-Purchase (look-alike, h = 4) | {mine} | {best} (Con-UCB γ/1440) |" in text
    assert text.count("| paced-bayes (not in the paper) |") == 2
    for line in text.splitlines():
        if "holds" in line or "does not hold" in line:
            assert "paced-bayes" not in line


def test_without_such_a_policy_nothing_speaks_of_one(tmp_path: Path) -> None:
    report = write_report([make_results(n_runs=2, n_checkpoints=10)], [], tmp_path)
    assert "Not in the paper" not in report.html.read_text(encoding="utf-8")


def test_markdown_tables_are_whole(report: WrittenReport) -> None:
    lines = report.markdown.read_text(encoding="utf-8").splitlines()
    tables = 0
    for above, line in pairwise(lines):
        if not line.startswith("|") or not above.startswith("|"):
            continue
        tables += "---" in line
        assert line.count("|") == above.count("|")
    # what is stated and what is not, paced-bayes, four a data set, the sweep
    assert tables == 2 + 1 + 4 * 2 + 1
    assert "</p>" not in "\n".join(lines)


def test_markdown_figures_exist(report: WrittenReport) -> None:
    text = report.markdown.read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(pictures) == 3
    assert all((report.markdown.parent / picture).is_file() for picture in pictures)


def test_odd_labels_and_titles_cannot_break_out(tmp_path: Path) -> None:
    dataset = {
        "name": "../<x>",
        "title": "<script>alert(1)</script> | ]( & co",
        "look_alike": False,
        "notes": "a | b\n# c",
    }
    labels = ("con-ucb", "<b>bold</b> | $x$", "oracle")
    results = make_results(labels, n_runs=2, n_checkpoints=10, changes={"dataset": dataset})
    report = write_report([results], [], tmp_path)
    outline = Outline(report.html.read_text(encoding="utf-8"))
    assert outline.open == []
    assert not {"script", "b"} & set(outline.elements)
    assert [path.name for path in report.figures] == ["x.svg", "x.png"]
    text = report.markdown.read_text(encoding="utf-8")
    assert r"\<script\>" in text
    assert r"a \| b \# c" in text


def test_one_data_set_with_several_floors_gets_several_figures(tmp_path: Path) -> None:
    results = [
        make_results(("con-ucb",), n_runs=2, n_checkpoints=10, changes={"click_floor": floor})
        for floor in (4.0, 5.5, 5.5)
    ]
    report = write_report(results, [], tmp_path)
    names = [path.stem for path in report.figures if path.suffix == ".svg"]
    assert names == ["coupon-like", "coupon-like-h5.5", "coupon-like-2"]


@pytest.mark.parametrize("labels", [("con-ucb",), ("oracle",), ("mine", "lexp")])
def test_few_policies_and_one_run_make_a_report_too(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    report = write_report([make_results(labels, n_runs=1, n_checkpoints=5)], [], tmp_path)
    text = report.markdown.read_text(encoding="utf-8")
    assert ("was not run" in text) or ("nothing to judge" in text)
    assert "| holds |" not in text


def test_the_same_results_give_the_same_report(tmp_path: Path) -> None:
    results = [make_results(("con-ucb", "oracle"), n_runs=3, n_checkpoints=10)]
    first = write_report(results, [], tmp_path / "a")
    second = write_report(results, [], tmp_path / "b")
    assert first.html.read_bytes() == second.html.read_bytes()
    assert first.markdown.read_bytes() == second.markdown.read_bytes()


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="`results` must be of at least one experiment"):
        write_report([], [], tmp_path)


def test_figures_that_are_drawn_already_are_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, sweep = make_results(("con-ucb",), n_runs=2, n_checkpoints=10), make_sweep((1, 72))
    pictures = Pictures()
    drawn = [pictures.of(one) for one in (results, sweep)]

    def refuse(*_: object) -> None:
        raise AssertionError("drawn again")

    for name in ("draw_experiment", "draw_sweep"):
        monkeypatch.setattr(report_module, name, refuse)
    written = write_report([results], [sweep], tmp_path, pictures)
    assert [path.read_bytes() for path in written.figures] == [
        one[kind] for one in drawn for kind in ("svg", "png")
    ]
