"""Sessions of people who are signed in to the dashboard.

    <secret id>.<key id>.<session id>.<started, s>.<ends, s>.<HMAC-SHA-256, hex>

A session is signed with a secret of the store, so every process on the same store can read it and
none has to store it. It contains the key's id and has the rights that the key has at the time of
the call: revoking the key ends all its sessions. Signing out ends one session. Used by `api` and
`ended_sessions`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from slotwise.service.limits import MAX_SESSION_S, SESSION_S
from slotwise.service.records import SECOND_US

_PURPOSE = b"slotwise session 1"
_TOKEN = re.compile(
    r"(?P<signed>(?P<secret>[0-9a-zA-Z]{1,64})\.(?P<key>[0-9a-f]{16})\.(?P<id>[0-9a-f]{32})"
    r"\.(?P<started>[0-9]{1,12})\.(?P<ends>[0-9]{1,12}))\.(?P<mac>[0-9a-f]{64})"
)


class Session(NamedTuple):
    """A browser that is signed in with a key."""

    key_id: str
    session_id: str
    started_us: int
    ends_us: int

    def left_s(self, now_us: int) -> int:
        """Return the seconds until the session ends, rounded up."""
        return max(-((now_us - self.ends_us) // SECOND_US), 0)


class SessionSigner:
    """Signs sessions as text, and verifies them.

    >>> signer = SessionSigner({"k1": b"0" * 32})
    >>> text = signer.sign(signer.start("0123456789abcdef", now_us=0))
    >>> signer.read(text, now_us=0).key_id
    '0123456789abcdef'
    >>> signer.read(text, now_us=SESSION_S * 1_000_000) is None
    True
    """

    def __init__(
        self,
        click_secrets: Mapping[str, bytes],
        idle_s: int = SESSION_S,
        max_s: int = MAX_SESSION_S,
    ) -> None:
        """Derive secrets from those of the store, by id; the last one signs.

        So a text signed for another purpose, such as a click token, is never a session. A session
        lasts `idle_s` unless it is renewed, and `max_s` in total.
        """
        self._idle_us, self._max_us = idle_s * SECOND_US, max_s * SECOND_US
        self._secrets = {
            secret_id: hmac.digest(secret, _PURPOSE, "sha256")
            for secret_id, secret in click_secrets.items()
        }
        self._secret_id = next(reversed(self._secrets))

    def start(self, key_id: str, now_us: int) -> Session:
        """Return a new session for a key."""
        return self.renewed(Session(key_id, secrets.token_hex(16), now_us, now_us), now_us)

    def renewed(self, session: Session, now_us: int) -> Session:
        """Return the session with a later end, as late as its start allows."""
        latest_us = session.started_us + self._max_us
        return session._replace(ends_us=min(now_us + self._idle_us, latest_us))

    def sign(self, session: Session) -> str:
        """Return the text of a session."""
        started_s, ends_s = session.started_us // SECOND_US, session.ends_us // SECOND_US
        signed = f"{self._secret_id}.{session.key_id}.{session.session_id}.{started_s}.{ends_s}"
        return f"{signed}.{self._mac(self._secret_id, signed)}"

    def read(self, text: str, now_us: int) -> Session | None:
        """Return the session of an authentic text if it has not ended, otherwise None."""
        found = _TOKEN.fullmatch(text)
        if found is None or found["secret"] not in self._secrets:
            return None
        if not hmac.compare_digest(self._mac(found["secret"], found["signed"]), found["mac"]):
            return None
        started_us, ends_us = (int(found[name]) * SECOND_US for name in ("started", "ends"))
        if now_us >= min(ends_us, started_us + self._max_us):  # the settings may have changed
            return None
        return Session(found["key"], found["id"], started_us, ends_us)

    def _mac(self, secret_id: str, signed: str) -> str:
        return hmac.new(self._secrets[secret_id], signed.encode(), hashlib.sha256).hexdigest()


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request was made by a page of this service.

    Browsers send `Sec-Fetch-Site`, older ones `Origin`; a page cannot forge either. A page on
    another port of the same host has the same site, but another origin. A request with neither
    header is refused: every browser sends one of them with a change.

    >>> same_origin({b"sec-fetch-site": b"same-origin"}), same_origin({})
    (True, False)
    >>> same_origin({b"sec-fetch-site": b"same-site", b"origin": b"http://a", b"host": b"a"})
    False
    >>> same_origin({b"origin": b"https://links.example", b"host": b"links.example"})
    True
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    scheme, _, host = headers.get(b"origin", b"").partition(b"://")
    return scheme in (b"http", b"https") and host != b"" and host == headers.get(b"host")
