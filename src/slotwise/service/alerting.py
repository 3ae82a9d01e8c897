"""Alerts: find problems of pools, and call a webhook when a problem begins and ends.

Checks the figures of the dashboard, in separate threads. Used by `api`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Literal

import msgspec

from slotwise.service.http.addresses import split_address
from slotwise.service.records import SECOND_US, FloorState, compose
from slotwise.service.reporting.overview import Overview
from slotwise.service.reporting.report_records import OwnPageReport, RateReport
from slotwise.service.settings import AlertFormat, origin_of
from slotwise.service.storage.activity import Span

AlertKind = Literal[
    "floor-missed",
    "rule-violated",
    "feedback-stopped",
    "learning-failed",
    "one-network",
    "own-page-better",
    "test",
]

MIN_VIEWS = 100
"""Settled views since the floor was set that are required before it can count as missed."""
EXPECTED_EVENTS = 20.0
"""Expected clicks or sales that must be missing: by chance that happens once in 500 million."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a pool."""

    kind: AlertKind
    pool_id: str
    detail: str
    """One sentence for people."""


def alerts_of(pool: Overview) -> Iterator[Alert]:
    """Yield the present problems of a pool."""
    if pool.archived or pool.n_links == 0:
        return
    if pool.trouble:
        yield Alert(kind="learning-failed", pool_id=pool.pool_id, detail=pool.trouble)
    missed = [_missed_floor("", pool.floor, pool.delivered_views, pool.clicks_delivered)]
    for one in pool.segment_floors:
        whom = f" for visitors with {one.feature} {one.value}"
        missed.append(_missed_floor(whom, one.floor, one.delivered_views, one.clicks_delivered))
    if any(missed):
        detail = " ".join(filter(None, missed))
        yield Alert(kind="floor-missed", pool_id=pool.pool_id, detail=detail)
    violated = " ".join(rule.detail for rule in pool.rules if rule.violated)
    if violated:
        yield Alert(kind="rule-violated", pool_id=pool.pool_id, detail=violated)
    stopped = _stopped(pool)
    if stopped:
        yield Alert(kind="feedback-stopped", pool_id=pool.pool_id, detail=stopped)
    if pool.comparison is not None and pool.comparison.is_worse:
        detail = _own_page_better(pool.comparison)
        yield Alert(kind="own-page-better", pool_id=pool.pool_id, detail=detail)
    one_network = _one_network(pool)
    if one_network:
        yield Alert(kind="one-network", pool_id=pool.pool_id, detail=one_network)


def _own_page_better(compared: OwnPageReport) -> str:
    """Return a sentence on chosen pages that are certainly worse than the own page."""
    lift = compared.lift
    assert lift is not None
    share = f"{compared.chosen_share:.2g} of the pages are chosen now"
    then = f"the promise limits their share: {share}" if compared.keep else share
    return (
        f"Chosen pages earn {-lift.mean:.0%} less than your own page ({-lift.high:.0%} to "
        f"{-lift.low:.0%} less); {then}."
    )


def _one_network(pool: Overview) -> str:
    """Return a sentence if one network reports most views, or an empty text."""
    busiest = pool.busiest_network
    if busiest is None or busiest.views < MIN_VIEWS or 2 * busiest.views <= busiest.all_views:
        return ""
    return (
        f"{busiest.views:,} of the latest {busiest.all_views:,} page views were reported from the "
        f"network {busiest.network}. If that is a proxy, set `trusted_proxies`; if these are not "
        "visitors, make another page key and forget the views of this one."
    )


def _missed_floor(whom: str, floor: FloorState, n_views: int, delivered: RateReport | None) -> str:
    """Return a sentence about a missed floor, or an empty text."""
    if floor.clicks <= 0:
        return ""
    if floor.status == "infeasible":
        return (
            f"No page of these links reaches the floor of {floor.clicks:g} clicks per view{whom}: "
            f"the most is about {floor.attainable:.3f}."
        )
    if delivered is None or n_views < MIN_VIEWS or delivered.high >= floor.clicks:
        return ""
    return (
        f"Pages{whom} delivered {delivered.mean:.3f} ({delivered.low:.3f} to {delivered.high:.3f}) "
        f"clicks per view since the floor of {floor.clicks:g} was set."
    )


def _stopped(pool: Overview) -> str:
    """Return a sentence if clicks or sales no longer arrive although pages are shown."""
    for name, window_s, count in (
        ("click", pool.click_window_s, attrgetter("clicks")),
        ("sale", max(pool.click_window_s, pool.revenue_window_s), attrgetter("sales")),
    ):
        closed_us = pool.now_us - window_s * SECOND_US
        n_silent = _silent_views(pool, closed_us, count)
        if n_silent:
            return f"No {name} came for the last {n_silent:,} views, although pages are shown."
    if pool.sales_missing:
        return (
            "Far fewer sales were reported than recent clicks suggest. "
            "Until this ends, revenue is learned from closed windows only."
        )
    return ""


