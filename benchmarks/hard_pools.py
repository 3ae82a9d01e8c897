"""Where the default loses most: `python -m benchmarks.hard_pools KIND [--pools 10] [--runs 4]`.

    bait     three links in ten are clicked on much and never sell; against queue-ts, and against
             the default with a prior that all clicks share ("pooled prior")
    sparse   20 of 1,200 links of which nine in ten never sell, for 50,000 rounds; prices have a
             heavy tail; against the same two
    bursts   a tenth of the links is clicked on three times as much for short times; against
             queue-ts
    large    8 of 500 links for 5,000 rounds
    tiny     8 of 300 links that are clicked on at 0.1 % on average, for 20,000 rounds

The last two compare the default with the same policy that starts with counts: those of 20 or 100
page views of each link, and those of another pool, of which only the means over its links are
known ("earlier pool"), or known wrongly: three times as many clicks.

The numbers are regret plus priced shortfall, in per cent of the best fixed mix, of the first
1,000 rounds and of all, on pools drawn from a seed. Differences have two standard errors over
the pools.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from queue_ts import QueueTS

from benchmarks.leaderboard.cases import bait_pool, burst_links, sparse_sales
from slotwise.compile import hot
from slotwise.environments import BernoulliLinks
from slotwise.environments.datasets import Dataset, ads_recipe, look_ahead
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import NOBODY, PacedBayes, Policy
from slotwise.policies.link_rates import HALF_WEIGHT, LARGEST_PRIOR, PSEUDO_LINK
from slotwise.policies.paced_bayes import choose
from slotwise.policies.policy import Visitor
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum


def large_pool(seed: int) -> Dataset:
    """Return 500 links with rare clicks, and a floor halfway to the most clicks of a page."""
    rng = np.random.default_rng(seed)
    return _pool(0.3 * rng.beta(1.0, 9.0, 500) + 0.001, rng.beta(1.0, 2.0, 500))


def tiny_pool(seed: int) -> Dataset:
    """Return 300 links that are clicked on once in a thousand views on average."""
    rng = np.random.default_rng(seed)
    return _pool(0.01 * rng.beta(1.0, 9.0, 300), rng.beta(1.0, 2.0, 300))


def sparse_pool(seed: int) -> Dataset:
    """Return 1,200 links of which nine in ten never sell."""
    return sparse_sales(seed).dataset


def _pool(clicks: Any, worth: Any) -> Dataset:
    fields = {"click_rate": clicks, "revenue_per_click": worth, "n_slots": 8, "click_floor": 0.0}
    pool = Dataset(**{**ads_recipe(1).__dict__, **fields, "name": "drawn"})
    outlook = look_ahead(pool)
    return pool.with_floor(0.5 * (outlook.clicks_without_floor + outlook.most_clicks))


Known = Callable[[Dataset, np.random.Generator], tuple[Any, Any, Any]]
"""Returns page views, clicks and sales of each link of a pool that were counted before."""


def views_of_links(n_views: int) -> Known:
    """Return counts of so many page views of each link."""

    def known(pool: Dataset, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        clicks = rng.binomial(n_views, pool.click_rate)
        return n_views, clicks, rng.binomial(clicks, pool.revenue_per_click)

    return known


def means_of_earlier_pool(
    make: Callable[[int], Dataset], seed: int, exaggerated: float = 1.0
) -> Known:
    """Return the means over the links of another pool, as one click on every link.

    That is the weight of the prior that the default fits: its smaller parameter is 1.
    """
    earlier = make(seed)
    click_rate = exaggerated * float(earlier.click_rate.mean())
    worth = float(earlier.revenue_per_click.mean())

    def known(pool: Dataset, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        return 1.0 / click_rate, np.ones(pool.n_links), np.full(pool.n_links, worth)

    return known


def known_state(pool: Dataset, problem: Problem, known: Known, seed: int) -> Any:
    """Return a state of the default that starts from counts of earlier page views."""
    player = Player.start(problem, PacedBayes(), range(pool.n_links))
    n_views, *levels = known(pool, np.random.default_rng(seed))
    every, views = np.arange(pool.n_links), np.full(pool.n_links, float(n_views))
    player.import_counts(
        LinkTotals(NOBODY, level, every, views, sums.astype(float))
        for level, sums in enumerate(levels)
    )
    return player.state


@hot
def choose_by_pooled_prior(state: Any, visitor: Visitor, rng: np.random.Generator) -> None:
    """Choose by a prior of revenue per click that is what all links earn over all their clicks."""
    evidence, pool = state.evidence, state.pool
    clicks = sales = 0.0
    for level in range(2):
        total, weighted = PSEUDO_LINK, PSEUDO_LINK * (0.5 if level == 0 else 0.25)
        for link in range(len(evidence.sales)):
            weight = 1.0 / (evidence.views[level, link] + HALF_WEIGHT)
            hits = evidence.sums[0, link] if level == 0 else evidence.sales[link]
            total += weight * evidence.views[level, link]
            weighted += weight * hits
        clicks, sales = (weighted / total, 0.0) if level == 0 else (clicks, weighted / total)
    mean = min(sales / clicks, LARGEST_PRIOR)
    if pool.rate[1] != mean:
        pool.rate[1] = mean
        state.open.is_changed[:] = True
    choose(state, visitor, rng)


@dataclass(frozen=True)
class PooledPrior(PacedBayes):
    """The default with a prior that all clicks share, except for the expected price."""

    choose: ClassVar[Any] = staticmethod(choose_by_pooled_prior)


class Kind(NamedTuple):
    """How pools are drawn, for how many rounds they are played, and by whom."""

    make: Callable[[int], Dataset]
    n_rounds: int
    against: dict[str, Known | Policy]
    links: Callable[[Dataset, int], Any] = lambda pool, _: BernoulliLinks(
        pool.click_rate, pool.revenue_per_click
    )


def kind_of(name: str, n_rounds: int | None, seed: int) -> Kind:
    """Return a kind of pools; the pool before the first of a seed is the earlier one."""
    if name in ("bait", "sparse", "bursts"):
        rounds = n_rounds or (50_000 if name == "sparse" else 20_000)
        rival: dict[str, Known | Policy] = {"queue-ts": QueueTS(horizon=rounds, prior="fitted")}
        if name == "bursts":
            return Kind(ads_recipe, rounds, rival, burst_links)
        rivals = {**rival, "pooled prior": PooledPrior()}
        if name == "bait":
            return Kind(bait_pool, rounds, rivals)
        return Kind(sparse_pool, rounds, rivals, lambda _, seed: sparse_sales(seed).links)
    make = large_pool if name == "large" else tiny_pool
    known: dict[str, Known | Policy] = {
        f"{n} views of each link known": views_of_links(n) for n in (20, 100)
    }
    known["earlier pool"] = means_of_earlier_pool(make, seed - 1)
    known["earlier pool, clicks x 3"] = means_of_earlier_pool(make, seed - 1, 3.0)
    return Kind(make, n_rounds or (5_000 if name == "large" else 20_000), known)


def lost(links: Any, pool: Dataset, n_rounds: int, n_runs: int, player: Any) -> Any:
    """Return what a player loses on average after 1,000 and all rounds, in per cent.

    It is a policy, or the default with what is `Known`.
    """
    problem = Problem(pool.n_links, pool.n_slots, pool.click_floor)
    best = find_optimum(links, problem, n_rounds)
    at = np.array([min(1_000, n_rounds // 2), n_rounds])
    price = best.shadow_price if math.isfinite(best.shadow_price) else 1.0
    found = []
    for run in range(n_runs):
        policy, state = player, None
        if not isinstance(player, Policy):
            policy, state = PacedBayes(), known_state(pool, problem, player, run)
        clicks, revenue = play_run(policy, links, problem, at, 1, run, state)[0, :2]
        short = np.maximum(0.0, pool.click_floor * at - clicks)
        found.append(100.0 * (1.0 - (revenue - price * short) / (best.value * at)))
    return np.mean(found, axis=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the pools of a kind."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("kind", choices=["bait", "sparse", "bursts", "large", "tiny"])
    asked.add_argument("--pools", type=int, default=10)
    asked.add_argument("--runs", type=int, default=4)
    asked.add_argument("--rounds", type=int)
    asked.add_argument("--seed", type=int, default=300)
    given = asked.parse_args(arguments)
    kind = kind_of(given.kind, given.rounds, given.seed)
    players: dict[str, Any] = {"default": PacedBayes(), **kind.against}
    rows = []
    for seed in range(given.seed, given.seed + given.pools):
        pool = kind.make(seed)
        effort = (kind.links(pool, seed), pool, kind.n_rounds, given.runs)
        rows.append([lost(*effort, one) for one in players.values()])
    table = np.array(rows)
    for place, name in enumerate(players):
        lost_of = table[:, place]
        beyond = lost_of - table[:, 0]
        spread = np.zeros(2)
        if len(beyond) > 1:
            spread = 2.0 * beyond.std(axis=0, ddof=1) / math.sqrt(len(beyond))
        of_spans = [
            f"{lost_of[:, span].mean():.1f} % of {rounds:,} rounds "
            f"({beyond[:, span].mean():+.1f} ± {spread[span]:.1f} against the default)"
            for span, rounds in enumerate((min(1_000, kind.n_rounds // 2), kind.n_rounds))
        ]
        print(f"{given.kind}, {name}: {', '.join(of_spans)}", flush=True)


if __name__ == "__main__":
    main()
