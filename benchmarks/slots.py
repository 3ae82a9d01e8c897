"""What the order of a page brings: `python -m benchmarks.slots [N_RUNS]`.

20 of 225 ads for 50,000 page views. The gain that order can bring is that of the best mix in the
best slots over the best mix in random order. The default's share of it is what it earns with
learned weights beyond what it earns where all slots are alike, which is what random order brings.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from slotwise import SegmentLinks, default_policy
from slotwise.environments.datasets import load_dataset
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum

N_ROUNDS = 50_000


def main() -> None:
    """Play slots that differ and slots that are alike, known, learned and ignored."""
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    ads = load_dataset("ads-like-binding")
    weights = 1.0 / np.sqrt(np.arange(1.0, ads.n_slots + 1.0))
    weights /= weights.mean()
    scale = 1.0 / float(weights.max() * ads.click_rate.max())
    floor = scale * ads.click_floor
    rates = ([scale * ads.click_rate], [ads.revenue_per_click], [1.0])
    differ = SegmentLinks(*rates, visitors=[{}], slot_weights=weights)
    alike = SegmentLinks(*rates, visitors=[{}])

    def earned(links: SegmentLinks, known: object) -> np.ndarray:
        problem = Problem(ads.n_links, ads.n_slots, floor, slot_weights=known)  # type: ignore[arg-type]
        at = np.array([N_ROUNDS])
        runs = [play_run(default_policy(), links, problem, at, 1, run) for run in range(n_runs)]
        missing = max(0.0, max(1.0 - run[0, 0, 0] / N_ROUNDS / floor for run in runs))
        print(f"  shortfall at most {100 * missing:.3f} % of the floor", flush=True)
        return np.array([run[0, 1, 0] / N_ROUNDS for run in runs])

    def line(title: str, numbers: np.ndarray, unit: float) -> None:
        spread = 2.0 * numbers.std() / math.sqrt(n_runs)
        print(f"{title}: {unit * numbers.mean():.4g} ± {unit * spread:.2g}", flush=True)

    best = find_optimum(differ, Problem(ads.n_links, ads.n_slots, floor), N_ROUNDS)
    gain = best.value - (best.value_without_order or 0.0)
    plain = earned(alike, None)
    line("slots 1/sqrt(l), learned: % of the gain", (earned(differ, "learn") - plain) / gain, 100)
    line("slots 1/sqrt(l), known: % of the gain", (earned(differ, weights) - plain) / gain, 100)
    line("slots alike, learned: times the revenue", earned(alike, "learn") / plain, 1)


if __name__ == "__main__":
    main()
