"""Experiments with more levels than two: every floor is played, recorded and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.environments import BernoulliLevels
from slotwise.errors import InvalidInput
from slotwise.policies import CUCB, ConUCB, LExp
from slotwise.problem import Problem
from slotwise.selection import solve_floors
from slotwise.simulation import Experiment, Results, best_fixed_mix, simulate
from slotwise.simulation.engine import DEFICIT, TOTAL, VIOLATION, play_run

LEVELS = ("click", "cart", "purchase")
FLOORS = {"click": 3.4, "cart": 2.0}
RATES = {"purchase": 0.7}
N_ROUNDS = 400


def shop(n_links: int = 25, seed: int = 3) -> BernoulliLevels:
    return BernoulliLevels(np.random.default_rng(seed).random((3, n_links)), levels=LEVELS)


def problem_of(links: BernoulliLevels, **asked: Any) -> Problem:
    return Problem(links.n_links, 4, levels=LEVELS, horizon=N_ROUNDS, **asked)


@pytest.fixture(scope="module")
def results() -> Results:
    links = shop()
    best = best_fixed_mix(links, problem_of(links, floors=FLOORS, rate_floors=RATES))
    policies = {"con-ucb": ConUCB(gamma_scale=1e-3), "cucb": CUCB(), "oracle": best}
    return simulate(
        links,
        policies,
        n_slots=4,
        floors=FLOORS,
        rate_floors=RATES,
        n_rounds=N_ROUNDS,
        n_runs=3,
        n_threads=1,
    )


def test_the_optimum_is_that_of_all_floors(results: Results) -> None:
    rates = shop().rates(N_ROUNDS)
    demands = [rates[0], rates[1], rates[2] - 0.7 * rates[1]]
    best = solve_floors(rates[2], demands, 4, [3.4, 2.0, 0.0])
    optimum = results.config["optimum"]
    assert optimum["value"] == pytest.approx(best.value)
    assert optimum["status"] == best.status == "binding"
    assert list(optimum["shadow_prices"]) == ["click", "cart", "purchase/cart"]
    assert list(optimum["shadow_prices"].values()) == pytest.approx(best.shadow_prices.tolist())
    assert list(optimum["amounts"].values()) == pytest.approx(best.amounts.tolist())
    assert results.config["floors"] == FLOORS
    assert results.config["rate_floors"] == RATES


def test_the_oracle_keeps_every_floor_on_average(results: Results) -> None:
    # 1,200 rounds of at most 4: by Hoeffding a total strays by 190 once in 10^6
    for name, floor in {**FLOORS, "purchase/cart": 0.0}.items():
        total = results.final("oracle", f"total:{name}").sum()
        assert total >= floor * 3 * N_ROUNDS - 4 * np.sqrt(3 * N_ROUNDS * np.log(1e6) / 2)


def test_every_floor_has_its_measures(results: Results) -> None:
    for name in ("click", "cart", "purchase/cart"):
        for measure in ("total", "violation", "deficit", "shortfall"):
            assert f"{measure}:{name}" in results.metrics
    for label in results.labels:
        totals = results.totals[label]
        np.testing.assert_array_equal(totals["total:click"], totals["clicks"])
        np.testing.assert_array_equal(totals["total:purchase"], totals["reward"])
        np.testing.assert_array_equal(totals["violation:click"], totals["violation"])
        surplus = totals["total:purchase"] - 0.7 * totals["total:cart"]
        np.testing.assert_allclose(totals["total:purchase/cart"], surplus, atol=1e-9)
        missing = results.over_time(label, "shortfall:purchase/cart")
        np.testing.assert_allclose(missing, np.maximum(0.0, -surplus), atol=1e-9)
        cart_missing = 2.0 * results.rounds - totals["total:cart"]
        np.testing.assert_allclose(
            results.over_time(label, "shortfall:cart"), np.maximum(0.0, cart_missing)
        )
        for name in ("cart", "purchase/cart"):
            assert np.all(
                totals[f"deficit:{name}"] >= results.over_time(label, f"shortfall:{name}")
            )
            assert np.all(totals[f"violation:{name}"] >= totals[f"deficit:{name}"] - 1e-9)


def test_violation_and_deficit_of_a_rate_by_hand() -> None:
    # one link that is always clicked and put into the cart every time, never bought
    links = BernoulliLevels([[1.0], [1.0], [0.0]], levels=LEVELS)
    problem = Problem(1, 1, levels=LEVELS, rate_floors={"purchase": 0.25}, horizon=8)
    record = play_run(CUCB(), links, problem, np.array([4, 8]), seed=1, run=0)
    assert record.shape == (3, 4, 2)
    assert record[TOTAL, 3].tolist() == [-1.0, -2.0]
    assert record[VIOLATION, 3].tolist() == [1.0, 2.0]
    assert record[DEFICIT, 3].tolist() == [1.0, 2.0]


def test_results_survive_a_file(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "shop.parquet")
    loaded = Results.load(tmp_path / "shop.parquet")
    assert loaded.metrics == results.metrics
    np.testing.assert_array_equal(
        loaded.final("con-ucb", "shortfall:cart"), results.final("con-ucb", "shortfall:cart")
    )


def test_floors_out_of_reach_say_how_far() -> None:
    links = BernoulliLevels([[0.8, 0.3], [0.1, 1.0]], levels=LEVELS[:2])
    problem = Problem(2, 1, levels=LEVELS[:2], floors={"click": 0.8, "cart": 0.3}, horizon=10)
    best = Experiment(links, problem, {"cucb": CUCB()}, 1, 1).optimum()
    # x of link 0: clicks 0.3 + 0.5 x of 0.8, carts 0.3 - 0.22 x of 0.3; equal parts missing
    share = (0.5 / 0.8) / (0.5 / 0.8 + 0.22 / 0.3)
    assert best.status == "infeasible"
    assert best.probabilities.tolist() == pytest.approx([share, 1 - share])
    assert best.largest_shortfall == pytest.approx(0.22 / 0.3 * share)
    assert best.plain()["shadow_prices"] == {"click": None, "cart": None}


def test_weighed_rewards_are_what_is_earned() -> None:
    links = shop(8)
    results = simulate(
        links,
        [ConUCB(gamma_scale=1e-3), LExp()],
        n_slots=2,
        rewards={"click": 0.5, "purchase": 2.0},
        n_rounds=100,
        n_runs=2,
        n_threads=1,
    )
    value = 0.5 * links.rates(100)[0] + 2.0 * links.rates(100)[2]
    assert results.config["optimum"]["value"] == pytest.approx(np.sort(value)[-2:].sum())
    totals = results.totals["lexp"]
    np.testing.assert_allclose(
        totals["reward"], 0.5 * totals["total:click"] + 2.0 * totals["total:purchase"]
    )


def test_a_floor_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`floors` must be by level"):
        simulate(shop(), [CUCB()], n_slots=2, floors={"like": 1.0}, n_rounds=10)
