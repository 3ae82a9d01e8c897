"""One call of the webhook: what is sent, how it is signed, what became of it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from slotwise.service.alerting.conditions import Alert, AlertKind

__all__ = ["SIGNATURE_HEADER", "AlertMessage", "Delivery", "Webhook", "alert_secret", "signature"]

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


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message."""

    alert: AlertKind
    state: AlertState
    pool_id: str
    sent_at: datetime
    delivered: bool
    attempts: int
    detail: str
    """What the receiver answered, or why it was not reached."""


def alert_secret(store_secret: bytes) -> str:
    """Return the secret that signs messages: the same for every process on the store."""
    return hmac.digest(store_secret, _PURPOSE, "sha256").hex()


def signature(secret: str, sent_s: int, body: bytes) -> str:
    """Return the header that proves who sent a body, and when.

    >>> signature("secret", 1700000000, b"{}")[:17]
    't=1700000000,v1=b'
    """
    signed = hmac.new(secret.encode(), b"%d.%s" % (sent_s, body), hashlib.sha256)
    return f"t={sent_s},v1={signed.hexdigest()}"


class Webhook:
    """Sends messages to one address; follows no redirect and reads no answer but its status."""

    def __init__(self, url: str, secret: str, base: str) -> None:
        self.url = url
        self.secret = secret
        self._base = base

    def message(
        self, alert: Alert, state: AlertState, since: datetime, now: datetime
    ) -> AlertMessage:
        """Return what is sent of an alert."""
        where = f"{self._base}/?pool={alert.pool_id}" if alert.pool_id else f"{self._base}/"
        return AlertMessage(
            alert=alert.kind,
            state=state,
            pool_id=alert.pool_id,
            detail=alert.detail,
            since=since,
            sent_at=now,
            dashboard=where,
        )

    def send(self, message: AlertMessage, attempts: int = 1) -> Delivery:
        """Call the address once; never raises. Blocks for some seconds at most."""
        delivered, detail = self._call(msgspec.json.encode(message), message.sent_at)
        return Delivery(
            alert=message.alert,
            state=message.state,
            pool_id=message.pool_id,
            sent_at=message.sent_at,
            delivered=delivered,
            attempts=attempts,
            detail=detail,
        )

    def _call(self, body: bytes, sent_at: datetime) -> tuple[bool, str]:
        import httpx  # here: it takes a tenth of a start, and most services send no alerts

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

        The time limit is for the whole call: limits for each read would let a receiver that
        sends a byte now and then keep the thread for ever.
        """
        import httpx

        # The environment could name a proxy or other certificates: the address alone decides.
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", self.url, content=body, headers=headers) as answer,
        ):
            return answer.status_code
