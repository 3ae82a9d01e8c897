"""Simulations under rules: pages within them, regret against the best mix within them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import slotwise
from slotwise.environments import BernoulliLevels
from slotwise.environments.visitor_shops import segments_of
from slotwise.errors import InvalidInput
from slotwise.problem import Problem, Rule
from slotwise.simulation.engine import play_run
from slotwise.simulation.experiment_file import load_experiment
from slotwise.simulation.optimum import find_optimum

LINKS = slotwise.BernoulliLinks([0.5, 0.4, 0.3, 0.2, 0.1], [0.2, 0.3, 0.4, 0.5, 0.9])
RULES = (Rule("one", (0, 1), at_most=1), Rule("last", (4,), at_least=0.3))


def test_the_optimum_is_within_the_rules() -> None:
    free, ruled = (
        find_optimum(LINKS, Problem(5, 2, 0.5, horizon=100, rules=rules), 100)
        for rules in ((), RULES)
    )
    assert ruled.value < free.value
    assert ruled.probabilities[:2].sum() <= 1.0 + 1e-9
    assert ruled.probabilities[4] >= 0.3 - 1e-9


def test_policies_learn_the_best_mix_within_the_rules() -> None:
    problem = Problem(5, 2, 0.5, horizon=3_000, rules=RULES)
    policy = slotwise.PacedBayes()
    state = policy.start(problem)
    record = play_run(policy, LINKS, problem, np.array([3_000]), 1, 0, state)
    best = find_optimum(LINKS, problem, 3_000).value
    assert record[0, 1, 0] / 3_000 == pytest.approx(best, rel=0.1)
    views = policy.knowledge(state)["views"][0]
    assert views[:2].sum() <= 3_000
    assert views[4] == pytest.approx(900, abs=160)  # five standard deviations and more


@pytest.mark.parametrize("weights", [None, [1.4, 0.6]])
def test_visitors_and_slots_are_compared_with_the_best_mix_within_the_rules(
    weights: list[float] | None,
) -> None:
    rates = [0.5, 0.4, 0.3, 0.2, 0.1], [0.2, 0.3, 0.4, 0.5, 0.9]
    shop = segments_of(rates, [0.6, 0.4], spread=0.7, seed=2, slot_weights=weights)
    free, ruled = (
        find_optimum(shop, Problem(5, 2, 0.4, horizon=100, rules=rules), 100)
        for rules in ((), RULES)
    )
    assert ruled.value < free.value
    assert ruled.value_without_visitors is not None
    assert ruled.value_without_visitors < ruled.value
    runs = slotwise.simulate(
        shop, ["paced-bayes"], 2, 0.4, n_rounds=400, n_runs=1, rules=RULES, n_threads=1
    )
    assert runs.config["optimum"]["value"] == pytest.approx(ruled.value)


def test_simulate_takes_rules() -> None:
    runs = slotwise.simulate(
        LINKS, [slotwise.CUCB()], 2, 0.0, n_rounds=300, n_runs=1, rules=RULES, n_threads=1
    )
    assert runs.config["rules"][0]["name"] == "one"
    with pytest.raises(InvalidInput, match="`links` of rule 'x' must be links of the pool, got 9"):
        slotwise.simulate(LINKS, [slotwise.CUCB()], 2, n_rounds=10, rules=[Rule("x", (9,), 1)])


def test_experiment_files_take_rules(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    lines = ['title = "x"', 'dataset = "edx-like"', "n_rounds = 10", "n_runs = 1", "[[rules]]"]
    lines += ['name = "few"', "links = [0, 1]", "at_most = 1"]
    policies = ["[[policies]]", 'name = "cucb"']
    file.write_text("\n".join([*lines, *policies]))
    rules = load_experiment(file).experiment().problem.rules
    assert rules == (Rule("few", (0, 1), at_most=1),)
    file.write_text("\n".join([*lines, "at_least = 9", *policies]))
    with pytest.raises(slotwise.SlotwiseError, match="`at_most` of rule 'few' must be at least 9"):
        load_experiment(file).experiment()


def test_the_optimum_with_floors_of_levels_and_rules_equals_highs() -> None:
    statuses: Counter[str] = Counter()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shop = BernoulliLevels(rng.random((3, 12)), levels=("click", "cart", "purchase"))
        rates, links = shop.rates(10), rng.permutation(12)
        groups = (links[:4], links[4:7], links[2:6] if seed % 2 else links[7:9])  # some cross
        bounds = [(0.0, 1.0), (0.7, 2.0), (0.4, 1.5)]
        rules = tuple(
            Rule(f"rule {k}", group.tolist(), *pair)
            for k, (group, pair) in enumerate(zip(groups, bounds, strict=True))
        )
        floors = {"click": 3.4 * rng.random(), "cart": 2.6 * rng.random()}
        named = {"levels": shop.levels, "floors": floors, "rate_floors": {"purchase": 0.3}}
        problem = Problem(12, 4, horizon=10, rules=rules, **named)  # type: ignore[arg-type]
        demands = [rates[0], rates[1], rates[2] - 0.3 * rates[1]]
        rows, most = [-one for one in demands], [-floors["click"], -floors["cart"], 0.0]
        for group, (least, cap) in zip(groups, bounds, strict=True):
            row = np.isin(np.arange(12), group).astype(np.float64)
            rows, most = [*rows, -row, row], [*most, -least, cap]
        best = linprog(
            -rates[2], np.array(rows), most, np.ones((1, 12)), [4], bounds=(0, 1), method="highs"
        )
        if best.status == 2:
            statuses["out of reach"] += 1
            with pytest.raises(InvalidInput, match="every floor can be kept within them"):
                find_optimum(shop, problem, 10)
            continue
        found = find_optimum(shop, problem, 10)
        assert found.value == pytest.approx(-best.fun, abs=1e-7)
        assert (np.array(rows) @ found.probabilities <= np.array(most) + 1e-7).all()
        assert list(found.shadow_prices) == ["click", "cart", "purchase/cart"]
        statuses[found.status] += 1
    assert min(statuses[name] for name in ("out of reach", "slack", "binding")) > 4, statuses


def test_policies_play_floors_of_levels_within_rules() -> None:
    levels = ("click", "cart", "purchase")
    shop = BernoulliLevels(np.random.default_rng(1).random((3, 8)), levels=levels)
    rule = Rule("few", (0, 1, 2), at_most=1)
    runs = slotwise.simulate(
        shop,
        ["paced-bayes", "con-ucb", "cucb"],
        3,
        floors={"click": 1.2, "cart": 0.5},
        n_rounds=60,
        n_runs=1,
        rules=[rule],
        n_threads=1,
    )
    assert runs.config["optimum"]["status"] in ("slack", "binding")
    assert all(runs.final(label, "reward")[0] > 0.0 for label in runs.labels)
