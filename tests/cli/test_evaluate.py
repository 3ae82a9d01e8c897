"""`slotwise evaluate`: each question once, and the mistakes that people make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slotwise.cli.main import main
from tests.evaluation.logs import random_log, write


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    return write(folder / "log.parquet", random_log(seed=3, n_pages=500))


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["evaluate", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_another_floor(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, log, "--floor", "0.5")
    assert "floor 0.5: kept" in text
    assert "effective of" in text
    assert "pages were only used to fit the mix" in text
    assert "for comparison, bootstrap" in text


def test_another_number_of_slots(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = log, "--floor", "0.2", "--json"
    wide, narrow = (json.loads(said(capsys, *asked, "--slots", n)) for n in ("2", "1"))
    assert wide == json.loads(said(capsys, *asked))
    assert narrow["clicks"]["value"] < 0.7 * wide["clicks"]["value"]
    policy = json.loads(
        said(capsys, log, "--policy", "cucb", "--runs", "2", "--slots", "1", "--json")
    )
    assert policy["n_slots"] == 1
    curve = json.loads(said(capsys, log, "--frontier", "--slots", "1", "--json"))
    assert curve["floors"][-1] < 1.0


def test_the_json_of_an_answer(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(said(capsys, log, "--floor", "0.5", "--json"))
    for level in ("revenue", "clicks"):
        assert answer[level]["low"] <= answer[level]["value"] <= answer[level]["high"]
    assert {"effective_sample_size", "max_weight", "uncovered"} <= set(answer)


def test_what_a_rule_would_have_cost(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = json.loads(said(capsys, log, "--floor", "0", "--json"))["revenue"]["value"]
    words = (log, "--rule", "partner: link-0, link-1 >= 1.5", "--json")
    answer = json.loads(said(capsys, *words))
    assert answer["without_rules"]["revenue"]["value"] == pytest.approx(free)
    assert answer["cost_of_rules"] == pytest.approx(free - answer["revenue"]["value"])
    assert "The rules cost" in " ".join(said(capsys, *words[:-1]).split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rule", "partner"), "`rule` must be NAME: LINK,LINK >= SLOTS, or <= SLOTS"),
        (("--rule", "x: nobody >= 1"), "`links` of rule 'x' must be links of the log"),
        (("--rule", "x: link-0 >= 1", "--frontier"), "`--rule` must be left out with"),
    ],
)
def test_bad_rules(
    log: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["evaluate", str(log), *words]) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_mix_of_your_own(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = tmp_path / "mine.csv"
    mix.write_text("link,probability\nlink-0,1\nnobody,1\n")
    text = said(capsys, log, "--mix", mix, "--floor", "0.1")
    assert "50.0% of the page could not be shown by the log" in text
    assert "The log never shows 'nobody'." in text
    assert "The log cannot tell" in text


def test_a_policy_on_a_fitted_simulator(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (log, "--policy", "cucb", "--floor", "0.5", "--runs", "3")
    assert "A simulation, not an estimate from the log." in " ".join(said(capsys, *words).split())
    answer = json.loads(said(capsys, *words, "--json"))
    assert answer["n_runs"] == 3
    assert 0 < answer["revenue"]["value"] < answer["clicks"]["value"] < 2
    assert answer["share_of_such_pages"] == 1.0
    fewer = " ".join(said(capsys, *words, "--slots", "1").split())
    assert fewer.endswith("0 % of the log's pages have as many (--slots).")


def test_the_frontier_and_its_picture(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, log, "--frontier", "--out", tmp_path, "--format", "svg")
    assert "the intervals of each floor hold on their own" in text
    assert (tmp_path / "frontier-log.svg").exists()
    points = json.loads(said(capsys, log, "--frontier", "--json"))["points"]
    assert len(points) == 11


def test_a_floor_out_of_reach_is_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(said(capsys, log, "--floor", "5").split())
    assert "floor 5: missed" in text
    assert re.search(r"The floor is out of reach: the most clicked mix has [\d.]+ clicks\.", text)
    assert "out of reach" not in said(capsys, log, "--floor", "0.1")


MISTAKES = [
    ([], "say what to evaluate: --floor, --rule, --mix, --policy or --frontier"),
    (
        ["--frontier", "--policy", "cucb"],
        "give one of --frontier, --mix, --policy, got --frontier and --policy",
    ),
    (["--frontier", "--floor", "1"], "`--floor` must be left out with --frontier"),
    (["--policy", "cucb", "--by", "country"], "`--by` must be left out"),
    (["--policy", "cubc"], "did you mean 'cucb'?"),
    (["--policy", "cucb", "--runs", "1"], "`--runs` must be at least 2, got 1"),
    (["--floor", "-1"], "`click_floor` must be a finite number that is at least 0, got -1.0"),
    (["--floor", "1", "--by", "country"], "`features` must be features of the log (none)"),
    (["--floor", "1", "--estimator", "x"], "`estimator` must be one of dr, ips, sn, clipped"),
    (["--floor", "1", "--slots", "0"], "`--slots` must be at least 1, got 0"),
    (["--mix", "mix.csv", "--slots", "2"], "`--slots` must be left out with --mix"),
    (["--mix", "none.csv"], "`mix` must be a CSV file that exists"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(log), *words]) == 2
    assert sentence in capsys.readouterr().err
