"""Bounds without a horizon that are optimistic only about links seen less than the others.

    U(S, n) = max { q : n kl(S/n, q) <= c ln+(t L / (K N)) n / N },   one pseudo-view included

The bound is that of MOSS (Audibert and Bubeck 2009) and KL-UCB++ (Menard and Garivier 2017)
made anytime: a link with at least its share t L / K of views is taken at its mean. Of the N views
of a link n are settled at the level; while feedback is late, showing the link more often would not
make it known any sooner, so the width shrinks with n / N.

The pseudo-view brings four times what a view of the pool brings on average, so that rates of a
thousandth are learned as soon as rates of a tenth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import Floats, Links
from slotwise.policies.evidence import Evidence
from slotwise.problem import Problem
from slotwise.selection.compiled import inner
from slotwise.selection.confidence import kl_upper

__all__ = ["MossBounds", "new_moss_bounds", "note_views", "refresh_bounds"]

FIRST_PRIOR, FURTHER_PRIOR = 0.5, 0.25
"""The most that the pseudo-view brings at the first level and at those after it."""

OPTIMISM = 4.0
"""The pseudo-view brings this many times the mean outcome of the pool."""

CLOCK_GRID, PRIOR_GRID = 1.02, 1.25
"""Bounds are recomputed when the round count grows by 2 % or the prior by 25 %."""


class MossBounds(NamedTuple):
    """Upper bounds per level and link, of `levels` only, and what they were computed with.

    `is_stale` marks links whose counts have changed since. `clock` is the round count and `prior`
    the outcome of the pseudo-view at each level, both on their grids; `totals` has the views and
    outcomes of all links together.
    """

    upper: Floats
    levels: Links
    is_stale: NDArray[np.bool_]
    clock: Floats
    prior: Floats
    totals: Floats
    exploration: float


def new_moss_bounds(problem: Problem, levels: set[int], exploration: float) -> MossBounds:
    """Return bounds to be computed before the first page."""
    return MossBounds(
        upper=np.zeros((problem.n_levels, problem.n_links)),
        levels=np.array(sorted(levels), np.int64),
        is_stale=np.ones(problem.n_links, np.bool_),
        clock=np.zeros(1),
        prior=np.zeros(problem.n_levels),
        totals=np.zeros((problem.n_levels, 2)),
        exploration=exploration,
    )


@inner
def note_views(
    bounds: MossBounds, level: int, links: Links, views: Floats, outcomes: Floats
) -> None:
    """Take in that links were counted: their bounds are recomputed before the next page."""
    n_views = 0.0
    brought = 0.0
    for k in range(len(links)):
        n_views += views[k]
        brought += outcomes[k]
        bounds.is_stale[links[k]] = True
    bounds.totals[level, 0] += n_views
    bounds.totals[level, 1] += brought


@inner
def _on_grid(number: float, grid: float) -> float:
    """Return the largest power of `grid` up to a number."""
    return math.exp(math.floor(math.log(number) / math.log(grid) + 1e-9) * math.log(grid))


@inner
def _follow_pool(bounds: MossBounds, rounds: float) -> None:
    """Mark all bounds as stale when the round count or a prior has moved on its grid."""
    clock = _on_grid(rounds + 1.0, CLOCK_GRID)
    has_moved = clock != bounds.clock[0]
    bounds.clock[0] = clock
    for level in bounds.levels:
        most = FIRST_PRIOR if level == 0 else FURTHER_PRIOR
        mean = (bounds.totals[level, 1] + most) / (bounds.totals[level, 0] + 1.0)
        prior = min(most, _on_grid(OPTIMISM * mean, PRIOR_GRID))
        has_moved |= prior != bounds.prior[level]
        bounds.prior[level] = prior
    if has_moved:
        bounds.is_stale[:] = True


@inner
def refresh_bounds(bounds: MossBounds, evidence: Evidence) -> None:
    """Recompute the bounds that are stale."""
    _follow_pool(bounds, evidence.rounds[0])
    n_links = len(bounds.is_stale)
    share = bounds.clock[0] * evidence.n_slots / n_links
    for link in range(n_links):
        if bounds.is_stale[link]:
            bounds.is_stale[link] = False
            for level in bounds.levels:
                n_views = evidence.views[level, link] + 1.0
                n_shown = max(n_views, evidence.views[0, link] + 1.0)
                width = bounds.exploration * max(0.0, math.log(share / n_shown))
                total = evidence.sums[level, link] + bounds.prior[level]
                bounds.upper[level, link] = kl_upper(total, n_views, width * n_views / n_shown)
