"""Make the next version of a pool from what is known of its links."""

from __future__ import annotations

import logging
import math

import numpy as np
from numpy.typing import NDArray

from slotwise.service.counting.rates import (
    estimate_rates,
    floor_report,
    link_counts,
    solve_page,
)
from slotwise.service.counting.views import Counters
from slotwise.service.deciding.snapshot import (
    EMPTY_POOL,
    POLICY_COMPILING,
    POLICY_FAILED,
    Published,
    Snapshot,
)
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.pool import policy_of, problem_of
from slotwise.service.records import FloorReport, PoolSettings

__all__ = ["publish", "stand_in"]

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

MAX_DRAWS = 256
MIN_DRAWS = 64
DRAWN_LINKS = 2_000_000
"""Links drawn for one version, where that leaves at least `MIN_DRAWS` draws."""


def publish(
    pool: PoolSettings,
    link_ids: tuple[str, ...],
    counters: Counters,
    fed_run: PolicyRun | None,
    version: int,
    now_us: int,
    rng: np.random.Generator,
    open_views: Floats | None = None,
) -> Snapshot:
    """Return the version that the policy wants now.

    `fed_run` is the policy fed round by round, None for a policy that is rebuilt from counts;
    it is taught what `open_views`, by level and link, are expected to bring.
    A policy that fails is replaced by the pool's fallback order, and the version says why.
    """
    n_links = len(link_ids)
    if n_links == 0:
        return _empty(pool, version, now_us)
    counts = link_counts(counters, link_ids, pool.max_revenue_micros)
    rates = estimate_rates(counts)
    n_slots = min(pool.slots, n_links)
    run, fallback = fed_run, ""
    probabilities = np.zeros(n_links)
    try:
        if run is None:
            problem = problem_of(n_links, pool.slots, pool.click_floor)
            run = PolicyRun.from_counts(policy_of(pool), problem, link_ids, counts)
        n_draws = min(MAX_DRAWS, max(MIN_DRAWS, DRAWN_LINKS // n_links))
        if open_views is not None:
            run.expect_views(open_views, rates)
        probabilities = run.probabilities(rng, n_draws, rates)
    except Exception:
        _log.exception("policy %s of pool %s failed", pool.policy, pool.pool_id)
        fallback = POLICY_FAILED
    price = solve_page(rates, n_slots, pool.click_floor).shadow_price
    published = Published(
        version=version,
        published_us=now_us,
        pool_changed_us=pool.changed_us,
        policy=pool.policy,
        link_ids=link_ids,
        probabilities=probabilities.tobytes(),
        click_rates=rates.clicks.tobytes(),
        revenue_rates=rates.revenue.tobytes(),
        click_variances=rates.click_variance.tobytes(),
        shadow_price=price if math.isfinite(price) else None,
        floor=floor_report(rates, probabilities, n_slots, pool.click_floor),
        fallback=fallback,
    )
    return Snapshot(pool, published, run)


def stand_in(
    pool: PoolSettings, link_ids: tuple[str, ...], counters: Counters, version: int, now_us: int
) -> Snapshot:
    """Return what a pool answers with while its policy is compiled: its fallback order.

    It calls no compiled code itself, so it never waits for the compiler.
    """
    if not link_ids:
        return _empty(pool, version, now_us)
    rates = estimate_rates(link_counts(counters, link_ids, pool.max_revenue_micros))
    probabilities = np.zeros(len(link_ids))
    published = Published(
        version=version,
        published_us=now_us,
        pool_changed_us=pool.changed_us,
        policy=pool.policy,
        link_ids=link_ids,
        probabilities=probabilities.tobytes(),
        click_rates=rates.clicks.tobytes(),
        revenue_rates=rates.revenue.tobytes(),
        click_variances=rates.click_variance.tobytes(),
        shadow_price=None,
        floor=floor_report(rates, probabilities, min(pool.slots, len(link_ids)), pool.click_floor),
        fallback=POLICY_COMPILING,
    )
    return Snapshot(pool, published)


def _empty(pool: PoolSettings, version: int, now_us: int) -> Snapshot:
    """Return the version of a pool without links."""
    floor = FloorReport(
        clicks=pool.click_floor,
        expected=0.0,
        attainable=0.0,
        status="infeasible" if pool.click_floor > 0 else "met",
    )
    published = Published(
        version=version,
        published_us=now_us,
        pool_changed_us=pool.changed_us,
        policy=pool.policy,
        link_ids=(),
        probabilities=b"",
        click_rates=b"",
        revenue_rates=b"",
        click_variances=b"",
        shadow_price=None,
        floor=floor,
        fallback=EMPTY_POOL,
    )
    return Snapshot(pool, published)
