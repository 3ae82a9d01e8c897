"""What another floor would have earned, by the round log of a pool."""

from __future__ import annotations

import io
from collections.abc import Callable

import msgspec

from slotwise.errors import SlotwiseError
from slotwise.evaluation import BestMix, Estimate, evaluate
from slotwise.service.records import PoolSettings
from slotwise.service.reporting.kept_reports import KeptReports

__all__ = ["EstimateReport", "EvaluationReport", "evaluate_floor", "kept_logs"]

KEEP_S = 60.0
MIN_PAGES = 200
"""A shorter log is not asked: fitting and evaluating need some pages each."""


class EstimateReport(msgspec.Struct, frozen=True, kw_only=True):
    """A value a page view, and the interval that holds it."""

    value: float
    low: float
    high: float


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the best mix at a floor would have brought a page view, by the log."""

    pool_id: str
    click_floor: float
    currency: str
    revenue: EstimateReport | None
    """In the currency; both intervals hold together with `confidence`."""
    clicks: EstimateReport | None
    logged_revenue: EstimateReport | None
    """What the pages of the log themselves brought."""
    logged_clicks: EstimateReport | None
    floor_is_kept: bool | None
    """None where the interval allows both."""
    cannot_tell: str
    """Why the log cannot tell, in a sentence; empty where it can."""
    confidence: float
    effective_sample_size: float
    max_weight: float
    uncovered: float
    """The share of the page that the log could not show."""
    n_pages: int
    n_fitted: int
    """Pages at the beginning that only served to fit the mix."""
    n_unsettled: int
    """Pages left out because their windows are open."""


def kept_logs() -> KeptReports[bytes]:
    """Return a place for the logs of pools, so that moving a slider reads the store once."""
    return KeptReports(KEEP_S)


def evaluate_floor(
    pool: PoolSettings, click_floor: float, n_settled: int, read_log: Callable[[], bytes]
) -> EvaluationReport:
    """Evaluate the best mix at a floor; a log that is too short cannot tell."""
    if n_settled < MIN_PAGES:
        reason = f"it has {n_settled} settled pages, and {MIN_PAGES} are the least"
        return _no_answer(pool, click_floor, f"The log cannot tell: {reason}.")
    try:
        answer = evaluate([io.BytesIO(read_log())], BestMix(click_floor, pool.slots))
    except SlotwiseError as error:
        return _no_answer(pool, click_floor, f"The log cannot tell: {error}.")
    return EvaluationReport(
        pool_id=pool.pool_id,
        click_floor=click_floor,
        currency=pool.currency,
        revenue=_report(answer.revenue),
        clicks=_report(answer.clicks),
        logged_revenue=_report(answer.logged_revenue),
        logged_clicks=_report(answer.logged_clicks),
        floor_is_kept=answer.floor_is_kept,
        cannot_tell=answer.cannot_tell,
        confidence=answer.confidence,
        effective_sample_size=answer.effective_sample_size,
        max_weight=answer.max_weight,
        uncovered=answer.uncovered,
        n_pages=answer.n_pages,
        n_fitted=answer.n_fitted,
        n_unsettled=answer.n_unsettled,
    )


def _report(estimate: Estimate) -> EstimateReport:
    return EstimateReport(value=estimate.value, low=estimate.low, high=estimate.high)


def _no_answer(pool: PoolSettings, click_floor: float, reason: str) -> EvaluationReport:
    return EvaluationReport(
        pool_id=pool.pool_id,
        click_floor=click_floor,
        currency=pool.currency,
        revenue=None,
        clicks=None,
        logged_revenue=None,
        logged_clicks=None,
        floor_is_kept=None,
        cannot_tell=reason,
        confidence=0.95,
        effective_sample_size=0.0,
        max_weight=0.0,
        uncovered=0.0,
        n_pages=0,
        n_fitted=0,
        n_unsettled=0,
    )
