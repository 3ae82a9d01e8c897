"""Alerts as signed messages to an address, in the form that a chat product expects.

Used by `alert_receivers`, `alerting` and `api`.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from slotwise.service.alert_conditions import Alert, AlertKind
from slotwise.service.http.addresses import split_address
from slotwise.service.settings import AlertFormat, origin_of

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


SETTINGS_RECEIVER = "settings"
"""The id of the receiver that `alert_url` is."""


class AlertReceiver(msgspec.Struct, frozen=True, kw_only=True):
    """An address that alerts are sent to, and which of them."""

    receiver_id: str = SETTINGS_RECEIVER
    url: str
    format: AlertFormat = "auto"
    pool_id: str = ""
    """The only pool whose alerts are sent; empty: all pools."""
    alerts: tuple[AlertKind, ...] = ()
    """The kinds that are sent; empty: all kinds."""
    by: str = ""
    """The key of whoever added it."""
    made_us: int = 0

    @property
    def final_format(self) -> AlertFormat:
        """The format that is sent."""
        return format_of(self.url) if self.format == "auto" else self.format

    @property
    def shown_url(self) -> str:
        """The address to display: the path of a chat webhook is a secret."""
        is_secret = bool(self.url) and self.final_format != "json"
        return f"{origin_of(self.url)}/…" if is_secret else self.url

    def wants(self, alert: Alert) -> bool:
        """Return whether an alert is sent to this receiver."""
        is_of_pool = self.pool_id in ("", alert.pool_id)
        return is_of_pool and (not self.alerts or alert.kind in self.alerts)


def is_allowed(url: str, hosts: Sequence[str]) -> bool:
    """Return whether an address that was added by a call may be used.

    >>> is_allowed("https://hooks.slack.com/services/T0/B0/x", ())
    True
    >>> is_allowed("https://alerts.example/", ())
    False
    >>> is_allowed("https://alerts.example/", ["Alerts.Example"])
    True
    """
    return format_of(url) != "json" or _host(url) in {host.lower().rstrip(".") for host in hosts}


def _host(url: str) -> str:
    parts = split_address(url)
    return (parts.hostname or "").rstrip(".") if parts else ""


def format_of(url: str) -> AlertFormat:
    """Return the format that the receiver at an address expects.

    >>> format_of("https://hooks.slack.com/services/T0/B0/x"), format_of("https://alerts.example/")
    ('slack', 'json')
    """
    host = f".{_host(url)}"
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
    url: str
    """Where it was sent; of Slack and Teams the host only."""
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


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates that are trusted; reading them takes longer than a call.

    Those that are set in the environment are ignored.
    """
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class Webhook:
    """Sends messages to one receiver; follows no redirect and reads only the status.

    `secret` signs the messages, `base` is the address of the dashboard.
    """

    def __init__(self, receiver: AlertReceiver, secret: str, base: str) -> None:
        self.receiver = receiver
        self._secret = secret
        self._base = base

    def message(
        self, alert: Alert, state: AlertState, since: datetime, now: datetime
    ) -> AlertMessage:
        """Return the message for an alert."""
        where = f"{self._base}/?pool={alert.pool_id}" if alert.pool_id else f"{self._base}/"
        return AlertMessage(
            alert=alert.kind,
            pool_id=alert.pool_id,
            detail=alert.detail,
            state=state,
            since=since,
            sent_at=now,
            dashboard=where,
        )

    def send(self, message: AlertMessage, attempts: int = 1) -> Delivery:
        """Call the address once; never raises. Blocks for some seconds at most."""
        delivered, detail = self._call(
            _BODIES[self.receiver.final_format](message), message.sent_at
        )
        return Delivery(
            alert=message.alert,
            state=message.state,
            pool_id=message.pool_id,
            sent_at=message.sent_at,
            url=self.receiver.shown_url,
            delivered=delivered,
            attempts=attempts,
            detail=detail,
        )

    def _call(self, body: bytes, sent_at: datetime) -> tuple[bool, str]:
        import httpx  # here, since it takes a tenth of the start and few services send alerts

        headers = {
            "content-type": "application/json",
            "user-agent": "slotwise",
            SIGNATURE_HEADER: signature(self._secret, int(sent_at.timestamp()), body),
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

        # Ignore proxies that are set in the environment.
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(
                timeout=None, follow_redirects=False, trust_env=False, verify=_trusted()
            ) as client,
            client.stream("POST", self.receiver.url, content=body, headers=headers) as answer,
        ):
            return answer.status_code
