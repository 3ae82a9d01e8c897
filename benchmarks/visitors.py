"""What knowing the visitors brings: `python -m benchmarks.visitors [N_RUNS]`.

Simulated shops in which visitors differ. Printed is the share of the gain, from the best mix that
does not know the visitors to the best that does, which the default policy earns over the run.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from benchmarks.shops import feature_shop, halfway_floor, segment_shop
from slotwise import SegmentLinks, default_policy
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum


def play(title: str, links: SegmentLinks, n_slots: int, n_rounds: int, n_runs: int) -> None:
    """Print what the default earns with and without features, halfway up the floors."""
    floor = halfway_floor(links, n_slots)
    problem = Problem(links.n_links, n_slots, floor, horizon=n_rounds)
    knowing = Problem(links.n_links, n_slots, floor, features=links.features)
    best = find_optimum(links, knowing, n_rounds)
    blind = best.value_without_visitors or 0.0
    at = np.array([n_rounds])
    earned = np.array(
        [
            [
                play_run(default_policy(), links, one, at, seed=1, run=run)[0, :, 0] / n_rounds
                for one in (problem, knowing)
            ]
            for run in range(n_runs)
        ]
    )
    without, with_features = earned[:, 0, 1], earned[:, 1, 1]
    ratio = with_features / without
    spread = 2.0 / math.sqrt(n_runs)
    line = (
        f"{title}: with features {ratio.mean():.3f} ± {spread * ratio.std():.3f} times the revenue"
    )
    if best.value > 1.001 * blind:
        share = (with_features - blind) / (best.value - blind)
        line += f", {100 * share.mean():.0f} ± {100 * spread * share.std():.0f} % of the gain"
    missing = max(0.0, 1.0 - float(earned[:, 1, 0].min()) / floor)
    print(f"{line}, shortfall at most {100 * missing:.3f} % of the floor", flush=True)


def main() -> None:
    """Play all shops."""
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    play("60 links, 6 segments", segment_shop(60, 6), 5, 100_000, n_runs)
    play("200 links, 24 segments", segment_shop(200, 24), 8, 200_000, n_runs)
    sizes = (2, 3, 4, 4, 5)
    play("100 links, 5 features", feature_shop(100, sizes, 0.7), 5, 200_000, n_runs)
    play("60 links, features that do not matter", feature_shop(60, sizes, 0.0), 5, 100_000, n_runs)
    play("200 links, 2 features of 32", feature_shop(200, (32, 32), 0.7), 8, 100_000, n_runs)
    play("10,000 links, 6 segments", segment_shop(10_000, 6), 15, 50_000, n_runs)


if __name__ == "__main__":
    main()
