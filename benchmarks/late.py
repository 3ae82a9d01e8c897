"""What late feedback costs a policy: `python -m benchmarks.late [--policy con-ucb] [--runs 20]`.

Eight pools of the paper's sizes are drawn from a seed. Clicks and revenue of a page come some page
views later. The table has the regret, with the clicks that a floor lacks at their price, of the
policy with and without counting open views, the shortfall in per cent of the clicks promised, and
microseconds a round: the median of the runs, which alternate. Below are the geometric means of the
ratios, of the regret with two standard errors of their logarithms. The rules were chosen on the
pools of seed 20; figures are reported on those of seed 30.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from queue_ts import QueueTS

from slotwise.environments import BernoulliLinks, LateFeedback
from slotwise.environments.datasets import (
    ads_recipe,
    coupon_mild_recipe,
    edx_recipe,
    look_ahead,
    tiny_rates_recipe,
)
from slotwise.environments.datasets.dataset import Dataset
from slotwise.policies import ConUCB, PacedBayes, Policy
from slotwise.policies.policy import ignore_open
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum

DELAYS = (0, 200, 1_000)
POLICIES: dict[str, Any] = {one.name: one for one in (PacedBayes, QueueTS, ConUCB)}


def make_policy(name: str, n_rounds: int, counts_open: bool) -> Policy:
    """Return a policy, or one like it that does not count feedback that has yet to come.

    Con-UCB has a narrow width: at that of the paper every bound is 1 for most of the rounds.
    """
    settings: dict[str, dict[str, Any]] = {
        "paced-bayes": {},
        "queue-ts": {"horizon": n_rounds},
        "con-ucb": {"horizon": n_rounds, "gamma_scale": 1 / 1440},
    }
    kind = POLICIES[name]
    if not counts_open:
        blind = {"note_open": staticmethod(ignore_open)}
        kind = dataclass(frozen=True)(type(f"Blind{kind.__name__}", (kind,), blind))
    policy: Policy = kind(**settings[name])
    return policy


def pools(seed: int) -> list[Dataset]:
    """Return eight pools of the paper's sizes, drawn by recipes that no rule was tuned on."""
    drawn = [coupon_mild_recipe(seed + k) for k in range(3)]
    drawn += [ads_recipe(seed + k).with_floor(12.0) for k in range(3)]
    drawn += [tiny_rates_recipe(seed), edx_recipe(seed)]
    return [_within_reach(pool) for pool in drawn]


def _within_reach(pool: Dataset) -> Dataset:
    """Return the pool, with a floor halfway between the best page's clicks and the most possible
    where its own cannot be kept."""
    outlook = look_ahead(pool)
    if outlook.most_clicks > 1.05 * pool.click_floor:
        return pool
    return pool.with_floor(0.5 * (outlook.clicks_without_floor + outlook.most_clicks))


@dataclass(frozen=True)
class Played:
    """Regret with priced shortfall and shortfall, means over runs; median processor time."""

    lost: float
    short: float
    microseconds: float


def played(
    policies: Sequence[Policy], pool: Dataset, delay: int, n_rounds: int, n_runs: int
) -> list[Played]:
    """Play some runs of each policy, which take turns, so that all meet the same load."""
    settled = BernoulliLinks(pool.click_rate, pool.revenue_per_click)
    links = settled if delay == 0 else LateFeedback(settled, delay, delay)
    problem = Problem(pool.n_links, pool.n_slots, pool.click_floor)
    best = find_optimum(settled, problem, n_rounds)
    price = best.shadow_price if math.isfinite(best.shadow_price) else 1.0
    at = np.array([n_rounds])
    found = np.zeros((3, len(policies), n_runs))
    for policy in policies:
        play_run(policy, links, problem, np.array([1]), 1, 0)  # compiles
    for run in range(n_runs):
        for k, policy in enumerate(policies):
            began = time.process_time()
            clicks, revenue = play_run(policy, links, problem, at, 1, run)[0, :2, 0]
            spent = 1e6 * (time.process_time() - began) / n_rounds
            missing = max(0.0, pool.click_floor * n_rounds - clicks)
            lost = best.value * n_rounds - revenue + price * missing
            found[:, k, run] = lost, missing, spent
    lost, short = found[:2].mean(axis=2)
    spent = np.median(found[2], axis=1)
    return [Played(*one) for one in zip(lost, short, spent, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play every pool at every delay, with and without open views."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--runs", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=50_000)
    asked.add_argument("--seed", type=int, default=30)
    asked.add_argument("--policy", choices=POLICIES, default="paced-bayes")
    asked.add_argument("--delays", type=int, nargs="+", default=DELAYS)
    options = asked.parse_args(arguments)
    policies = [make_policy(options.policy, options.rounds, known) for known in (False, True)]
    ratios: dict[int, list[float]] = {delay: [] for delay in options.delays}
    times: dict[int, list[float]] = {delay: [] for delay in options.delays}
    print("| pool | links | delay | without | with | ratio | shortfall, % | µs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for pool in pools(options.seed):
        promised = pool.click_floor * options.rounds
        for delay in options.delays:
            both = played(policies, pool, delay, options.rounds, options.runs)
            before, after = both
            ratios[delay].append(after.lost / before.lost)
            times[delay].append(after.microseconds / before.microseconds)
            missing = ", ".join(f"{100 * one.short / max(promised, 1e-9):.2f}" for one in both)
            spent = ", ".join(f"{one.microseconds:.2f}" for one in both)
            print(
                f"| {pool.name} | {pool.n_links} | {delay} | {before.lost:,.0f} "
                f"| {after.lost:,.0f} | {ratios[delay][-1]:.2f} | {missing} | {spent} |",
                flush=True,
            )
    for delay, found in ratios.items():
        logs = np.log(found)
        error = 2.0 * logs.std(ddof=1) / math.sqrt(len(logs))
        mean = math.exp(logs.mean())
        slower = math.exp(np.log(times[delay]).mean())
        print(
            f"delay {delay}: geometric mean of the ratios {mean:.2f} ± {error:.2f}, "
            f"of the times {slower:.2f}, at most {max(times[delay]):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
