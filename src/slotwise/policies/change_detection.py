"""Notice that links have changed: clicks stay far below those expected; old counts are discarded.

    missing <- [missing + (3/4) expected - clicks]+      as page views settle
    discard 9/10 of all counts when missing > 30 + 1 % of the clicks expected so far

`expected` are the clicks that the links shown would get at their past rates. A page with exactly
these clicks reduces `missing` by a quarter of them, so only clicks that stay well below add up.
Poisson counts reach 30 by chance with probability exp(-2 * 30 / 4) at most, each time that they
start from zero. The one per cent protects what was learned over a long time from a short outage in
which no clicks are reported.

    fall <- [fall + 0.9 expected - clicks]+,   rise <- [rise + clicks - 1.1 expected]+

A smaller fall, or one of all links together, does not show which links are better. When `fall`
exceeds 100, the outcomes counted of every link are multiplied by clicks / expected since it was
last 0, so that the price of a floor is that of the present rates; a rise undoes such falls, so that
a daily rhythm does not change the order of links. At constant rates `fall` reaches 100 with
probability exp(-0.2 * 100), each time that it starts from zero. `missing` compares clicks with
those expected before such falls.

With features of visitors, `missing` is counted for each segment where visitors have one feature,
and for all visitors where they have several. J and the tilt of a link are sums over views, and with
one feature those of a segment are the entries of its value, so 9/10 of them are discarded. With
several features, or independent effects, no entry has the views of one value alone, so 9/10 of all
views are discarded. Used by `paced_bayes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import inner
from slotwise.policies.link_rates import PoolFit, RateCounts, prior_mean, prior_strength
from slotwise.policies.visitor_rates import RatesForVisitors

USUAL = 0.75
"""The share of the expected clicks below which missing clicks add up."""

LEAST_MISSING, MISSING_PART = 30.0, 0.01
"""Clicks that must be missing: this number, and this share of those expected so far."""

DISCARDED_PART = 0.9

FALL, RISE, LEAST_DRIFT = 0.9, 1.1, 100.0
"""Shares of the expected clicks beyond which a fall and a rise add up, and the threshold."""

CALM = 10.0
"""Pseudo-clicks, as expected, that are added when a factor is estimated."""

LOG_FACTOR = 6
"""The index of the logarithm of all factors in `drift`; before it, for fall and rise each, the sum,
and the clicks expected and counted since it was 0."""


class Change(NamedTuple):
    """Missing clicks, and the statistics of a common fall or rise of all click rates."""

    missing: Floats
    drift: Floats


def new_change() -> Change:
    """Return the initial state, without any change."""
    return Change(np.zeros(1), np.zeros(LOG_FACTOR + 1))


@inner
def notice_change(
    change: Change,
    pool: PoolFit,
    counts: RateCounts,
    links: Links,
    views: Floats,
    clicks: Floats,
) -> bool:
    """Compare clicks about to be counted with those expected; return whether the links changed.

    Expected clicks of a link are its past rate, shrunk to 0: a new link has no influence.
    """
    strength = prior_strength(prior_mean(pool, 0))
    expected = likely = n_clicks = n_views = 0.0
    for k in range(len(links)):
        trials, hits = counts.views[0, links[k]], counts.sums[0, links[k]]
        expected += views[k] * hits / (trials + strength)
        likely += views[k] * (hits + 1.0) / (trials + strength)
        n_clicks += clicks[k]
        n_views += views[k]
    n_pages = max(1e-300, n_views / counts.n_slots)
    if _has_changed(change, counts, expected, n_clicks, n_pages):
        return True
    return _has_drifted(change, counts, expected, likely, n_clicks, n_pages)


@inner
def _has_changed(
    change: Change, counts: RateCounts, expected: float, n_clicks: float, n_pages: float
) -> bool:
    """Record `n_clicks` of pages; discard counts and return True if too many are missing."""
    expected /= math.exp(change.drift[LOG_FACTOR])
    missing = max(0.0, change.missing[0] + USUAL * expected - n_clicks)
    change.missing[0] = missing
    promised = counts.rounds[0] * expected
    if missing * n_pages <= LEAST_MISSING * n_pages + MISSING_PART * promised:
        return False
    change.missing[0] = 0.0
    change.drift[:] = 0.0
    for part in (counts.views, counts.sums):
        for level in range(len(part)):
            for link in range(part.shape[1]):
                part[level, link] *= 1.0 - DISCARDED_PART
    for link in range(len(counts.sales)):
        counts.sales[link] *= 1.0 - DISCARDED_PART
        counts.squares[link] *= 1.0 - DISCARDED_PART
    return True


@inner
def _add_drift(
    drift: Floats, place: int, more: float, expected: float, n_clicks: float, enough: float
) -> float:
    """Add to a fall or rise; return clicks over those expected above the threshold, else 1."""
    drift[place] += more
    drift[place + 1] += expected
    drift[place + 2] += n_clicks
    if drift[place] > enough:
        return (drift[place + 2] + CALM) / (drift[place + 1] + CALM)
    if drift[place] <= 0.0:
        drift[place : place + 3] = 0.0
    return 1.0


@inner
def _has_drifted(
    change: Change,
    counts: RateCounts,
    expected: float,
    likely: float,
    n_clicks: float,
    n_pages: float,
) -> bool:
    """Record clicks; if all rates seem to have moved, rescale the counts and return True.

    `expected` is rather too low and `likely` rather too high, so that links with few views cause
    neither a fall nor a rise.
    """
    drift = change.drift
    enough = LEAST_DRIFT + MISSING_PART * counts.rounds[0] * expected / n_pages
    factor = _add_drift(drift, 0, FALL * expected - n_clicks, expected, n_clicks, enough)
    if drift[LOG_FACTOR] < 0.0:
        rise = _add_drift(drift, 3, n_clicks - RISE * likely, likely, n_clicks, enough)
        factor = min(factor * max(1.0, rise), math.exp(-drift[LOG_FACTOR]))
    if factor == 1.0:
        return False
    drift[:LOG_FACTOR] = 0.0
    drift[LOG_FACTOR] += math.log(factor)
    for link in range(len(counts.sales)):
        for level in range(len(counts.sums)):
            most = max(counts.sums[level, link], counts.views[level, link])
            counts.sums[level, link] = min(most, factor * counts.sums[level, link])
        counts.sales[link] *= factor
        counts.squares[link] *= factor
    return True


@inner
def notice_missing(
    visitors: RatesForVisitors,
    visitor: Links,
    rounds: float,
    expected: float,
    n_clicks: float,
    n_pages: float,
) -> bool:
    """Record clicks of a visitor and those expected; discard and return True if many are missing.

    `rounds` are the page views of all visitors so far.
    """
    has_segments = len(visitors.layout.first) == 2
    place = visitor[0] if has_segments else 0
    seen = visitors.seen[place] if has_segments else rounds
    missing = max(0.0, visitors.missing[place] + USUAL * expected - n_clicks)
    visitors.missing[place] = missing
    if missing * n_pages <= LEAST_MISSING * n_pages + MISSING_PART * seen * expected:
        return False
    visitors.missing[place] = 0.0
    is_segment = has_segments and visitors.layout.has_pairs
    n_levels, n_links, _ = visitors.tilt.shape
    for level in range(n_levels):
        for link in range(n_links):
            _discard(visitors.information[level, link], 1 + place if is_segment else -1)
            _discard(visitors.tilt[level, link], 1 + place if is_segment else -1)
    return True


@inner
def _discard(sums: Floats, place: int) -> None:
    """Discard most of the views of a value, whose sums are at `place`, or of all if < 0."""
    if place < 0:
        for k in range(len(sums)):
            sums[k] *= 1.0 - DISCARDED_PART
    else:
        sums[0] -= DISCARDED_PART * sums[place]
        sums[place] *= 1.0 - DISCARDED_PART