def _silent_views(pool: Overview, closed_us: int, count: Callable[[Span], int]) -> int:
    """Return the latest views without an event, if earlier views suggest that some are missing.

    Views whose window is open do not count: their events may still arrive.
    """
    closed = [span for span in pool.spans if span.start_us + pool.span_us <= closed_us]
    n_silent = 0
    n_before = n_events = 0
    for span in reversed(closed):
        if n_events == 0 and count(span) == 0:
            n_silent += span.views
        else:
            n_before += span.views
            n_events += count(span)
    if n_before == 0 or n_silent * n_events / n_before < EXPECTED_EVENTS:
        return 0
    return n_silent


# Chat products whose webhooks are recognised by their host or a parent domain of it.
_CHAT_HOSTS: dict[str, AlertFormat] = {
    "hooks.slack.com": "slack",
    "hooks.slack-gov.com": "slack",
    "logic.azure.com": "teams",
    "api.powerplatform.com": "teams",
    "webhook.office.com": "teams",
}
MAX_CHAT_DETAIL = 2_000
"""Characters of a detail that a chat message shows; Slack and Teams refuse very long messages."""


def format_of(url: str) -> AlertFormat:
    """Return the format that the receiver at an address expects.

    >>> format_of("https://hooks.slack.com/services/T0/B0/x"), format_of("https://alerts.example/")
    ('slack', 'json')
    """
    parts = split_address(url)
    host = f".{parts.hostname if parts else ''}".rstrip(".")
    chats = (chat for domain, chat in _CHAT_HOSTS.items() if host.endswith(f".{domain}"))
    return next(chats, "json")


SIGNATURE_HEADER = "slotwise-signature"
TIMEOUT_S = 5.0
_PURPOSE = b"slotwise alerts 1"

AlertState = Literal["started", "ended", "test"]


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a call."""

    alert: AlertKind
    state: AlertState
    pool_id: str
    detail: str
    since: datetime
    """When it began."""
    sent_at: datetime
    dashboard: str
    """Where to look."""


_encode = msgspec.json.encode


def _title(message: AlertMessage) -> str:
    where = f" in pool {message.pool_id}" if message.pool_id else ""
    state = "" if message.state == "test" else f" {message.state}"
    return f"slotwise: {message.alert}{state}{where}"


def _chat_detail(message: AlertMessage) -> str:
    detail = message.detail
    return detail if len(detail) <= MAX_CHAT_DETAIL else f"{detail[: MAX_CHAT_DETAIL - 1]}…"


def _for_slack(message: AlertMessage) -> bytes:
    """Return the body for an incoming webhook of Slack.

    Names of features and of their values are in the detail: escaped, they cannot mention a channel.
    """
    title, detail = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for text in (_title(message), _chat_detail(message))
    )
    text = f"*{title}*\n{detail}\n<{message.dashboard}|Open the dashboard>"
    return _encode({"text": text, "unfurl_links": False})


def _for_teams(message: AlertMessage) -> bytes:
    """Return the body for a workflow of Microsoft Teams: a message with one Adaptive Card.

    A `TextRun` shows its text as it is; a `TextBlock` would interpret Markdown in a detail.
    """
    title = {"type": "TextRun", "text": _title(message), "weight": "Bolder"}
    detail = {"type": "TextRun", "text": _chat_detail(message)}
    open_it = {"type": "Action.OpenUrl", "title": "Open the dashboard", "url": message.dashboard}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in (title, detail)],
        "actions": [open_it],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return _encode({"type": "message", "attachments": [attachment]})


_BODIES: dict[AlertFormat, Callable[[AlertMessage], bytes]] = {
    "json": _encode,
    "slack": _for_slack,
    "teams": _for_teams,
}


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending a message."""

    alert: AlertKind
    state: AlertState
    pool_id: str
    sent_at: datetime
    delivered: bool
    attempts: int
    detail: str
    """The receiver's answer, or why it was not reached."""


def alert_secret(store_secret: bytes) -> str:
    """Return the secret that signs messages: the same for every process on the store."""
    return hmac.digest(store_secret, _PURPOSE, "sha256").hex()


def signature(secret: str, sent_s: int, body: bytes) -> str:
    """Return the header that authenticates a body and its time.

    >>> signature("secret", 1700000000, b"{}")[:17]
    't=1700000000,v1=b'
    """
    signed = hmac.new(secret.encode(), b"%d.%s" % (sent_s, body), hashlib.sha256)
    return f"t={sent_s},v1={signed.hexdigest()}"


