"""Every operation of the service, in the order in which OpenAPI lists them."""

from __future__ import annotations

from slotwise.service.api import (
    alerts,
    clicks,
    comparisons,
    dashboard,
    decide,
    decisions,
    evaluate,
    events,
    export,
    health,
    keys,
    known_counts,
    links,
    notes,
    pasted_links,
    plans,
    pools,
    proposals,
    reports,
    sessions,
)
from slotwise.service.api.context import Operation

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *pools.OPERATIONS,
    *links.OPERATIONS,
    *known_counts.OPERATIONS,
    *decide.OPERATIONS,
    *proposals.OPERATIONS,
    *events.OPERATIONS,
    *clicks.OPERATIONS,
    *decisions.OPERATIONS,
    *reports.OPERATIONS,
    *evaluate.OPERATIONS,
    *export.OPERATIONS,
    *plans.OPERATIONS,
    *keys.OPERATIONS,
    *health.OPERATIONS,
    *notes.OPERATIONS,
    *alerts.OPERATIONS,
    *dashboard.OPERATIONS,
    *comparisons.OPERATIONS,
    *pasted_links.OPERATIONS,
    *sessions.OPERATIONS,
)
