"""What knowing the visitors brings: `python -m benchmarks.visitors [N_RUNS]`.

Simulated shops in which visitors differ. Printed is the share of the gain, from the best mix that
does not know the visitors to the best that does, which the default policy earns over the run.
"""

from __future__ import annotations

import math
import sys
from itertools import product

import numpy as np
from numpy.typing import NDArray

from slotwise import SegmentLinks, default_policy
from slotwise.problem import Problem
from slotwise.simulation.engine import play_run
from slotwise.simulation.optimum import find_optimum

Floats = NDArray[np.float64]


def _sigmoid(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def segments(n_links: int, n_segments: int, seed: int = 4) -> SegmentLinks:
    """Return links with rates of their own in every segment, which is the one feature."""
    rng = np.random.default_rng(seed)
    of_link, of_segment = rng.normal(size=(n_links, 1)), rng.normal(size=(1, n_segments))
    of_both = rng.normal(size=(n_links, n_segments))
    clicks = _sigmoid(-2.6 + 0.8 * of_link + 0.3 * of_segment + 0.7 * of_both)
    of_link, of_both = rng.normal(size=(n_links, 1)), rng.normal(size=(n_links, n_segments))
    revenue = _sigmoid(-1.5 + of_link - 0.6 * (np.log(clicks) + 2.6) + 0.7 * of_both)
    return SegmentLinks(clicks.T, revenue.T, rng.dirichlet(np.full(n_segments, 1.5)))


def features(n_links: int, sizes: tuple[int, ...], effect: float, seed: int = 4) -> SegmentLinks:
    """Return links on which every feature has an additive effect in the logit."""
    rng = np.random.default_rng(seed)
    kinds = np.array(list(product(*map(range, sizes))))
    each = effect / math.sqrt(len(sizes))
    clicks = np.tile(-2.6 + 0.8 * rng.normal(size=n_links), (len(kinds), 1))
    revenue = np.tile(-1.5 + rng.normal(size=n_links), (len(kinds), 1))
    shares = np.ones(len(kinds))
    for f, size in enumerate(sizes):
        on_clicks, on_revenue = each * rng.normal(size=(2, size, n_links))
        clicks += on_clicks[kinds[:, f]]
        revenue += (on_revenue - 0.6 * on_clicks)[kinds[:, f]]
        shares *= rng.dirichlet(np.full(size, 1.5))[kinds[:, f]]
    visitors = [{f"feature {f}": int(v) for f, v in enumerate(kind)} for kind in kinds]
    return SegmentLinks(_sigmoid(clicks), _sigmoid(revenue), shares, visitors)


def play(title: str, links: SegmentLinks, n_slots: int, n_rounds: int, n_runs: int) -> None:
    """Print what the default earns with and without features, halfway up the floors."""
    rates = links.rates(1)
    best_page = np.argsort(-rates[1])[:n_slots]
    floor = 0.5 * float(rates[0, best_page].sum() + np.sort(rates[0])[-n_slots:].sum())
    problem = Problem(links.n_links, n_slots, floor, horizon=n_rounds)
    knowing = Problem(links.n_links, n_slots, floor, feature_sizes=links.feature_sizes)
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
    play("60 links, 6 segments", segments(60, 6), 5, 100_000, n_runs)
    play("200 links, 24 segments", segments(200, 24), 8, 200_000, n_runs)
    sizes = (2, 3, 4, 4, 5)
    play("100 links, 5 features", features(100, sizes, 0.7), 5, 200_000, n_runs)
    play("60 links, features that do not matter", features(60, sizes, 0.0), 5, 100_000, n_runs)


if __name__ == "__main__":
    main()
