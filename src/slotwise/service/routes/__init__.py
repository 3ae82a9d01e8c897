"""The operations of the service, one file a resource."""

from __future__ import annotations

from slotwise.service.dashboard import routes as dashboard
from slotwise.service.operations import Operation
from slotwise.service.routes import (
    decide,
    decisions,
    events,
    export,
    keys,
    links,
    operating,
    pools,
    redirect,
    reports,
)
from slotwise.service.snippet import routes as snippet

__all__ = ["OPERATIONS", "PAGE_OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *pools.OPERATIONS,
    *links.OPERATIONS,
    *decide.OPERATIONS,
    *events.OPERATIONS,
    *redirect.OPERATIONS,
    *decisions.OPERATIONS,
    *reports.OPERATIONS,
    *export.OPERATIONS,
    *keys.OPERATIONS,
    *operating.OPERATIONS,
)

PAGE_OPERATIONS: tuple[Operation, ...] = (*dashboard.OPERATIONS, *snippet.OPERATIONS)
"""What browsers load and ask for the service's own pages: no part of the described interface."""
