"""The operations of the service, one file a resource."""

from __future__ import annotations

from slotwise.service.operations import Operation
from slotwise.service.routes import (
    dashboard,
    decide,
    decisions,
    events,
    export,
    keys,
    links,
    operating,
    page,
    pools,
    redirect,
    reports,
)

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *pools.OPERATIONS,
    *links.OPERATIONS,
    *decide.OPERATIONS,
    *page.OPERATIONS,
    *events.OPERATIONS,
    *redirect.OPERATIONS,
    *decisions.OPERATIONS,
    *reports.OPERATIONS,
    *export.OPERATIONS,
    *keys.OPERATIONS,
    *operating.OPERATIONS,
    *dashboard.OPERATIONS,
)
