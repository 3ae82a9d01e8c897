"""Notice that links are no longer what they were, and forget most of what they were.

    missing <- [missing + (3/4) expected - clicks]+      as page views settle
    forget 9/10 of all counts when missing > 30 + 1 % of the clicks expected so far

`expected` are the clicks that the links shown would bring if they were what they have been. A page
that brings them takes a quarter of them off `missing`, so only clicks that stay well below add up.
Counts of Poisson's kind get to 30 by chance with probability exp(-2 * 30 / 4) at most, each time
that they start from zero; the one per cent keeps a short outage, in which no clicks are reported,
from spoiling what was learned in a long time.

What is forgotten is kept beside the counts, which stay those of all views.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.policies.contract import Floats
from slotwise.policies.knowledge.evidence import Evidence
from slotwise.problem import Problem
from slotwise.selection.compiled import inner

__all__ = ["Change", "has_changed", "new_change", "recent_sum", "recent_views"]

USUAL = 0.75
"""The part of the expected clicks below which those that are missing add up."""

LEAST_MISSING, MISSING_PART = 30.0, 0.01
"""Clicks that must be missing: so many, and this part of those expected so far."""

FORGOTTEN_PART = 0.9


class Change(NamedTuple):
    """Clicks that are missing, and what was forgotten of the counts per level and link."""

    missing: Floats
    views: Floats
    sums: Floats


def new_change(problem: Problem) -> Change:
    """Return that nothing has changed so far."""
    shape = (problem.n_levels, problem.n_links)
    return Change(missing=np.zeros(1), views=np.zeros(shape), sums=np.zeros(shape))


@inner
def recent_views(change: Change, evidence: Evidence, level: int, link: int) -> float:
    """Return the views of a link that are not forgotten."""
    return evidence.views[level, link] - change.views[level, link]


@inner
def recent_sum(change: Change, evidence: Evidence, level: int, link: int) -> float:
    """Return the outcomes of a link that are not forgotten."""
    return evidence.sums[level, link] - change.sums[level, link]


@inner
def has_changed(
    change: Change, evidence: Evidence, expected: float, n_clicks: float, n_pages: float
) -> bool:
    """Take in that pages brought `n_clicks`; forget, and say so, where too many are missing."""
    missing = max(0.0, change.missing[0] + USUAL * expected - n_clicks)
    change.missing[0] = missing
    promised = evidence.rounds[0] * expected
    if missing * n_pages <= LEAST_MISSING * n_pages + MISSING_PART * promised:
        return False
    change.missing[0] = 0.0
    n_levels, n_links = change.views.shape
    for level in range(n_levels):
        for link in range(n_links):
            n_views, total = change.views[level, link], change.sums[level, link]
            change.views[level, link] += FORGOTTEN_PART * (evidence.views[level, link] - n_views)
            change.sums[level, link] += FORGOTTEN_PART * (evidence.sums[level, link] - total)
    return True
