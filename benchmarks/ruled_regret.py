"""The default's regret under three typical sets of rules, over that without rules.

    python -m benchmarks.ruled_regret [--runs 5] [--rounds 20000] [--seed 11]

Caps on 20 groups, half a slot guaranteed to 6 groups, and rules for 9 links, on data
sets of the leaderboard. Runs with and without rules have the same visitors. "no less" is what the
theory of bandits asks for at least: of every link that is not in the best mix

    min(gap * views, 2 variance ln(rounds) / gap)

summed, with the rules over without, where a gap is to the worst link that the best mix has in its
place: on the page, or in a group that has its guarantee only. A guarantee makes gaps smaller, since
the links of a group compete with each other for its slots.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np

from benchmarks.leaderboard.cases import plain_links
from slotwise.arrays import Floats
from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.policies import default_policy
from slotwise.problem import Problem, Rule
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum

DATASETS = ("coupon-mild", "edx-like", "ads-like")


def rule_sets(pool: Dataset, seed: int) -> dict[str, tuple[Rule, ...]]:
    """Return no rules, and the three sets for a pool."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.arange(pool.n_links) % 20)
    groups = [tuple(np.flatnonzero(group == k).tolist()) for k in range(20)]
    groups = [links for links in groups if len(links) > 1]
    some = rng.permutation(pool.n_links)[:9].tolist()
    most = max(1, math.ceil(1.5 * pool.n_slots / len(groups)))
    return {
        "none": (),
        "caps": tuple(Rule(f"g{k}", one, at_most=most) for k, one in enumerate(groups)),
        "guarantees": tuple(Rule(f"g{k}", one, at_least=0.5) for k, one in enumerate(groups[:6])),
        "links": tuple(
            Rule(f"l{link}", (link,), **({"at_least": 0.1} if k % 2 else {"at_most": 0.5}))
            for k, link in enumerate(some)
        ),
    }


def no_less(pool: Dataset, rules: Sequence[Rule], n_rounds: int) -> float:
    """Return the regret that exploring costs at least, roughly."""
    problem = Problem(pool.n_links, pool.n_slots, pool.click_floor, rules=tuple(rules))
    best = find_optimum(plain_links(pool), problem, n_rounds)
    clicks, worth, x = pool.click_rate, pool.revenue_per_click, best.probabilities
    price = min(best.shadow_price, 1e6)
    score = clicks * (worth + price)
    variance = clicks * (worth * (1.0 + 2.0 * price) + price**2) - score**2
    is_held = np.zeros(len(x), bool)
    for rule in rules:
        links = np.array(rule.links)
        is_held[links] |= rule.at_least > 0.0 and bool(x[links].sum() <= rule.at_least + 1e-9)
    total = _cost(score, variance, x, ~is_held, n_rounds, 1.0)
    for rule in rules:
        links = np.array(rule.links)
        if is_held[links].all() and len(links) > 1:
            inside = np.zeros(len(x), bool)
            inside[links] = True
            total += _cost(score, variance, x, inside, n_rounds, rule.at_least)
    return total


def _cost(
    score: Floats, variance: Floats, x: Floats, inside: np.ndarray, n_rounds: int, share: float
) -> float:
    """Return the cost of telling links apart that compete for the same slots."""
    edge = score[inside & (x > 1e-9)].min()
    others = inside & (x <= 1e-9)
    gap = np.maximum(edge - score[others], 1e-9)
    views = share * n_rounds / max(1, others.sum())
    return float(np.minimum(gap * views, 2.0 * variance[others] * math.log(n_rounds) / gap).sum())


def regrets(
    pool: Dataset, rules: Sequence[Rule], n_rounds: int, n_runs: int, seed: int
) -> tuple[Floats, float]:
    """Return the regret of each run, with missing clicks at their price, and the mean shortfall.

    Both are expected of the links that were shown: what visitors happened to do adds noise only.
    """
    links = plain_links(pool)
    problem = Problem(
        pool.n_links, pool.n_slots, pool.click_floor, horizon=n_rounds, rules=tuple(rules)
    )
    best = find_optimum(links, problem, n_rounds)
    policy, checkpoints, found, missed = default_policy(), np.array([n_rounds]), [], 0.0
    price = best.shadow_price if math.isfinite(best.shadow_price) else 0.0
    for run in range(n_runs):
        state = policy.start(problem)
        play_run(policy, links, problem, checkpoints, seed, run, state)
        views = policy.knowledge(state)["views"][0]
        shortfall = max(0.0, pool.click_floor * n_rounds - float(views @ pool.click_rate))
        missed += shortfall / n_runs
        value = float(views @ (pool.click_rate * pool.revenue_per_click))
        found.append(best.value * n_rounds - value + price * shortfall)
    return np.array(found), missed


def main() -> None:
    """Print a row for each data set and set of rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--datasets", nargs="*", default=DATASETS)
    asked = parser.parse_args()
    print("data set     rules        regret  shortfall   ratio (95 %)          no less")
    for name in asked.datasets:
        pool = load_dataset(name)
        free, bound = np.zeros(0), 0.0
        for rules, chosen in rule_sets(pool, asked.seed).items():
            found, missed = regrets(pool, chosen, asked.rounds, asked.runs, asked.seed)
            least = no_less(pool, chosen, asked.rounds)
            if not chosen:
                free, bound = found, least
            ratio = found.mean() / free.mean()
            # of a ratio of means over the same visitors
            error = (found - ratio * free).std(ddof=1) / math.sqrt(asked.runs) / free.mean()
            interval = f"{ratio:.3f} ({ratio - 2 * error:.3f} to {ratio + 2 * error:.3f})"
            row = f"{name:12} {rules:10} {found.mean():8.1f} {missed:10.1f}   {interval:24}"
            print(f"{row} {least / bound:.3f}", flush=True)


if __name__ == "__main__":
    main()
