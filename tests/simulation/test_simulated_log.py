"""Logs of the engine: the pages of a run, with exact probabilities, ready to be evaluated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from slotwise.cli.main import main
from slotwise.environments import (
    BernoulliLevels,
    BernoulliLinks,
    IntervalLinks,
    LateFeedback,
    SegmentLinks,
)
from slotwise.errors import InvalidInput
from slotwise.evaluation import LinkMix, evaluate
from slotwise.policies import CUCB, PacedBayes, make_policy
from slotwise.problem import Problem, Rule
from slotwise.simulation import Experiment, log_run, run_experiment, simulate_log

CLICKS = np.array([0.5, 0.3, 0.2, 0.1, 0.4])
PER_CLICK = np.array([0.1, 0.4, 0.6, 0.9, 0.3])


def links() -> BernoulliLinks:
    return BernoulliLinks(CLICKS, PER_CLICK)


@pytest.mark.parametrize("late", ["no", "fixed", "random"])
@pytest.mark.parametrize("name", ["paced-bayes", "queue-ts", "uniform"])
def test_without_exploration_it_is_the_run_of_the_results(
    tmp_path: Path, name: str, late: str
) -> None:
    spread = 1.0 if late == "random" else 0.0
    world = links() if late == "no" else LateFeedback(links(), 3, 7, spread)
    problem = Problem(5, 2, 0.4, horizon=300)
    experiment = Experiment(world, problem, {name: make_policy(name)}, n_runs=2, seed=4)
    results = run_experiment(experiment, n_threads=1)
    log_run(experiment, name, tmp_path / "log", run=1)
    log = pq.read_table(tmp_path / "log").to_pydict()
    assert sum(log["clicked"]) == results.totals[name]["clicks"][1, -1]
    assert sum(log["revenue"]) == pytest.approx(results.totals[name]["reward"][1, -1])
    assert set(log["policy"]) == {name}
    assert len(set(log["page_id"])) == 300


@pytest.mark.parametrize("name", ["paced-bayes", "con-ucb", "uniform"])
def test_pages_of_a_log_keep_the_rules(tmp_path: Path, name: str) -> None:
    rules = (Rule("partner", [2, 3], at_least=1.0), Rule("others", [0, 4], at_most=0.5))
    problem = Problem(5, 2, 0.4, horizon=200, rules=rules)
    experiment = Experiment(links(), problem, {name: make_policy(name)}, n_runs=1, seed=4)
    results = run_experiment(experiment, n_threads=1)
    log_run(experiment, name, tmp_path / "log")
    log = pq.read_table(tmp_path / "log").to_pydict()
    assert sum(log["clicked"]) == results.totals[name]["clicks"][0, -1]
    log_run(experiment, name, tmp_path / "explored", explore=0.3)
    explored = pq.read_table(tmp_path / "explored").to_pydict()
    for pages in (log, explored):
        shown = zip(pages["page_id"], pages["link"], strict=True)
        partners = {page for page, link in shown if link in ("link-2", "link-3")}
        assert len(partners) == 200
    assert min(explored["min_probability"]) > 0.0


def test_a_simulated_log_is_evaluated_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both intervals miss with a probability of at most 1e-7."""
    monkeypatch.chdir(tmp_path)
    simulate_log("log", links(), PacedBayes(), 2, 0.4, n_rounds=3000, explore=0.2, seed=2)
    Path("mine.csv").write_text("link,probability\nlink-1,1\nlink-2,0.5\nlink-3,0.5\n")
    asked = ["evaluate", "log", "--mix", "mine.csv", "--json", "--confidence", "0.9999999"]
    assert main(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    wanted = np.array([0.0, 1.0, 0.5, 0.5, 0.0])
    for level, truth in (("clicks", wanted @ CLICKS), ("revenue", wanted @ (CLICKS * PER_CLICK))):
        assert answer[level]["low"] <= truth <= answer[level]["high"]
        assert answer[level]["high"] - answer[level]["low"] < 0.6
    assert answer["uncovered"] == 0
    assert answer["notes"] == []


def test_probabilities_are_those_that_chose_the_pages(tmp_path: Path) -> None:
    """Weights of the uniform page have the mean 1: 6 standard errors fail below 1e-6."""
    simulate_log(tmp_path, links(), CUCB(), 2, n_rounds=4000, explore=0.3)
    log = pq.read_table(tmp_path).to_pydict()
    assert min(log["probability"]) >= min(log["min_probability"]) >= 0.3 * 2 / 5 - 1e-12
    for place in range(5):
        weights = np.zeros(4000)
        rows = [row for row, link in enumerate(log["link"]) if link == f"link-{place}"]
        pages = np.array(log["time_us"])[rows] // 1_000_000 - 1
        weights[pages] = 1 / np.array(log["probability"])[rows]
        assert abs(weights.mean() - 1) < 6 * weights.std() / 4000**0.5


def test_visitors_and_levels_are_columns(tmp_path: Path) -> None:
    visitors = [{"device": "phone"}, {"device": "desktop"}]
    rates = [[0.4, 0.1, 0.2], [0.1, 0.2, 0.3]]
    segments = SegmentLinks(rates, rates, [0.75, 0.25], visitors=visitors)
    simulate_log(tmp_path / "visitors", segments, PacedBayes(), 1, n_rounds=400, explore=0.3)
    log = pq.read_table(tmp_path / "visitors").to_pydict()
    assert set(log["visitor.device"]) == {"phone", "desktop"}
    mixes: dict[tuple[str, ...], dict[str, float]] = {
        ("phone",): {"link-0": 1.0},
        ("desktop",): {"link-2": 1.0},
    }
    answer = evaluate(tmp_path / "visitors", LinkMix(mixes, ["device"]))
    assert answer.mix["link-0"] == pytest.approx(
        log["visitor.device"].count("phone") / 400, abs=1e-9
    )
    three = BernoulliLevels([[0.5, 0.4], [0.5, 0.5], [0.5, 0.5]], ("click", "cart", "sale"))
    simulate_log(tmp_path / "levels", three, CUCB(), 1, n_rounds=50)
    log = pq.read_table(tmp_path / "levels").to_pydict()
    assert 0 < sum(log["cart"]) < sum(log["clicked"])
    assert sum(log["revenue"]) <= sum(log["cart"])


def test_what_cannot_be_logged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="views_per_round"):
        simulate_log(tmp_path, IntervalLinks(CLICKS, PER_CLICK, 10), CUCB(), 2, n_rounds=5)
    with pytest.raises(InvalidInput, match="`explore` must be from 0 to 1, got 2"):
        simulate_log(tmp_path, links(), CUCB(), 2, n_rounds=5, explore=2)
