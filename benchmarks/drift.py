"""Whether floors are kept when rates fall: `python -m benchmarks.drift [--runs 4] [--seed 60]`.

The click rates of all links fall together, at once half-way or slowly over the middle half, or
follow a daily rhythm (20 days) or a weekly one (3 weeks). Six pools are drawn from a seed; their
floor is a share of the most clicks that a page can have after the fall: 0.8, and 0.95. The table
has the shortfall, what is allowed of it, and what was lost of the revenue of the best fixed mix at
the mean rates. Rules were chosen on the pools of seed 40; figures are reported on seed 60.
`--visitors` plays two shops whose visitors have features instead: 5 of 60 links for six segments,
and 5 of 60 links for three features whose effects add up.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.leaderboard.cases import fresh_cases
from benchmarks.leaderboard.drifting_segments import DriftingSegments
from benchmarks.shops import feature_shop, segment_shop
from slotwise.environments import BernoulliLinks, DriftingLinks, Environment, SegmentLinks
from slotwise.environments.datasets import Dataset, ads_recipe, coupon_recipe
from slotwise.policies import PacedBayes
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum

N_STATIONS = 201
SHARES = (0.8, 0.95)

Rhythm = Callable[[float], float]


def sudden(part: float) -> Rhythm:
    """Return a fall to `part` half-way."""
    return lambda time: part if time >= 0.5 else 1.0


def gradual(part: float) -> Rhythm:
    """Return a fall to `part` over the middle half."""
    return lambda time: 1.0 - (1.0 - part) * min(1.0, max(0.0, 2.0 * time - 0.5))


def wave(periods: int, height: float) -> Rhythm:
    """Return a rhythm around 1."""
    return lambda time: 1.0 + height * math.cos(2.0 * math.pi * periods * time)


SCENARIOS: dict[str, Rhythm] = {
    "constant": lambda _: 1.0,
    **{f"sudden {part}": sudden(part) for part in (0.9, 0.8, 0.65, 0.5)},
    **{f"gradual {part}": gradual(part) for part in (0.9, 0.8, 0.65, 0.5)},
    "daily": wave(20, 0.3),
    "weekly": wave(3, 0.2),
}


def pools(seed: int) -> list[Dataset]:
    """Return pools of the paper's sizes and smaller ones."""
    drawn = [coupon_recipe(seed + k) for k in range(2)]
    drawn += [ads_recipe(seed + k) for k in range(2)]
    small = (case.dataset for case in fresh_cases(30, seed))
    return drawn + [one for one in small if one.click_floor > 0.3][:2]


@dataclass(frozen=True)
class Drifting:
    """Links whose click rates are multiplied by the factors of a rhythm."""

    name: str
    n_slots: int
    most_clicks: float
    follow: Callable[[list[float]], Environment]

    def links(self, rhythm: Rhythm) -> Environment:
        """Return the links at the rates of every station."""
        return self.follow([rhythm(k / (N_STATIONS - 1)) for k in range(N_STATIONS)])


def drifting_pool(pool: Dataset) -> Drifting:
    """Return the links of a pool."""

    def follow(factors: list[float]) -> DriftingLinks:
        rates = [np.minimum(1.0, factor * pool.click_rate) for factor in factors]
        return DriftingLinks([BernoulliLinks(rate, pool.revenue_per_click) for rate in rates])

    return Drifting(pool.name, pool.n_slots, pool.most_clicks, follow)


def drifting_shop(name: str, shop: SegmentLinks, n_slots: int) -> Drifting:
    """Return the links of a shop whose visitors have features."""
    known = shop.visitor_rates(1)
    clicks, revenue = known.rates[:, 0], known.rates[:, 1] / known.rates[:, 0]
    visitors = [shop.features.describe(row) for row in known.places]

    def follow(factors: list[float]) -> DriftingSegments:
        rates = [np.minimum(1.0, factor * clicks) for factor in factors]
        return DriftingSegments([SegmentLinks(r, revenue, known.shares, visitors) for r in rates])

    most = float(known.shares @ np.sort(clicks, axis=1)[:, -n_slots:].sum(axis=1))
    return Drifting(name, n_slots, most, follow)


def shops(seed: int) -> list[Drifting]:
    """Return two shops whose visitors differ."""
    return [
        drifting_shop("segments", segment_shop(60, 6, seed), 5),
        drifting_shop("features", feature_shop(60, (2, 3, 4), 0.7, seed), 5),
    ]


def main(names: list[str], drawn: list[Drifting], runs: int, rounds: int) -> None:
    """Play every pool in every scenario; print a table and how many floors were missed."""
    print("| scenario | pool | floor | shortfall | allowed | lost, % |\n|---|---|---|---|---|---|")
    for name in names:
        missed, lost = 0, []
        for pool, share in itertools.product(drawn, SHARES):
            links = pool.links(SCENARIOS[name])
            floor = share * min(1.0, SCENARIOS[name](1.0)) * pool.most_clicks
            problem = Problem(links.n_links, pool.n_slots, floor, features=links.features)
            best = find_optimum(links, problem, rounds)
            played = np.array(
                [
                    play_run(PacedBayes(), links, problem, np.array([rounds]), 1, k)[0, :2, 0]
                    for k in range(runs)
                ]
            )
            short = float(np.maximum(0.0, floor * rounds - played[:, 0]).mean())
            allowed = max(50.0, 0.003 * floor * rounds)
            missed += short > allowed
            lost.append(100.0 * (1.0 - played[:, 1].mean() / (best.value * rounds)))
            row = f"{name} | {pool.name} | {floor:.2f} | {short:,.0f} | {allowed:,.0f}"
            print(f"| {row} | {lost[-1]:.2f} |", flush=True)
        print(f"{name}: {missed} floors missed, {np.mean(lost):.2f} % lost on average", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="separated by commas")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=60)
    parser.add_argument("--visitors", action="store_true", help="shops whose visitors differ")
    given = parser.parse_args()
    plain = [drifting_pool(pool) for pool in pools(given.seed)]
    drawn = shops(given.seed) if given.visitors else plain
    main(given.scenarios.split(","), drawn, given.runs, given.rounds)
