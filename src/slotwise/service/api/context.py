"""What handlers have access to: the running service, its settings, limits and metrics.

Used by most of `api`, and by `cli`, `demo` and `server`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from slotwise.service.access.keys import Session, SessionSigner, click_secrets, same_origin
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.alerting import AlertWatch
from slotwise.service.api.page_json import PageWriter
from slotwise.service.clock import SteadyClock
from slotwise.service.http import exchange, routing
from slotwise.service.http.addresses import rate_limited_network
from slotwise.service.http.problems import RequestProblem
from slotwise.service.http.routing import RateLimit
from slotwise.service.logs import ServiceLog, short_address
from slotwise.service.observability import ServiceMetrics
from slotwise.service.planning import Planner
from slotwise.service.records import KeyRecord
from slotwise.service.reporting.overview import DashboardPool
from slotwise.service.reporting.report_records import OutcomesSinceStart
from slotwise.service.reporting.reporter import ReportCache
from slotwise.service.service import Service
from slotwise.service.settings import Settings, is_loopback

SUMMARISED = frozenset(
    [
        "missing-key",
        "unknown-key",
        "wrong-scope",
        "wrong-host",
        "other-origin",
        "unknown-token",
        "unknown-route",
        "rate-limited",
    ]
)
"""Problems that anybody can cause any number of times: a line for each would fill the disk."""
_EVERY_S = 60.0
_MAX_NETWORKS = 1_000
_NAMED_NETWORKS = 3


class Refusals:
    """What was refused since the start, and since the last line in the log."""

    def __init__(self, log: ServiceLog) -> None:
        self.total: Counter[str] = Counter()
        self._log = log
        self._logged: Counter[str] = Counter()
        self._networks: Counter[str] = Counter()
        self._due_s = 0.0

    def note(self, problem: str, client: str) -> None:
        """Count one refused request."""
        self.total[problem] += 1
        if problem in SUMMARISED:
            network = short_address(client)
            if network in self._networks or len(self._networks) < _MAX_NETWORKS:
                self._networks[network] += 1

    def log_if_due(self, now_s: float) -> None:
        """Write the line of the last minute, if anything was refused in it."""
        if now_s >= self._due_s:
            self._due_s = now_s + _EVERY_S
            self.log()

    def log(self) -> None:
        """Write what was refused since the last line."""
        new = self.total - self._logged
        if new:
            most = dict(self._networks.most_common(_NAMED_NETWORKS))
            self._log.warning("requests.refused", problems=dict(new), networks=most)
            self._logged = self.total.copy()
            self._networks.clear()


N_EXPORT_THREADS = 2
N_EVALUATION_THREADS = 1
N_CHANGE_THREADS = 2

Token = TypeVar("Token")
Meter = Literal["decide", "pages", "events", "clicks", "replays", "refused_keys", "calls"]
"""The rate limits: each operation names one."""


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
        rates: dict[Meter, float] = {
            "decide": settings.decide_per_s,
            "pages": settings.pages_per_s,
            "events": settings.events_per_s,
            "clicks": settings.clicks_per_s,
            "replays": settings.clicks_per_s,
            "refused_keys": settings.refused_keys_per_s,
            "calls": settings.calls_per_s,
        }
        self.limits: dict[str, RateLimit] = {
            meter: RateLimit(rate, 2 * rate) for meter, rate in rates.items()
        }

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
            self.spend("clicks", request)
            raise RequestProblem("unknown-token", "the signature does not fit")
        return token

    def spend(self, meter: Meter | str, request: Request, n: int = 1) -> None:
        """Count `n` calls of the request's key, or of its address, or refuse them."""
        key = request.key
        caller = key.key_id if key is not None else rate_limited_network(request.client)
        self.limits[meter].spend(caller, now_s=time.monotonic(), n=n)

    def spend_address(self, meter: Meter, request: Request) -> None:
        """Count a call of the request's address, whatever its key."""
        caller = rate_limited_network(request.client)
        self.limits[meter].spend(caller, now_s=time.monotonic())


Request = exchange.Request[KeyRecord]
Operation = routing.Operation[ServiceContext, KeyRecord]
Operations = routing.Operations[ServiceContext, KeyRecord]


_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via", b"x-forwarded-host")
_LOCAL_HOST = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?", re.IGNORECASE)


def is_visitor_of_this_machine(request: Request, settings: Settings) -> bool:
    """Return whether a request without a key comes from a person at this machine.

    A loopback address is not enough: requests through a proxy on this machine have it too, and
    a page elsewhere may let its own host name point here. So the service must listen on loopback
    only, without a public URL or a trusted proxy, and the request must have no header of a proxy
    and name this machine as its host. A request with a key is always checked by the key.
    """
    headers = request.headers
    if b"authorization" in headers or settings.public_url or settings.trusted_proxies:
        return False
    if not is_loopback(settings.host) or not is_loopback(request.client):
        return False
    is_direct = not any(name in headers for name in _FORWARDED)
    return is_direct and bool(_LOCAL_HOST.fullmatch(headers.get(b"host", b"")))


_SCOPES = ("read", "admin")
"""What the dashboard does. Pages and events are asked for and sent by programs, with keys."""
_SAFE = ("GET", "HEAD")


def _name(context: ServiceContext) -> str:
    # A browser takes a cookie with this prefix from a page with TLS only, and from this host only.
    return "__Host-slotwise" if context.is_secure else "slotwise"


def read_session(context: ServiceContext, request: Request) -> Session | None:
    """Return the session of a request that still holds: not ended, its key not revoked."""
    name = _name(context)
    for pair in request.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, text = pair.strip().partition("=")
        if found != name:
            continue
        session = context.session_signer.read(text, context.clock_us())
        if session is None or context.service.signed_out.has(session):
            continue
        key = context.service.directory.key(session.key_id)
        if key is not None and not key.revoked_us:
            return session
    return None


def key_of_session(
    context: ServiceContext, request: Request, operation: Operation
) -> KeyRecord | None:
    """Return the key that the visitor signed in with, None without a session that holds.

    A session changes something only from a page of this service.
    """
    if operation.scope not in _SCOPES:
        return None
    session = read_session(context, request)
    if session is None:
        return None
    if operation.method not in _SAFE:
        check_origin(request)
    return context.service.directory.key(session.key_id)


def check_origin(request: Request) -> None:
    """Refuse a request that a page of somebody else made."""
    if not same_origin(request.headers):
        detail = "a session changes something from the dashboard only; programs send a key"
        raise RequestProblem("other-origin", detail)


def cookie_header(context: ServiceContext, session: Session | None) -> tuple[bytes, bytes]:
    """Return the header that gives a browser its session; None takes it from the browser."""
    text, max_age_s = "", 0
    if session is not None:
        text = context.session_signer.sign(session)
        max_age_s = session.left_s(context.clock_us())
    secure = "; Secure" if context.is_secure else ""
    cookie = f"{_name(context)}={text}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"
    return b"set-cookie", f"{cookie}{secure}".encode()
