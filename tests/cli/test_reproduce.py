"""`slotwise reproduce`, whole, with few runs of few rounds.

The loops are those that other tests compile, too.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotwise.cli import experiments
from slotwise.cli.main import main
from slotwise.figures import canvas
from slotwise.simulation import Results, series
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock
from slotwise.simulation.series import FIGURES, SWEEPS

pytestmark = pytest.mark.compiled

TINY = ["--runs", "3", "--rounds", "60"]


@pytest.fixture(autouse=True, scope="module")
def _small_pictures() -> Iterator[None]:
    """Draw with few dots; `tests/figures` draws with all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(canvas, "PNG_DOTS_PER_INCH", 50)
        yield


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduced") / "paper"
    assert main(["reproduce", *TINY, "--out", str(out)]) == 0
    return out


def test_everything_is_where_the_report_looks_for_it(paper: Path) -> None:
    assert {path.stem for path in (paper / "results").iterdir()} == {*FIGURES, *SWEEPS}
    assert sorted(path.name for path in paper.iterdir()) == [
        "figures",
        "report.html",
        "report.md",
        "results",
    ]
    pictures = {path.name for path in (paper / "figures").iterdir()}
    assert len(pictures) == 2 * len((*FIGURES, *SWEEPS))
    report = (paper / "report.md").read_text()
    assert "look-alike" in report
    for name in pictures:
        if name.endswith(".svg"):
            assert f"figures/{name}" in report


def test_a_second_time_nothing_is_run_and_the_same_is_said(
    paper: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("played again")

    before = (paper / "report.md").read_text()
    monkeypatch.setattr(RunBlock, "play", refuse)
    assert main(["reproduce", *TINY, "--out", str(paper)]) == 0
    assert (paper / "report.md").read_text() == before
    printed, told = capsys.readouterr()
    first, second, *_ = told.splitlines()
    assert first == f"reproducing the paper in {paper} (finished experiments are not run again)"
    assert second.startswith("already finished, nothing was run")
    assert "This is a quick look (3 runs of 60 rounds)" in printed
    assert "undecided" not in printed
    assert f"report: {paper / 'report.html'}" in printed.replace("\n", "")
    assert "The paper's claims" in printed
    assert "Con-UCB γ/1440" in printed
    assert "paced-bayes †" in printed
    assert "† not in the paper" in printed


def test_a_quick_look_leaves_the_results_of_the_whole_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders: list[Path] = []

    def note(out: Path, *_: object, **__: object) -> None:
        folders.append(out)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "plan_paper", note)
    for options in ([], ["--quick"], ["--quick", "--out", "mine"]):
        assert main(["reproduce", *options]) == 130
    assert folders == [Path("paper"), Path("paper-quick"), Path("mine")]


@pytest.mark.parametrize("smaller", [["--runs", "2"], ["--rounds", "50", "--runs", "9"]])
def test_results_of_more_runs_or_rounds_are_not_replaced(
    paper: Path, smaller: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    assert main(["reproduce", *TINY, *smaller, "--out", str(paper)]) == 2
    assert "has 3 runs of 60 rounds" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()} == before


def test_sweeps_share_the_runs_of_the_figures(paper: Path) -> None:
    figure = Results.load(paper / "results" / "figure-1-coupon.parquet")
    sweep = Results.load(paper / "results" / "gamma-sweep-coupon.parquet")
    for label in ("con-ucb", "con-ucb/1440", "lexp", "oracle"):
        same = figure.final(label, "reward") == sweep.final(label, "reward")
        assert same.all()


def test_ctrl_c_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    n_played, play = 0, RunBlock.play

    def play_ten(block: RunBlock) -> PlayedBlock:
        nonlocal n_played
        n_played += 1
        if n_played > 10:
            raise KeyboardInterrupt
        return play(block)

    monkeypatch.setattr(RunBlock, "play", play_ten)
    command = ["reproduce", *TINY, "--threads", "1", "--out", str(tmp_path)]
    assert main(command) == 130
    # Ten were played, and the sweep will use all of them again.
    assert "stopped: 20 of 252 runs are kept; the same command continues" in capsys.readouterr().err


def test_ctrl_c_is_answered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    once, play = iter([signal.SIGINT]), RunBlock.play

    def play_interrupted(block: RunBlock) -> PlayedBlock:
        for one in once:
            os.kill(os.getpid(), one)
        return play(block)

    monkeypatch.setattr(RunBlock, "play", play_interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["reproduce", *TINY, "--threads", "1", "--out", str(tmp_path)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told = capsys.readouterr().err.splitlines()
    first = told.index("stopping when current compilations and runs have finished")
    assert re.match(r"stopped: \d+ of 252 runs are kept", told[first + 1])


def test_on_the_original_files_a_floor_out_of_reach_is_reported(
    original_files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(series, "FIGURES", ("figure-1-coupon", "figure-3-edx"))
    monkeypatch.setattr(series, "SWEEPS", ())
    command = ["reproduce", *TINY, "--data", str(original_files), "--out", str(tmp_path)]
    assert main(command) == 0
    assert "look-alike used instead of coupon-purchase" in capsys.readouterr().out
    edx = Results.load(tmp_path / "results" / "figure-3-edx.parquet")
    assert edx.config["dataset"]["look_alike"] is False
    assert edx.config["optimum"]["status"] == "infeasible"
    assert edx.config["optimum"]["attainable_clicks"] == pytest.approx(9.284, abs=5e-4)
    for name in ("report.md", "report.html"):
        report = (tmp_path / name).read_text()
        assert "infeasible: at most 9.28" in report
        assert "no page reaches the floor: regret is relative to the most clicked page" in report


def test_the_help_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["reproduce", "--help"]) == 0
    assert "slotwise reproduce --quick" in capsys.readouterr().out
