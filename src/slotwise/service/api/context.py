"""What handlers have access to: the running service, its settings, limits and metrics.

Used by most of `api`, and by `cli`, `demo` and `server`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from slotwise.service.access.keys import click_secrets
from slotwise.service.access.sessions import SessionSigner
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.alerting import AlertWatch
from slotwise.service.api.page_json import PageWriter
from slotwise.service.api.refused_requests import Refusals
from slotwise.service.clock import SteadyClock
from slotwise.service.http import exchange, routing
from slotwise.service.http.problems import RequestProblem
from slotwise.service.http.routing import RateLimits
from slotwise.service.logs import ServiceLog
from slotwise.service.observability import ServiceMetrics
from slotwise.service.planning import Planner
from slotwise.service.records import KeyRecord
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import DashboardPool
from slotwise.service.reporting.reporter import ReportCache
from slotwise.service.service import Service
from slotwise.service.settings import Settings

N_EXPORT_THREADS = 2
N_EVALUATION_THREADS = 1
N_CHANGE_THREADS = 2

Token = TypeVar("Token")
system_clock_us = SteadyClock()
"""The clock of this process."""


@dataclass
class ServiceContext:
    """One running service with everything that handlers need."""

    service: Service
    settings: Settings
    signer: TokenSigner
    clock_us: Callable[[], int] = system_clock_us
    log: ServiceLog = field(default_factory=ServiceLog)
    public_base: str = ""
    """What click URLs start with; the settings' by default."""
    stopping: bool = False
    alerts: AlertWatch | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        self.public_base = self.public_base or settings.public_base
        self.refusals = Refusals(self.log)
        self.metrics = ServiceMetrics(self.service.health, self.refusals.total)
        self.page_writer = PageWriter(self.service, self.signer, self.public_base)
        self.session_signer = self._new_session_signer(click_secrets(self.service.directory.keys()))
        self.outcomes = OutcomesSinceStart(self.clock_us())
        self.export_threads = ThreadPoolExecutor(N_EXPORT_THREADS, "slotwise-export")
        """Exports are long: with threads of their own they delay no report."""
        self.evaluation_threads = ThreadPoolExecutor(N_EVALUATION_THREADS, "slotwise-evaluate")
        self.alert_threads = ThreadPoolExecutor(1, "slotwise-test-alert")
        """A test alert waits for a receiver that may not answer."""
        self.change_threads = ThreadPoolExecutor(N_CHANGE_THREADS, "slotwise-change")
        """Checks of a new pool may compile its policy."""
        self.planner = Planner(settings.plan_within_s)
        self.dashboards: ReportCache[DashboardPool] = ReportCache(cached_s=2.0)
        self.comparisons: ReportCache[object] = ReportCache(cached_s=10.0)
        rates = {
            "decide": settings.decide_per_s,
            "pages": settings.pages_per_s,
            "events": settings.events_per_s,
            "clicks": settings.clicks_per_s,
            "replays": settings.clicks_per_s,
            "refused_keys": settings.refused_keys_per_s,
            "calls": settings.calls_per_s,
        }
        self.limits = RateLimits(rates)

    @property
    def is_secure(self) -> bool:
        """Whether visitors reach the service over TLS."""
        return self.public_base.lower().startswith("https://")

    def renew_secrets(self) -> None:
        """Read the secrets again, after another process has made or revoked one."""
        secrets = click_secrets(self.service.directory.keys())
        self.signer.renew(secrets)
        self.service.decider.renew_secrets()
        self.session_signer = self._new_session_signer(secrets)

    def _new_session_signer(self, secrets: Mapping[str, bytes]) -> SessionSigner:
        settings = self.settings
        return SessionSigner(secrets, settings.session_idle_s, settings.session_max_s)

    def close(self) -> None:
        """Wait for what the threads are doing; drop what they have not begun."""
        self.planner.close()
        for threads in (
            self.export_threads,
            self.evaluation_threads,
            self.alert_threads,
            self.change_threads,
        ):
            threads.shutdown(cancel_futures=True)

    def known_token(self, request: Request, read: Callable[[str], Token | None]) -> Token:
        """Return what the token in the path says, or refuse it.

        The signature is checked first, and only a token that is not genuine spends the budget
        of its sender: behind a proxy many visitors may share one address.
        """
        token = read(request.path_values["token"])
        if token is None:
            self.limits.spend("clicks", request)
            raise RequestProblem("unknown-token", "the signature does not fit")
        return token


Request = exchange.Request[KeyRecord]
Operation = routing.Operation[ServiceContext, KeyRecord]
Operations = routing.Operations[ServiceContext, KeyRecord]
