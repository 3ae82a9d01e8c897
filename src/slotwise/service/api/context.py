"""Everything a route's function can reach: the running service and what surrounds it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from slotwise.service.access.tokens import TokenSigner
from slotwise.service.api.page_json import PageWriter
from slotwise.service.http import exchange, operations
from slotwise.service.http.rate_limits import RateLimit
from slotwise.service.logs import ServiceLog
from slotwise.service.metrics import ServiceMetrics
from slotwise.service.records import KeyRecord
from slotwise.service.reporting.kept_reports import KeptReports
from slotwise.service.reporting.outcomes import OutcomesSinceStart
from slotwise.service.reporting.overview import PoolPicture
from slotwise.service.service import Service
from slotwise.service.settings import Settings

__all__ = ["Meter", "Operation", "Request", "ServiceContext", "system_clock_us"]

Meter = Literal["decide", "events", "clicks", "calls"]
"""The rate limits: each operation names one."""


def system_clock_us() -> int:
    """Return the microseconds since the epoch."""
    return time.time_ns() // 1_000


@dataclass
class ServiceContext:
    """One running service, as HTTP sees it."""

    service: Service
    settings: Settings
    signer: TokenSigner
    clock_us: Callable[[], int] = system_clock_us
    log: ServiceLog = field(default_factory=ServiceLog)
    public_base: str = ""
    """What click URLs start with; the settings' by default."""
    stopping: bool = False

    def __post_init__(self) -> None:
        settings = self.settings
        self.public_base = self.public_base or settings.public_base
        self.metrics = ServiceMetrics(self.service.health)
        self.page_writer = PageWriter(self.service, self.signer, self.public_base)
        self.outcomes = OutcomesSinceStart(self.clock_us())
        self.pictures: KeptReports[PoolPicture] = KeptReports(keep_s=2.0)
        rates: dict[Meter, float] = {
            "decide": settings.decide_per_s,
            "events": settings.events_per_s,
            "clicks": settings.clicks_per_s,
            "calls": settings.calls_per_s,
        }
        self.limits: dict[str, RateLimit] = {
            meter: RateLimit(rate, 2 * rate) for meter, rate in rates.items()
        }


Request = exchange.Request[KeyRecord]
Operation = operations.Operation[ServiceContext, KeyRecord]
