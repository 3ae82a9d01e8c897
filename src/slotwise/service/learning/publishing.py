"""Make the next version of a pool from what is known of its links."""

from __future__ import annotations

import logging
import math

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from slotwise.service.counting.rates import (
    LinkRates,
    estimate_rates,
    floor_report,
    solve_page,
)
from slotwise.service.counting.views import Counters
from slotwise.service.learning.delivered import ALL_VISITORS, NOTHING_DELIVERED, Delivered
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.learning.pool_counts import pool_counts
from slotwise.service.learning.pool_run import Draft
from slotwise.service.learning.visitor_run import ForVisitors, OfSegment
from slotwise.service.pool import Pool, policy_of
from slotwise.service.published import (
    EMPTY_POOL,
    PLAIN_FORMAT,
    POLICY_FAILED,
    PUBLISHED_FORMAT,
    Published,
    SegmentFloor,
    Version,
)
from slotwise.service.records import PoolSettings
from slotwise.service.visitors import VisitorCode

__all__ = ["publish", "stand_in"]

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

MAX_DRAWS = 256
MIN_DRAWS = 64
DRAWN_LINKS = 2_000_000
"""Links drawn for one version, where that leaves at least `MIN_DRAWS` draws."""


def publish(draft: Draft, now_us: int, rng: np.random.Generator) -> Version:
    """Return the version that the policy chooses now.

    A policy that uses open views learns what they are expected to bring. A policy
    that fails is replaced by the pool's fallback order, and the version says why.
    """
    pool, link_ids, version = draft.pool.settings, draft.pool.active, draft.version
    n_links = len(link_ids)
    if n_links == 0:
        return _empty(draft.pool, version, now_us)
    counts = draft.exposure or pool_counts(draft.pool, draft.counters)
    rates = estimate_rates(counts)
    n_slots = min(pool.slots, n_links)
    run, fallback = draft.run, ""
    probabilities = np.zeros(n_links)
    try:
        if run is None and draft.visitors is None:
            run = PolicyRun.from_counts(policy_of(pool), draft.pool.problem(), link_ids, counts)
        n_draws = min(MAX_DRAWS, max(MIN_DRAWS, DRAWN_LINKS // n_links))
        if draft.visitors is not None:
            probabilities = draft.visitors.probabilities
        elif run is not None:
            if draft.open_views is not None:
                run.expect_views(draft.open_views, rates)
            probabilities = run.probabilities(rng, n_draws, rates)
    except Exception:
        _log.exception("policy %s of pool %s failed", pool.policy, pool.pool_id)
        fallback = POLICY_FAILED
    # Without the compiler it is a number of numpy's, which cannot be stored.
    price = float(solve_page(rates, n_slots, pool.click_floor).shadow_price)
    published = _published(
        draft.pool,
        version,
        now_us,
        rates=rates,
        probabilities=probabilities,
        shadow_price=price if math.isfinite(price) else None,
        fallback=fallback,
        delivered=draft.delivered[ALL_VISITORS],
    )
    if draft.slot_clicks:
        published = replace(published, slot_clicks=draft.slot_clicks)
    if draft.visitors is None:
        return Version(draft.pool, published, run)
    return Version(
        draft.pool, _for_visitors(published, draft, draft.visitors), None, draft.visitors.pages
    )


def _for_visitors(published: Published, draft: Draft, visitors: ForVisitors) -> Published:
    """Return a version with what its pages for visitors are made of, and their price."""
    pages = visitors.pages
    floors = tuple(_segment_floor(one, draft) for one in visitors.segments)
    return replace(
        published,
        prices=pages.prices.tobytes(),
        words=visitors.words,
        kinds=visitors.kinds,
        shadow_price=None if published.shadow_price is None else pages.shadow_price,
        floor=replace(published.floor, expected=visitors.expected_clicks),
        segment_floors=floors,
        format=PUBLISHED_FORMAT if floors else PLAIN_FORMAT,
    )


def _segment_floor(one: OfSegment, draft: Draft) -> SegmentFloor:
    """Return how a segment stands to its floor, as the pool has it."""
    pages, since_us = draft.delivered[one.feature, one.value]
    least = draft.pool.settings.floors_by[one.feature][one.value]
    n_slots = round(float(one.probabilities.sum()))
    return SegmentFloor(
        feature=one.feature,
        value=one.value,
        floor=floor_report(one.rates, one.probabilities, n_slots, least, pages),
        shadow_price=one.shadow_price,
        delivered=pages,
        since_us=since_us,
    )


def stand_in(pool: Pool, counters: Counters, version: int, now_us: int, reason: str) -> Version:
    """Return the fallback order as a version that is never stored.

    It calls no compiled code, so it never waits for the compiler.
    """
    if not pool.active:
        return _empty(pool, version, now_us)
    rates = estimate_rates(pool_counts(pool, counters))
    published = _published(
        pool,
        version,
        now_us,
        rates=rates,
        probabilities=np.zeros(len(pool.active)),
        shadow_price=None,
        fallback=reason,
    )
    return Version(pool, published, None)


def _empty(pool: Pool, version: int, now_us: int) -> Version:
    """Return the version of a pool without links."""
    nothing = np.zeros(0)
    published = _published(
        pool,
        version,
        now_us,
        rates=LinkRates(nothing, nothing, nothing),
        probabilities=nothing,
        shadow_price=None,
        fallback=EMPTY_POOL,
    )
    return Version(pool, published, None)


def _published(
    pool: Pool,
    version: int,
    now_us: int,
    *,
    rates: LinkRates,
    probabilities: Floats,
    shadow_price: float | None,
    fallback: str,
    delivered: Delivered = NOTHING_DELIVERED,
) -> Published:
    settings = pool.settings
    n_slots = min(settings.slots, len(pool.active))
    return Published(
        version=version,
        published_us=now_us,
        pool_changed_us=settings.changed_us,
        policy=settings.policy,
        link_ids=pool.active,
        probabilities=probabilities.tobytes(),
        click_rates=rates.clicks.tobytes(),
        revenue_rates=rates.revenue.tobytes(),
        click_variances=rates.click_variance.tobytes(),
        shadow_price=shadow_price,
        floor=floor_report(rates, probabilities, n_slots, settings.click_floor, delivered.pages),
        fallback=fallback,
        delivered=delivered.pages,
        delivered_since_us=delivered.since_us,
        words=_words_with_floors(settings),
    )


def _words_with_floors(pool: PoolSettings) -> dict[str, tuple[str, ...]]:
    """Return the words of open lists that are never rare: a version without a run knows them."""
    if not pool.floors_by:
        return {}
    code = VisitorCode(pool.features)
    code.value_floors(pool.floors_by, pool.slots)
    return code.words
