"""Whether floors are kept when rates fall: `python -m benchmarks.drift [--runs 4] [--seed 60]`.

The click rates of all links fall together, at once half-way or slowly over the middle half, or
follow a daily rhythm (20 days) or a weekly one (3 weeks). Six pools are drawn from a seed; their
floor is a share of the most clicks that a page can have after the fall: 0.8, and 0.95. The table
has the shortfall, what is allowed of it, and what was lost of the revenue of the best fixed mix at
the mean rates. Rules were chosen on the pools of seed 40; figures are reported on seed 60.
`--visitors` plays two shops whose visitors have features instead: 5 of 60 links for six segments,
and 5 of 60 links for three features whose effects add up.
`--taste 8` plays eight shops of six segments, of which the largest changes its taste three times,
at floors halfway between the clicks of the best page for all visitors and the most clicks of one;
and shops of each kind whose links change places half-way, at 0.6 of the most clicks.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.leaderboard.cases import fresh_cases, with_moving_taste
from benchmarks.leaderboard.drifting_segments import DriftingSegments
from benchmarks.shops import feature_shop, halfway_floor, segment_shop
from slotwise.environments import BernoulliLinks, DriftingLinks, Environment, SegmentLinks
from slotwise.environments.datasets import Dataset, ads_recipe, coupon_mild_recipe
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
    drawn = [coupon_mild_recipe(seed + k) for k in range(2)]
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

    return Drifting(name, n_slots, _most_clicks(shop, n_slots), follow)


def _most_clicks(shop: SegmentLinks, n_slots: int) -> float:
    """Return the clicks of the page of each visitor that is clicked on most."""
    known = shop.visitor_rates(1)
    return float(known.shares @ np.sort(known.rates[:, 0], axis=1)[:, -n_slots:].sum(axis=1))


def _shop(kind: str, seed: int) -> SegmentLinks:
    if kind == "segments":
        return segment_shop(60, 6, seed)
    return feature_shop(60, (2, 3, 4), 0.7, seed)


def shops(seed: int) -> list[Drifting]:
    """Return two shops whose visitors differ."""
    return [drifting_shop(kind, _shop(kind, seed), 5) for kind in ("segments", "features")]


class Fared(NamedTuple):
    """What the default lacked of a floor over its runs, and lost of the best fixed mix."""

    short: float
    allowed: float
    lost: float

    def row(self, *cells: str) -> str:
        """Return a line of the table."""
        words = (*cells, f"{self.short:,.0f}", f"{self.allowed:,.0f}", f"{self.lost:.2f}")
        return f"| {' | '.join(words)} |"


def play(links: Environment, n_slots: int, floor: float, runs: int, rounds: int) -> Fared:
    """Play the default."""
    problem = Problem(links.n_links, n_slots, floor, features=links.features)
    best = find_optimum(links, problem, rounds)
    at = np.array([rounds])
    played = np.array(
        [play_run(PacedBayes(), links, problem, at, 1, k)[0, :2, 0] for k in range(runs)]
    )
    short = float(np.maximum(0.0, floor * rounds - played[:, 0]).mean())
    lost = 100.0 * (1.0 - float(played[:, 1].mean()) / (best.value * rounds))
    return Fared(short, max(50.0, 0.003 * floor * rounds), lost)


def with_swapped_links(shop: SegmentLinks) -> DriftingSegments:
    """Return a shop in which every link takes the place of another one half-way."""
    known = shop.visitor_rates(1)
    clicks, revenue = known.rates[:, 0], known.rates[:, 1] / known.rates[:, 0]
    visitors = [shop.features.describe(row) for row in known.places]
    return DriftingSegments(
        [
            SegmentLinks(
                np.roll(clicks, by, axis=1), np.roll(revenue, by, axis=1), known.shares, visitors
            )
            for by in (0, 15)
        ]
    )


def play_taste(n_shops: int, seed: int, runs: int, rounds: int) -> None:
    """Play shops whose visitors change their taste; print a table."""
    print(
        "| what changes | shop | floor | shortfall | allowed | lost, % |\n|---|---|---|---|---|---|"
    )
    for number in range(seed, seed + n_shops):
        shop = segment_shop(60, 6, number)
        floor = halfway_floor(shop, 5)
        fared = play(with_moving_taste(shop), 5, floor, runs, rounds)
        share = f"taste of {100.0 * shop.visitor_rates(1).shares.max():.0f} %"
        print(fared.row(share, f"segments {number}", f"{floor:.2f}"), flush=True)
    for number in range(seed, seed + n_shops):
        for kind in ("segments", "features"):
            shop = _shop(kind, number)
            floor = 0.6 * _most_clicks(shop, 5)
            fared = play(with_swapped_links(shop), 5, floor, runs, rounds)
            print(fared.row("places of links", f"{kind} {number}", f"{floor:.2f}"), flush=True)


def main(names: list[str], drawn: list[Drifting], runs: int, rounds: int) -> None:
    """Play every pool in every scenario; print a table and how many floors were missed."""
    print("| scenario | pool | floor | shortfall | allowed | lost, % |\n|---|---|---|---|---|---|")
    for name in names:
        missed, lost = 0, []
        for pool, share in itertools.product(drawn, SHARES):
            links = pool.links(SCENARIOS[name])
            floor = share * min(1.0, SCENARIOS[name](1.0)) * pool.most_clicks
            fared = play(links, pool.n_slots, floor, runs, rounds)
            missed += fared.short > fared.allowed
            lost.append(fared.lost)
            print(fared.row(name, pool.name, f"{floor:.2f}"), flush=True)
        print(f"{name}: {missed} floors missed, {np.mean(lost):.2f} % lost on average", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="separated by commas")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=60)
    parser.add_argument("--visitors", action="store_true", help="shops whose visitors differ")
    parser.add_argument("--taste", type=int, metavar="SHOPS", help="visitors change their taste")
    given = parser.parse_args()
    if given.taste:
        play_taste(given.taste, given.seed, given.runs, given.rounds)
        raise SystemExit
    plain = [drifting_pool(pool) for pool in pools(given.seed)]
    drawn = shops(given.seed) if given.visitors else plain
    main(given.scenarios.split(","), drawn, given.runs, given.rounds)
