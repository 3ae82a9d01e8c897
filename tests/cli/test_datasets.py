from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.environments.datasets import DATASETS


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def links_csv(tmp_path: Path) -> Path:
    path = tmp_path / "links.csv"
    path.write_text("clicks,views,revenue\n50,100,1\n20,100,10\n10,100,10\n")
    return path


def line_with(text: str, start: str) -> str:
    (found,) = [line for line in text.splitlines() if line.strip().startswith(start + " ")]
    return " ".join(found.split())


def test_every_data_set_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets"]) == 0
    printed = capsys.readouterr().out
    for name in DATASETS:
        assert line_with(printed, name)
    assert line_with(printed, "coupon-like").startswith("coupon-like 271 15 4, binding Look-alike")
    assert "10, slack Look-alike" in line_with(printed, "ads-like")
    assert "Loader" in line_with(printed, "edx-course")
    assert '"Online Courses from Harvard and MIT"' in line_with(printed, "edx-course")


@pytest.mark.parametrize("width", ["80", "200"])
def test_one_is_shown_with_its_optimum(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["datasets", "ads-like-binding"]) == 0
    printed = capsys.readouterr().out
    assert "look-alike of Ad-Clicks" in printed
    assert line_with(printed, "links") == "links 225"
    assert line_with(printed, "slots") == "slots 20"
    assert line_with(printed, "floor, in clicks per page view").endswith("12 (binding)")
    assert "3.7647 with 12.000 clicks" in line_with(printed, "best revenue at the floor")
    assert "3.8709 with 10.235 clicks" in line_with(printed, "best revenue without a floor")
    assert line_with(printed, "largest possible clicks").endswith("15.922")
    assert line_with(printed, "shadow price of a click").endswith("0.0733")
    assert line_with(printed, "click rate").split()[2:][3] == "0.2312"
    assert "…" not in printed


def test_a_floor_out_of_reach_is_answered_with_the_best_that_can_be_had(
    links_csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ["-o", "n_slots=2", "-o", "click_floor=0.3", "--floor", "0.9"]
    assert main(["datasets", "table", "--data", str(links_csv), *page]) == 0
    printed = capsys.readouterr().out
    assert line_with(printed, "floor, in clicks per page view").endswith("0.9 (infeasible)")
    assert "with 0.700 clicks" in line_with(printed, "revenue of the most clicked page")
    assert line_with(printed, "shadow price of a click").endswith("none")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["coupon-lik"], "did you mean 'coupon-like'?"),
        (
            ["table", "--data", "gone.csv", "-o", "n_slots=2", "-o", "click_floor=0.1"],
            "`--data` must be a file or folder that exists, got 'gone.csv'",
        ),
        (["coupon-like", "--data", "gone"], "`--data` must be left out for the built-in"),
        (["edx-course"], "`--data` must be where the files of `edx-course` are"),
        (["edx-course"], "name them: slotwise datasets edx-course --data DIR"),
        (["table"], "name them: slotwise datasets table --data links.csv -o n_slots=10 -o click_f"),
        (["coupon-like", "-o", "n_slots"], "`--option` must be name=value, got 'n_slots'"),
        (["coupon-like", "-o", "n_slots=many"], "`n_slots` must be of type int, got 'many'"),
        (["--floor", "3"], "`NAME` must be given together with --data, --floor or --option"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", *args]) == 2
    assert message in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "--help"]) == 0
    assert "slotwise datasets coupon-like --floor 5" in capsys.readouterr().out
