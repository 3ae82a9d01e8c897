"""Simulations with an own page: the promise, exact probabilities, files and results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotwise
from slotwise import BernoulliLinks, Rule
from slotwise.compile import can_be_compiled
from slotwise.environments import LateFeedback
from slotwise.errors import InvalidConfig, InvalidInput
from slotwise.policies import CUCB
from slotwise.simulation import load_experiment, simulate
from slotwise.simulation.engine import functions_of
from slotwise.simulation.promised_runs import _mixed_page, _mixed_page_within

LINKS = BernoulliLinks([0.4, 0.35, 0.3, 0.7, 0.6, 0.2], [0.8] * 6)
OWN = [0, 1]
OF_OWN = 0.8 * 0.75


def relative(results: Any, label: str) -> Any:
    """Return revenue relative to the own page at the checkpoints, one row a run."""
    return results.totals[label]["reward"] / (OF_OWN * results.rounds)


@pytest.mark.parametrize("has_rules", [False, True])
def test_the_loop_with_an_own_page_can_be_compiled(has_rules: bool) -> None:
    page, *_ = functions_of(CUCB(), LINKS, has_rules)
    mixed = _mixed_page_within if has_rules else _mixed_page
    assert can_be_compiled(mixed(page))


@pytest.mark.parametrize("late", [0, 200])
def test_chosen_pages_get_their_share_and_the_promise_is_kept(late: int) -> None:
    links = LateFeedback(LINKS, late, late)
    asked = {"n_slots": 2, "n_rounds": 2_500, "n_runs": 1, "own_page": OWN, "n_threads": 1}
    results = simulate(links, ["uniform", "cucb"], keep=0.9, **asked)  # type: ignore[arg-type]
    late_part = results.rounds >= 1_000
    for label in ("uniform", "cucb"):  # realised revenue: 5 deviations of 1,000 views are 16 %
        assert relative(results, label)[:, late_part].min() > 0.75
    assert relative(results, "cucb")[:, -1].mean() > 1.0
    assert results.config["policies"][0]["own_page"]["revenue"] == pytest.approx(OF_OWN)


def test_without_a_promise_the_holdout_has_own_pages() -> None:
    results = simulate(LINKS, "uniform", 2, n_rounds=4_000, n_runs=2, own_page=OWN, n_threads=1)
    expected = 0.05 + 0.95 * 2 * np.mean([0.4, 0.35, 0.3, 0.7, 0.6, 0.2]) / 0.75
    # a deviation of the mean of 8,000 views is 1.3 %
    assert relative(results, "uniform")[:, -1].mean() == pytest.approx(expected, rel=0.08)


def test_rules_hold_for_own_pages_too() -> None:
    capped = [Rule("one", [0, 1], at_most=1)]
    results = simulate(
        *(LINKS, "cucb", 2),
        n_rounds=300,
        n_runs=1,
        own_page=[0, 1, 2],
        keep=0.9,
        rules=capped,
        n_threads=1,
    )
    own = results.config["policies"][0]["own_page"]
    assert own["revenue"] == pytest.approx(0.8 * 0.7)  # links 0 and 2


FILE = """
title = "own page"
dataset = "coupon-like"
n_rounds = 200
n_runs = 2
own_page = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
keep = 0.9
[[policies]]
name = "uniform"
[[policies]]
name = "uniform"
label = "without"
own_page = []
"""


def test_a_file_has_an_own_page_for_all_or_for_one_policy(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    experiment = load_experiment(path).experiment()
    assert list(experiment.own_pages) == ["uniform"]
    results = slotwise.simulation.run_experiment(experiment, n_threads=1)
    assert "own_page" in results.config["policies"][0]
    assert "own_page" not in results.config["policies"][1]
    stored = slotwise.simulation.run_experiment(experiment, n_threads=1, parts=tmp_path / "parts")
    rewards = {label: results.final(label, "reward").tolist() for label in results.labels}
    assert rewards["uniform"] != rewards["without"]
    assert {label: stored.final(label, "reward").tolist() for label in results.labels} == rewards
    path.write_text(FILE.replace("keep = 0.9", "keep = 2"))
    with pytest.raises(InvalidConfig, match=r"`policies.0`: `keep` must be a number between"):
        load_experiment(path).experiment()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"own_page": [0]}, "`own_page` must be an order with 2 links"),
        ({"own_page": [0, 9]}, "`own_page` must be links of the pool, got 9"),
        ({"keep": 0.9}, "`keep` must be given with an own page"),
        ({"own_page": OWN, "slot_weights": [1.5, 0.5]}, "`own_page` must be for slots"),
    ],
)
def test_what_cannot_be_simulated_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(LINKS, "uniform", 2, n_rounds=10, n_runs=1, **asked)
