"""Where the default loses most: `python -m benchmarks.hard_pools KIND [--pools 10] [--runs 4]`.

    bait     three links in ten are clicked on much and never sell; against queue-ts
    bursts   a tenth of the links is clicked on three times as much for short times; against
             queue-ts
    known    8 of 500 links for 5,000 rounds, and for its first 1,000; against the default that
             starts with the counts of 20 or 100 views of each link

The numbers are regret plus priced shortfall, in per cent of the best fixed mix, on pools drawn from
a seed. Differences have two standard errors over the pools.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from benchmarks.leaderboard.cases import bait_pool, burst_links
from slotwise.environments import BernoulliLinks
from slotwise.environments.datasets import Dataset, ads_recipe, look_ahead
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import NOBODY, PacedBayes, QueueTS
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum


def large_pool(seed: int) -> Dataset:
    """Return 500 links with rare clicks, and a floor halfway to the most clicks of a page."""
    rng = np.random.default_rng(seed)
    clicks, worth = 0.3 * rng.beta(1.0, 9.0, 500) + 0.001, rng.beta(1.0, 2.0, 500)
    pool = ads_recipe(seed)
    fields = {"click_rate": clicks, "revenue_per_click": worth, "n_slots": 8, "click_floor": 0.0}
    pool = Dataset(**{**pool.__dict__, **fields, "name": "large"})
    outlook = look_ahead(pool)
    return pool.with_floor(0.5 * (outlook.clicks_without_floor + outlook.most_clicks))


def known_state(pool: Dataset, problem: Problem, n_views: int, seed: int) -> Any:
    """Return a state of the default that starts from counts of earlier page views."""
    rng = np.random.default_rng(seed)
    player = Player.start(problem, PacedBayes(), range(pool.n_links))
    clicks = rng.binomial(n_views, pool.click_rate)
    sales = rng.binomial(clicks, pool.revenue_per_click)
    every, views = np.arange(pool.n_links), np.full(pool.n_links, float(n_views))
    player.import_counts(
        LinkTotals(NOBODY, level, every, views, sums.astype(float))
        for level, sums in enumerate((clicks, sales))
    )
    return player.state


def lost(links: Any, pool: Dataset, n_rounds: int, n_runs: int, policy: Any, n_known: int) -> Any:
    """Return what a policy loses on average after 1,000 and all rounds, in per cent."""
    problem = Problem(pool.n_links, pool.n_slots, pool.click_floor)
    best = find_optimum(links, problem, n_rounds)
    at = np.array([1_000, n_rounds])
    price = best.shadow_price if math.isfinite(best.shadow_price) else 1.0
    found = []
    for run in range(n_runs):
        state = known_state(pool, problem, n_known, run) if n_known else None
        clicks, revenue = play_run(policy, links, problem, at, 1, run, state)[0, :2]
        short = np.maximum(0.0, pool.click_floor * at - clicks)
        found.append(100.0 * (1.0 - (revenue - price * short) / (best.value * at)))
    return np.mean(found, axis=0)


def main() -> None:
    """Play the pools of a kind."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("kind", choices=["bait", "bursts", "known"])
    asked.add_argument("--pools", type=int, default=10)
    asked.add_argument("--runs", type=int, default=4)
    asked.add_argument("--rounds", type=int, default=20_000)
    asked.add_argument("--seed", type=int, default=300)
    given = asked.parse_args()
    n_rounds = 5_000 if given.kind == "known" else given.rounds
    players: dict[str, tuple[Any, int]] = {"default": (PacedBayes(), 0)}
    if given.kind == "known":
        players |= {f"{n} views known": (PacedBayes(), n) for n in (20, 100)}
    else:
        players["queue-ts"] = (QueueTS(horizon=n_rounds, prior="fitted"), 0)
    rows = []
    for seed in range(given.seed, given.seed + given.pools):
        pool = bait_pool(seed) if given.kind == "bait" else large_pool(seed)
        if given.kind == "bursts":
            pool = ads_recipe(seed)
        links: Any = BernoulliLinks(pool.click_rate, pool.revenue_per_click)
        if given.kind == "bursts":
            links = burst_links(pool, seed)
        rows.append([lost(links, pool, n_rounds, given.runs, *one) for one in players.values()])
    table = np.array(rows)
    for place, name in enumerate(players):
        early, whole = table[:, place].mean(axis=0)
        beyond = table[:, place, 1] - table[:, 0, 1]
        spread = 2.0 * beyond.std(ddof=1) / math.sqrt(len(beyond)) if len(beyond) > 1 else 0.0
        print(
            f"{given.kind}, {name}: {early:.1f} % of 1,000 rounds, {whole:.1f} % of all; "
            f"{beyond.mean():+.1f} ± {spread:.1f} against the default",
            flush=True,
        )


if __name__ == "__main__":
    main()
