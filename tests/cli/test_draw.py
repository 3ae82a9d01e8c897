"""`slotwise draw`, from the command line to the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.cli.main import main
from tests.simulation.synthetic import make_results, make_sweep


@pytest.fixture
def coupon(tmp_path: Path) -> Path:
    path = tmp_path / "coupon.parquet"
    make_results(n_runs=2, n_checkpoints=10).save(path)
    return path


def test_a_figure_lies_beside_its_results(coupon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", str(coupon)]) == 0
    expected = [coupon.with_suffix(".svg"), coupon.with_suffix(".png")]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in expected]
    assert all(path.is_file() for path in expected)


def test_several_files_go_where_they_are_asked_in_the_formats_asked(
    coupon: Path, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep.parquet"
    make_sweep().save(sweep)
    out = tmp_path / "new" / "figures"
    assert main(["draw", str(coupon), str(sweep), "--out", str(out), "--format", "svg"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["coupon.svg", "sweep.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.parquet"], "slotwise: no results file"),
        (["COUPON", "--format", "gif"], "`format` must be one of svg, png, pdf, got 'gif'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    coupon: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [str(coupon) if argument == "COUPON" else argument for argument in arguments]
    assert main(["draw", *arguments]) == 2
    problem = capsys.readouterr().err
    assert message in problem
    assert "Traceback" not in problem


def test_the_help_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["draw", "--help"]) == 0
    assert "slotwise draw coupon.parquet" in capsys.readouterr().out


def test_chosen_panels_for_a_paper(coupon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--panels", "regret, shortfall", "--width", "column", "--title", "Mine", "--log", "x"]
    assert main(["draw", str(coupon), "--format", "pdf", *chosen]) == 0
    assert capsys.readouterr().out == f"{coupon.with_suffix('.pdf')}\n"
    assert coupon.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert main(["draw", str(coupon), "--panels", "joy"]) == 2
    assert "`panels` must be one of regret" in capsys.readouterr().err


def test_one_figure_goes_into_the_file_asked(
    coupon: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = coupon.parent / "new" / "late.pdf"
    assert main(["draw", str(coupon), "--out", str(late)]) == 0
    assert capsys.readouterr().out == f"{late}\n"
    assert late.read_bytes().startswith(b"%PDF")
    assert main(["draw", str(coupon), str(coupon), "--out", str(late)]) == 2
    assert "`--out` must be a directory for several results files" in capsys.readouterr().err