class Webhook:
    """Sends messages to one address; follows no redirect and reads only the status."""

    def __init__(self, url: str, secret: str, base: str, form: AlertFormat = "auto") -> None:
        self._address = url
        self._form = format_of(url) if form == "auto" else form
        self.url = f"{origin_of(url)}/…" if url and self._form != "json" else url
        """The address to display: the path of a chat webhook is a secret."""
        self.secret = secret
        self._base = base

    def message(
        self, alert: Alert, state: AlertState, since: datetime, now: datetime
    ) -> AlertMessage:
        """Return the message for an alert."""
        where = f"{self._base}/?pool={alert.pool_id}" if alert.pool_id else f"{self._base}/"
        told = {"state": state, "since": since, "sent_at": now, "dashboard": where}
        return compose(AlertMessage, alert, alert=alert.kind, **told)

    def send(self, message: AlertMessage, attempts: int = 1) -> Delivery:
        """Call the address once; never raises. Blocks for some seconds at most."""
        delivered, detail = self._call(_BODIES[self._form](message), message.sent_at)
        became = {"delivered": delivered, "attempts": attempts, "detail": detail}
        return compose(Delivery, message, **became)

    def _call(self, body: bytes, sent_at: datetime) -> tuple[bool, str]:
        import httpx  # here, since it takes a tenth of the start and few services send alerts

        headers = {
            "content-type": "application/json",
            "user-agent": "slotwise",
            SIGNATURE_HEADER: signature(self.secret, int(sent_at.timestamp()), body),
        }
        try:
            status = asyncio.run(self._status(body, headers))
        except TimeoutError:
            return False, f"the receiver did not answer within {TIMEOUT_S:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return False, f"the receiver cannot be reached: {error}"
        return httpx.codes.is_success(status), f"the receiver answered {status}"

    async def _status(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Call the address and return its status.

        The time limit is for the whole call: with a limit for each read, a receiver that sends a
        byte from time to time could block the thread for ever.
        """
        import httpx

        # Ignore proxies and certificates that are set in the environment.
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", self._address, content=body, headers=headers) as answer,
        ):
            return answer.status_code


_log = logging.getLogger(__name__)

EVERY_S = 60.0
RETRY_AFTER_S = (1.0, 5.0, 25.0)
"""How long to wait before each further attempt; after the last one a message is dropped."""
MAX_WAITING = 100
MAX_KEPT = 20
_Key = tuple[AlertKind, str]


class AlertWatch:
    """Checks once a minute, in a thread; sends in another, so that checks do not wait for calls.

    An alert starts when it is found twice in a row and ends when it is missing twice in a row:
    problems that last less than a minute are not sent.
    """

    def __init__(
        self,
        webhook: Webhook,
        look: Callable[[], Iterable[Alert]],
        clock: Callable[[], datetime],
        every_s: float = EVERY_S,
        retry_after_s: tuple[float, ...] = RETRY_AFTER_S,
    ) -> None:
        self.webhook = webhook
        self._look = look
        self._clock = clock
        self._every_s = every_s
        self._retry_after_s = retry_after_s
        self._last: set[_Key] = set()
        self._waiting: Queue[AlertMessage] = Queue(MAX_WAITING)
        self._stopping = Event()
        self._threads = [
            Thread(target=target, name=f"slotwise-{name}", daemon=True)
            for name, target in (("alerts", self._watch), ("webhook", self._deliver))
        ]
        self.active: dict[_Key, tuple[Alert, datetime]] = {}
        """The present alerts, with their start."""
        self.deliveries: deque[Delivery] = deque(maxlen=MAX_KEPT)

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads; queued messages are dropped. Returns at once."""
        self._stopping.set()

    def check(self) -> None:
        """Check once and queue a message for each alert that began or ended."""
        found = {(alert.kind, alert.pool_id): alert for alert in self._look()}
        now = self._clock()
        for key, alert in found.items():
            if key in self._last and key not in self.active:
                self.active[key] = (alert, now)
                self._queue(self.webhook.message(alert, "started", now, now))
        for key in [key for key in self.active if key not in found and key not in self._last]:
            alert, since = self.active.pop(key)
            self._queue(self.webhook.message(alert, "ended", since, now))
        self._last = set(found)

    def deliver(self, message: AlertMessage) -> Delivery:
        """Send a message, with a limited number of retries."""
        delivery = self.webhook.send(message)
        for attempt, wait_s in enumerate(self._retry_after_s, start=2):
            if delivery.delivered or self._stopping.wait(wait_s):
                break
            delivery = self.webhook.send(message, attempt)
        if not delivery.delivered:
            _log.warning("alert %s was not delivered: %s", message.alert, delivery.detail)
        self.deliveries.appendleft(delivery)
        return delivery

    def _queue(self, message: AlertMessage) -> None:
        try:
            self._waiting.put_nowait(message)
        except Full:
            _log.warning("alert %s was dropped: %d others are queued", message.alert, MAX_WAITING)

    def _watch(self) -> None:
        rest_s = self._every_s
        while not self._stopping.wait(rest_s):
            started = time.perf_counter()
            try:
                self.check()
            except Exception:
                _log.exception("checking for alerts failed; it will be tried again")
            # A thousand pools take long to check; pages and learning need the CPU more.
            rest_s = max(self._every_s, 9 * (time.perf_counter() - started))

    def _deliver(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._waiting.get(timeout=1.0)
            except Empty:
                continue
            try:
                self.deliver(message)
            except Exception:  # whatever fails, the next message must be sent
                _log.exception("alert %s is not delivered", message.alert)
