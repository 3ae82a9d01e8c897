"""Bounds without a horizon that are optimistic only about links seen less than the others.

    U(S, n) = max { q : n kl(S/n, q) <= c ln+(t L / (K N)) n / N },   one pseudo-view included

The bound is that of MOSS (Audibert and Bubeck 2009) and KL-UCB++ (Menard and Garivier 2017)
made anytime: a link with at least its share t L / K of views is taken at its mean. Of the N views
of a link n are settled at the level; while feedback is late, showing the link more often would not
make it known any sooner, so the width shrinks with n / N.

The pseudo-view brings four times what a view of the pool brings on average, so that rates of a
thousandth are learned as soon as rates of a tenth.

All bounds grow with t, but most are far from the page, so they are recomputed only where it
matters. kl(m, q) is convex in q, hence U is concave in its width and lies below its tangent. When t
moves on, every bound is raised along its tangent, which costs one multiplication and gives a *cap*:
a number that is no less than the bound. A policy takes its page from caps, computes the bounds of
the caps that reached the page, and takes the page again until no cap is left on it. That page is
the one that the bounds of all links would give.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies.contract import Floats, Links
from slotwise.policies.knowledge.evidence import Evidence
from slotwise.problem import Problem
from slotwise.selection.compiled import inner
from slotwise.selection.confidence import kl_upper
from slotwise.selection.totals import total_of

__all__ = [
    "CAP",
    "MossBounds",
    "compute_bound_after",
    "forget_bounds",
    "new_moss_bounds",
    "note_views",
    "refresh_bounds",
]

FIRST_PRIOR, FURTHER_PRIOR = 0.5, 0.25
"""The most that the pseudo-view brings at the first level and at those after it."""

OPTIMISM = 4.0
"""The pseudo-view brings this many times the mean outcome of the pool."""

CLOCK_GRID, PRIOR_GRID = 1.02, 1.25
"""Bounds are recomputed when the round count grows by 2 % or the prior by 25 %."""


SAFE = 1.0 + 1e-9
"""Tangents are this much steeper, so that rounding never puts a cap below its bound."""

EXACT, CAP, CHANGED = range(3)
"""What the number kept for a link is: its bound, no less than its bound, or not valid any more."""


class MossBounds(NamedTuple):
    """Upper bounds or caps per level and link, of `levels` only, and what they were computed with.

    `kind` says for each link whether its numbers are bounds or caps. `growth` is the slope of the
    tangent, by the logarithm of the round count. `changed[:n_changed[0]]` are the links to
    recompute before the next page. `clock` is the round count and `prior` the outcome of the
    pseudo-view at each level, both on their grids; `totals` has the views and outcomes of all
    links together.
    """

    upper: Floats
    growth: Floats
    levels: Links
    kind: NDArray[np.int8]
    changed: Links
    n_changed: Links
    clock: Floats
    prior: Floats
    totals: Floats
    exploration: float


def new_moss_bounds(problem: Problem, levels: set[int], exploration: float) -> MossBounds:
    """Return bounds to be computed before the first page."""
    shape = (problem.n_levels, problem.n_links)
    return MossBounds(
        upper=np.zeros(shape),
        growth=np.zeros(shape),
        levels=np.array(sorted(levels), np.int64),
        kind=np.full(problem.n_links, CHANGED, np.int8),
        changed=np.arange(problem.n_links),
        n_changed=np.array([problem.n_links]),
        clock=np.zeros(1),
        prior=np.zeros(problem.n_levels),
        totals=np.zeros((problem.n_levels, 2)),
        exploration=exploration,
    )


@inner
def _note_change(bounds: MossBounds, link: int) -> None:
    if bounds.kind[link] != CHANGED:
        bounds.kind[link] = CHANGED
        bounds.changed[bounds.n_changed[0]] = link
        bounds.n_changed[0] += 1


@inner
def forget_bounds(bounds: MossBounds) -> None:
    """Let all bounds be recomputed before the next page."""
    for link in range(len(bounds.kind)):
        _note_change(bounds, link)


@inner
def note_views(
    bounds: MossBounds, level: int, links: Links, views: Floats, outcomes: Floats
) -> None:
    """Take in that links were counted: their bounds are recomputed before the next page."""
    for k in range(len(links)):
        _note_change(bounds, links[k])
    bounds.totals[level, 0] += total_of(views)
    bounds.totals[level, 1] += total_of(outcomes)


@inner
def _on_grid(number: float, grid: float) -> float:
    """Return the largest power of `grid` up to a number."""
    return math.exp(math.floor(math.log(number) / math.log(grid) + 1e-9) * math.log(grid))


@inner
def _has_risen_from_mean(bounds: MossBounds, evidence: Evidence, link: int, share: float) -> bool:
    """Say whether a bound that was the mean is above it now: tangents say nothing of that."""
    for level in bounds.levels:
        n_shown = 1.0 + max(evidence.views[level, link], evidence.views[0, link])
        if bounds.growth[level, link] == 0.0 and share > n_shown:
            return True
    return False


@inner
def _raise_to_caps(bounds: MossBounds, evidence: Evidence, share: float, passed: float) -> None:
    """Move all bounds along their tangents, by what has passed of the logarithm of the rounds."""
    for level in bounds.levels:
        upper, growth = bounds.upper[level], bounds.growth[level]
        for link in range(len(upper)):
            upper[link] += growth[link] * passed
    for link in range(len(bounds.kind)):
        if _has_risen_from_mean(bounds, evidence, link, share):
            _note_change(bounds, link)
        elif bounds.kind[link] == EXACT and bounds.growth[0, link] > 0.0:
            bounds.kind[link] = CAP


@inner
def _follow_pool(bounds: MossBounds, evidence: Evidence) -> bool:
    """Turn bounds into caps where the round count or a prior has moved on its grid.

    Return whether that is so.
    """
    before, clock = bounds.clock[0], _on_grid(evidence.rounds[0] + 1.0, CLOCK_GRID)
    has_moved = False
    for level in bounds.levels:
        most = FIRST_PRIOR if level == 0 else FURTHER_PRIOR
        mean = (bounds.totals[level, 1] + most) / (bounds.totals[level, 0] + 1.0)
        prior = min(most, _on_grid(OPTIMISM * mean, PRIOR_GRID))
        has_moved |= prior != bounds.prior[level]
        bounds.prior[level] = prior
    bounds.clock[0] = clock
    if has_moved:
        forget_bounds(bounds)
    elif clock != before:
        share = clock * evidence.n_slots / len(bounds.kind)
        _raise_to_caps(bounds, evidence, share, math.log(clock / before))
    return has_moved or clock != before


@inner
def compute_bound(bounds: MossBounds, evidence: Evidence, link: int) -> None:
    """Compute the bound of a link at every level, and the slope of its tangent."""
    share = bounds.clock[0] * evidence.n_slots / len(bounds.kind)
    for level in bounds.levels:
        n_views = evidence.views[level, link] + 1.0
        n_shown = max(n_views, evidence.views[0, link] + 1.0)
        total = evidence.sums[level, link] + bounds.prior[level]
        upper = total / n_views
        growth = 0.0
        if share > n_shown:
            width = bounds.exploration * math.log(share / n_shown)
            upper = kl_upper(total, n_views, width * n_views / n_shown)
            above = upper - total / n_views
            if above > 0.0:
                growth = bounds.exploration * upper * (1.0 - upper) / (n_shown * above)
        bounds.upper[level, link] = upper
        bounds.growth[level, link] = growth * SAFE
    bounds.kind[link] = EXACT


@inner
def compute_bound_after(bounds: MossBounds, evidence: Evidence, link: int, last: int) -> None:
    """Compute the bound of a link, or copy that of `last` where the two have equal counts.

    `last` was computed just before, or is negative. In a large pool many links have equal counts.
    """
    is_equal = last >= 0
    if is_equal:
        for level in range(len(evidence.views)):
            is_equal &= evidence.views[level, link] == evidence.views[level, last]
            is_equal &= evidence.sums[level, link] == evidence.sums[level, last]
    if not is_equal:
        compute_bound(bounds, evidence, link)
        return
    for level in bounds.levels:
        bounds.upper[level, link] = bounds.upper[level, last]
        bounds.growth[level, link] = bounds.growth[level, last]
    bounds.kind[link] = EXACT


@inner
def refresh_bounds(bounds: MossBounds, evidence: Evidence) -> bool:
    """Recompute the bounds of links whose counts changed; all others are bounds or caps then.

    Return whether bounds of other links may have changed, too.
    """
    has_moved = _follow_pool(bounds, evidence)
    for k in range(bounds.n_changed[0]):
        compute_bound(bounds, evidence, bounds.changed[k])
    bounds.n_changed[0] = 0
    return has_moved
