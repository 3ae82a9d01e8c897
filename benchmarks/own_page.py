"""Is the promise about the own page kept, and when are all pages chosen?

    python benchmarks/own_page.py [--runs 200] [--days 30] [--seed 1] [--processes 1]

Every case is played many times, 2,000 views an hour: chosen pages become better than the own page
(1.5 times its revenue), equal, stay worse (0.6), or earn nothing; sales are rare (1 % of views) or
frequent (20 %), known at once or a day later; rates are constant, or drift by half within a day
and by a third within weeks. The promise is broken if, at any decision about the share, the expected
revenue of the pages shown so far is below `keep` times that of own pages alone. A line for each
case has the share of runs in which it was broken, the least revenue relative to own pages, the
median days until half and until all pages are chosen, the revenue in the end, and how often a
visitor moved back from chosen to own pages: the mean over visitors and runs, all of it and after
the first day. The seeds with which the rule was tuned are not those of `--seed`. `--picture FILE`
draws the ramp of the manual instead: the expected share of chosen pages.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from slotwise.selection.promise import (
    OpenCounts,
    PageRevenue,
    PromiseEvidence,
    Shares,
    Terms,
    expected_ramp,
    next_share,
)

VIEWS_A_DAY = 48_000
LEARNED = 40_000.0
"""Chosen views after which 63 % of what can be learned is learned."""


class Case(NamedTuple):
    """Sales of own pages per view, and chosen pages relative to it at first and at last."""

    name: str
    rate: float
    first: float
    last: float
    is_late: bool
    drifts: bool


class Played(NamedTuple):
    """One run: views until half and all pages were chosen, and revenue relative to own pages.

    `moved_back` is how often a visitor moved from chosen to own pages, the mean over visitors: the
    sum of all falls of the share. `moved_later` leaves out the first day.
    """

    half: float
    all: float
    revenue: float
    least: float
    is_broken: bool
    moved_back: float
    moved_later: float


KINDS = {"better": (0.6, 1.5), "equal": (0.6, 1.0), "worse": (0.6, 0.6), "nothing": (0.0, 0.0)}
CASES = [
    Case(name, rate, *KINDS[name], is_late, drifts)
    for rate, is_late, drifts, name in itertools.product(
        (0.01, 0.2), (False, True), (False, True), KINDS
    )
]


def drift(view: float) -> float:
    """Return the factor of all rates at a view."""
    day = view / VIEWS_A_DAY
    return 1.0 + 0.5 * math.sin(2.0 * math.pi * day) * 0.9 + 0.3 * math.sin(day / 3.0)


def steps(n_views: float) -> Callable[[float], int]:
    """Return the number of views until the next decision: 20 at first, then 250 decisions."""
    return lambda seen: int(min(max(20.0, 0.05 * seen), max(2_000.0, n_views / 250.0)))


def play(case: Case, keep: float, n_views: float, seed: Sequence[int]) -> Played:
    """Play one run with realised groups and sales."""
    rng = np.random.default_rng(seed)
    evidence, terms = PromiseEvidence(), Terms(keep, most=1.0)
    waiting: deque[tuple[Shares, int, int, int, int]] = deque()
    n_open, seen, n_chosen = [0, 0], 0, 0
    earned, of_own, least = 0.0, 0.0, math.inf
    half = full = math.inf
    share, moved = 0.0, [0.0, 0.0]
    n_late, step = VIEWS_A_DAY if case.is_late else 0, steps(n_views)
    while seen < n_views:
        n = step(seen)
        open_views = OpenCounts(*n_open)
        before = share
        share = next_share(evidence, open_views, terms, n_ahead=n, previous=before).chosen
        moved[seen >= VIEWS_A_DAY] += max(0.0, before - share)
        half = min(half, seen) if share >= 0.5 else half
        full = min(full, seen) if share >= terms.largest_share - 1e-9 else full
        own_rate = case.rate * (drift(seen) if case.drifts else 1.0)
        ratio = case.last - (case.last - case.first) * math.exp(-n_chosen / LEARNED)
        k = int(rng.binomial(n, share))
        sold = int(rng.binomial(k, own_rate * ratio)), int(rng.binomial(n - k, own_rate))
        waiting.append((Shares.of(share), k, sold[0], n - k, sold[1]))
        seen, n_chosen = seen + n, n_chosen + k
        n_open[0] += n - k
        n_open[1] += k
        while sum(n_open) > n_late:
            shares, k_chosen, chosen, k_own, own = waiting.popleft()
            evidence.note_many("chosen", shares, k_chosen, (chosen, chosen))
            evidence.note_many("own", shares, k_own, (own, own))
            n_open[0] -= k_own
            n_open[1] -= k_chosen
        earned += own_rate * (k * ratio + n - k)
        of_own += own_rate * n
        least = min(least, earned / of_own)
    moves = sum(moved), moved[1]
    return Played(half, full, earned / of_own, least, least < keep, *moves)


def day(views: list[float]) -> str:
    """Return the median in days, "-" where most runs did not get there."""
    median = float(np.median(views))
    return f"{median / VIEWS_A_DAY:5.1f}" if math.isfinite(median) else "    -"


def draw_ramp(path: str) -> None:
    """Draw the expected share of chosen pages that earn 1.5 times as much as the own page."""
    from slotwise.figures.canvas import ShownFigure, house_style  # needs matplotlib

    own, chosen = PageRevenue(0.02, 0.02), PageRevenue(0.03, 0.03)
    with house_style():
        figure = ShownFigure(figsize=(7.2, 3.4))
        axes = figure.add_axes((0.1, 0.17, 0.86, 0.76))
        for keep, colour in ((0.90, "#117733"), (0.95, "#332288"), (0.98, "#882255")):
            terms = Terms(keep, most=1.0)
            ramp = expected_ramp(terms, own, chosen, 40 * VIEWS_A_DAY)
            days = np.append(ramp.views / VIEWS_A_DAY, 7.0)
            shares = 100.0 * np.append(ramp.shares, ramp.shares[-1])
            axes.step(days, shares, where="post", color=colour, label=f"keep {keep:.0%}")
        axes.set_xlim(0, 7)
        axes.set_ylim(0, 100)
        axes.set_xlabel("days with 48,000 page views each, of which 2 % sell")
        axes.set_ylabel("% of pages that are chosen")
        axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Play all cases and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=float, default=0.95)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="one of better, equal, worse, nothing")
    parser.add_argument("--picture", help="draw the ramp into this file instead")
    asked = parser.parse_args()
    if asked.picture:
        draw_ramp(asked.picture)
        return
    cases = [(k, case) for k, case in enumerate(CASES) if asked.only in ("", case.name)]
    n_views = asked.days * VIEWS_A_DAY
    print("case      sales  revenue    rates     broken   least  half   all  revenue   back  later")
    with multiprocessing.Pool(asked.processes) as processes:
        results = [
            processes.starmap_async(
                play,
                [(case, asked.keep, n_views, [asked.seed, k, run]) for run in range(asked.runs)],
            )
            for k, case in cases
        ]
        for (_, case), result in zip(cases, results, strict=True):
            print(line(case, result.get()), flush=True)


def line(case: Case, runs: list[Played]) -> str:
    """Return the result of a case."""
    broken = sum(run.is_broken for run in runs) / len(runs)
    return (
        f"{case.name:8s} {case.rate:6.0%}  {'a day' if case.is_late else 'at once':9s}"
        f"{'drift' if case.drifts else 'constant':9s} {broken:7.1%} "
        f"{min(run.least for run in runs):7.4f} {day([run.half for run in runs])} "
        f"{day([run.all for run in runs])} {np.mean([run.revenue for run in runs]):8.3f} "
        f"{np.mean([run.moved_back for run in runs]):6.2f} "
        f"{np.mean([run.moved_later for run in runs]):6.2f}"
    )


if __name__ == "__main__":
    main()
