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

from slotwise.compile import inner, int64
from slotwise.policies.evidence import Evidence
from slotwise.policies.policy import Floats, Links
from slotwise.problem import Problem
from slotwise.selection.confidence import kl_upper_of_many

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


MOST_TOGETHER = int64(32)
"""Links whose bounds are computed together: whole vectors of them."""

TOTAL, VIEWS, SHOWN, WIDTH, UPPER, SCRATCH = range(6)
N_ROWS = 6
"""The rows of `room`."""


class MossBounds(NamedTuple):
    """Upper bounds or caps per level and link, of `levels` only, and what they were computed with.

    `kind` says for each link whether its numbers are bounds or caps. `growth` is the slope of the
    tangent, by the logarithm of the round count. `changed[:n_changed[0]]` are the links to
    recompute before the next page. `clock` is the round count and `prior` the outcome of the
    pseudo-view at each level, both on their grids; `totals` has the views and outcomes of all
    links together. `room` is scratch for bounds that are computed together, and `first` says where
    those of each link begin.
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
    room: Floats
    first: Links
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
        room=np.full((N_ROWS, MOST_TOGETHER * len(levels)), 0.5),
        first=np.zeros(MOST_TOGETHER, np.int64),
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
    bounds: MossBounds, level: int, links: Links, n_views: float, brought: float
) -> None:
    """Take in that links were counted, all together `n_views` that brought so much.

    Their bounds are recomputed before the next page.
    """
    for k in range(len(links)):
        _note_change(bounds, links[k])
    bounds.totals[level, 0] += n_views
    bounds.totals[level, 1] += brought


@inner
def _on_grid(number: float, grid: float, last: float) -> float:
    """Return the largest power of `grid` up to a number; `last` is that of an earlier number."""
    if last <= number < last * grid * (1.0 - 1e-6):
        return last
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
    before = bounds.clock[0]
    clock = _on_grid(evidence.rounds[0] + 1.0, CLOCK_GRID, before)
    has_moved = False
    for level in bounds.levels:
        most = FIRST_PRIOR if level == 0 else FURTHER_PRIOR
        mean = (bounds.totals[level, 1] + most) / (bounds.totals[level, 0] + 1.0)
        prior = most
        if OPTIMISM * mean < 2.0 * most:
            last = bounds.prior[level] if bounds.prior[level] < most else 0.0
            prior = min(most, _on_grid(OPTIMISM * mean, PRIOR_GRID, last))
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
def _have_equal_counts(evidence: Evidence, link: int, other: int) -> bool:
    are_equal = True
    for level in range(len(evidence.views)):
        are_equal &= evidence.views[level, link] == evidence.views[level, other]
        are_equal &= evidence.sums[level, link] == evidence.sums[level, other]
    return are_equal


@inner
def _gather_counts(bounds: MossBounds, evidence: Evidence, links: Links) -> int:
    """Write what the bounds of links are computed from, level by level; return how many they are.

    A link with the counts of the one before it shares its bounds: in a large pool many have.
    """
    share = bounds.clock[0] * evidence.n_slots / len(bounds.kind)
    n_bounds = int64(0)
    for k in range(len(links)):
        link = links[k]
        if k == 0 or not _have_equal_counts(evidence, link, links[k - 1]):
            width, n_before = 0.0, 0.0
            for level in bounds.levels:
                n_views = evidence.views[level, link] + 1.0
                n_shown = max(n_views, evidence.views[0, link] + 1.0)
                if n_shown != n_before:
                    width = bounds.exploration * max(0.0, math.log(share / n_shown))
                    n_before = n_shown
                bounds.room[TOTAL, n_bounds] = evidence.sums[level, link] + bounds.prior[level]
                bounds.room[VIEWS, n_bounds] = n_views
                bounds.room[SHOWN, n_bounds] = n_shown
                bounds.room[WIDTH, n_bounds] = width * n_views / n_shown
                n_bounds += 1
        bounds.first[k] = n_bounds - len(bounds.levels)
    return n_bounds


@inner
def _compute_some(bounds: MossBounds, evidence: Evidence, links: Links) -> None:
    """Compute the bounds of links for which there is room."""
    room = bounds.room
    n_bounds = _gather_counts(bounds, evidence, links)
    upper, views = room[UPPER], room[VIEWS]
    kl_upper_of_many(room[TOTAL], views, room[WIDTH], n_bounds, upper, room[SCRATCH])
    for k in range(len(links)):
        link, place = links[k], bounds.first[k]
        for level in bounds.levels:
            mean, growth = room[TOTAL, place] / views[place], 0.0
            bound = upper[place] if room[WIDTH, place] > 0.0 else mean
            above = bound - mean
            if above > 0.0:
                growth = bounds.exploration * bound * (1.0 - bound) / (room[SHOWN, place] * above)
            bounds.upper[level, link] = bound
            bounds.growth[level, link] = growth * SAFE
            place += 1
        bounds.kind[link] = EXACT


@inner
def compute_bounds(bounds: MossBounds, evidence: Evidence, links: Links) -> None:
    """Compute the bounds of links at every level, and the slopes of their tangents."""
    for begin in range(int64(0), len(links), MOST_TOGETHER):
        _compute_some(bounds, evidence, links[begin : begin + MOST_TOGETHER])


@inner
def _take_means(bounds: MossBounds, evidence: Evidence) -> int:
    """Take the links whose counts changed at their means.

    Those with less than their share of views, whose bounds are above it, are moved to the front
    of `changed`; return how many they are.
    """
    changed = bounds.changed[: bounds.n_changed[0]]
    for level in bounds.levels:
        views, sums, prior = evidence.views[level], evidence.sums[level], bounds.prior[level]
        upper, growth = bounds.upper[level], bounds.growth[level]
        for k in range(len(changed)):
            link = changed[k]
            upper[link] = (sums[link] + prior) / (views[link] + 1.0)
            growth[link] = 0.0
    views, kind = evidence.views[0], bounds.kind
    share = bounds.clock[0] * evidence.n_slots / len(kind)
    n_below = int64(0)
    for k in range(len(changed)):
        link = changed[k]
        kind[link] = EXACT
        changed[n_below] = link
        n_below += share > views[link] + 1.0
    return n_below


@inner
def refresh_bounds(bounds: MossBounds, evidence: Evidence) -> bool:
    """Recompute the bounds of links whose counts changed; all others are bounds or caps then.

    Return whether bounds of other links may have changed, too.
    """
    has_moved = _follow_pool(bounds, evidence)
    n_below = _take_means(bounds, evidence)
    compute_bounds(bounds, evidence, bounds.changed[:n_below])
    bounds.n_changed[0] = 0
    return has_moved
