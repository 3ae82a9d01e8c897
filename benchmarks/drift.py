"""Whether floors are kept when rates fall: `python -m benchmarks.drift [--runs 4] [--seed 60]`.

The click rates of all links fall together, at once half-way or slowly over the middle half, or
follow a daily rhythm (20 days) or a weekly one (3 weeks). Six pools are drawn from a seed; their
floor is a share of the most clicks that a page can have after the fall: 0.8, and 0.95. The table
has the shortfall, what is allowed of it, and what was lost of the revenue of the best fixed mix at
the mean rates. Rules were chosen on the pools of seed 40; figures are reported on seed 60.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable

import numpy as np

from benchmarks.leaderboard.cases import fresh_cases
from slotwise.environments import BernoulliLinks, DriftingLinks
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


def drifting(pool: Dataset, rhythm: Rhythm) -> DriftingLinks:
    """Return the pool's links with click rates that follow a rhythm."""
    factors = [rhythm(k / (N_STATIONS - 1)) for k in range(N_STATIONS)]
    rates = [np.minimum(1.0, factor * pool.click_rate) for factor in factors]
    return DriftingLinks([BernoulliLinks(rate, pool.revenue_per_click) for rate in rates])


def main(names: list[str], runs: int, rounds: int, seed: int) -> None:
    """Play every pool in every scenario; print a table and how many floors were missed."""
    print("| scenario | pool | floor | shortfall | allowed | lost, % |\n|---|---|---|---|---|---|")
    for name in names:
        missed, lost = 0, []
        for pool, share in itertools.product(pools(seed), SHARES):
            links = drifting(pool, SCENARIOS[name])
            floor = share * min(1.0, SCENARIOS[name](1.0)) * pool.most_clicks
            problem = Problem(pool.n_links, pool.n_slots, floor)
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
    given = parser.parse_args()
    main(given.scenarios.split(","), given.runs, given.rounds, given.seed)
