"""`slotwise frontier`: what every floor costs, printed, drawn and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.policies import CUCB
from slotwise.selector import Selector


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def links_csv(tmp_path: Path) -> Path:
    path = tmp_path / "links.csv"
    path.write_text("clicks,views,revenue\n50,100,1\n20,100,10\n10,100,10\n")
    return path


def test_a_table_by_hand(links_csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # revenue rates 0.01, 0.1, 0.1: the best two bring 0.3 clicks, the most clicked two 0.7; one
    # more click costs (0.2 - 0.11) / 0.4 = 0.225
    assert main(["frontier", str(links_csv), "--slots", "2", "--floor", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert "links.csv: the price of the floor" in printed
    rows = [line.split() for line in printed.splitlines() if line.strip()[:2] == "0."]
    assert rows[0] == ["0.3", "0.2000", "100.0%", "0.0000"]
    assert rows[-1] == ["0.7", "0.1100", "55.0%", "0.2250"]
    assert ["0.5", "0.1550", "77.5%", "0.2250", "present"] in rows


def test_the_picture_and_the_corners_are_written(
    links_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures"
    assert main(["frontier", str(links_csv), "--slots", "2", "--out", str(out)]) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["frontier-links.csv", "frontier-links.png", "frontier-links.svg"]
    assert [line for line in capsys.readouterr().out.splitlines() if "frontier-links" in line]
    header, first, last = (out / "frontier-links.csv").read_text().split()
    assert header == "floor,best_revenue,shadow_price"
    assert [round(float(cell), 9) for cell in first.split(",")] == [0.3, 0.2, 0.0]
    assert [round(float(cell), 9) for cell in last.split(",")] == [0.7, 0.11, 0.225]


@pytest.mark.parametrize("floor", [[], ["--floor", "0.1"]])
def test_the_price_of_a_guarantee_as_it_grows(
    links_csv: Path, tmp_path: Path, floor: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # the first link earns 0.09 less than the others, which fill the page
    rule = ["--rule", "partner: 0 >= 0.5", "--out", str(tmp_path)]
    assert main(["frontier", str(links_csv), "--slots", "2", *floor, *rule]) == 0
    printed = capsys.readouterr().out
    assert "0.5 slots cost 0.045 of 0.2 a page view" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["0.5", "0.1550", "77.5%", "0.0900", "present"] in rows
    assert (tmp_path / "guarantee-links.svg").exists()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("partner: x >= 0.5", "`links` of rule 'partner' must be links of the table, got 'x'"),
        ("partner: 0 <= 0.5", "`at_least` of rule 'partner' must be given"),
        ("partner: 0 >= 3", "`at_least` of rule 'partner' must be at most 1"),
        ("partner", "`rule` must be NAME: LINK,LINK >= SLOTS"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_sentence(
    links_csv: Path, rule: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["frontier", str(links_csv), "--slots", "2", "--rule", rule]) == 2
    assert message in capsys.readouterr().err


def test_a_floor_out_of_reach_is_said(links_csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(links_csv), "--slots", "2", "--floor", "0.9"]) == 0
    printed = capsys.readouterr().out
    assert "floor 0.9, infeasible" in printed
    assert "0.9     infeasible" in printed


def test_a_data_set_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", "coupon-like"]) == 0
    printed = capsys.readouterr().out
    assert "271 links, 15 slots" in printed
    assert "floor 4 at a shadow price of" in printed


def test_a_saved_selector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selector = Selector(
        ["a", "b", "c"], 2, policy=CUCB(), click_floor=0.65, max_revenue=4.0, seed=1
    )
    selector.update_batch(
        {"a": 100, "b": 100, "c": 100},
        {"a": 50, "b": 20, "c": 10},
        {"a": 4.0, "b": 40.0, "c": 40.0},
    )
    path = tmp_path / "shop.npz"
    selector.save(path)
    assert main(["frontier", "--selector", str(path), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "shop.npz: the price of the floor, as estimated now" in printed
    assert "low" in printed
    assert "95 % band for all floors at once" in printed
    assert (tmp_path / "frontier-shop.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give TABLE, a file or the name of a data set, or --selector, a saved selector"),
        (["nowhere.csv", "--slots", "2"], "`TABLE` must be a file, or one of the data sets"),
        (["LINKS"], "give --slots, the number of links on a page, for the file"),
        (["--selector", "x.npz", "--slots", "2"], "must be left out with --selector"),
        (["LINKS", "--slots", "2", "--out", "OUT", "--format", "gif"], "`format` must be one of"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str],
    message: str,
    links_csv: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"LINKS": str(links_csv), "OUT": str(tmp_path)}
    assert main(["frontier", *(places.get(word, word) for word in arguments)]) == 2
    assert message in capsys.readouterr().err
