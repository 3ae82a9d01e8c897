"""Click tokens: signed names of one shown link, safe to print on a public page.

    v1.<key id>.<pool>~<decision>~<issued at, ms>~<position>~<link>.<HMAC-SHA-256, hex>

The token names the link and never its destination: the destination comes from the pool.
Ids hold no `~`, and the signature no `.`, so the parts cannot run into each other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slotwise.errors import InvalidInput
from slotwise.service.limits import MAX_SEALED_CHARS, MAX_TOKEN_CHARS

__all__ = ["ClickToken", "PageSigner", "TokenSigner"]

_BLOCK = 64


class ClickToken(NamedTuple):
    """What a token says: this link, at this place, of this decision."""

    pool_id: str
    decision_id: str
    issued_at_ms: int
    position: int
    link_id: str


class _Mac:
    """HMAC-SHA-256 with both key blocks hashed once: a third of the time of `hmac.digest`."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _BLOCK:
            secret = hashlib.sha256(secret).digest()
        block = secret.ljust(_BLOCK, b"\0")
        self.inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self.outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def __call__(self, message: bytes) -> str:
        inner, outer = self.inner.copy(), self.outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.hexdigest()


class PageSigner:
    """Signs the links of one page.

    `head` is what all its tokens begin with; a link's token is the head, the link's tail
    (`position~link`), a dot and the tail's signature.
    """

    def __init__(self, head: str, mac: _Mac) -> None:
        self.head = head
        started = mac.inner.copy()
        started.update(head.encode())
        self._new_inner = started.copy
        self._new_outer = mac.outer.copy

    def sign(self, tails: Iterable[bytes]) -> list[str]:
        """Return the signatures of the tokens with these tails."""
        new_inner, new_outer = self._new_inner, self._new_outer
        signatures = []
        for tail in tails:
            inner, outer = new_inner(), new_outer()
            inner.update(tail)
            outer.update(inner.digest())
            signatures.append(outer.hexdigest())
        return signatures


class TokenSigner:
    """Signs with one secret and reads tokens of every secret it still knows.

    >>> signer = TokenSigner({"k1": b"0" * 32})
    >>> token = signer.token(ClickToken("home", "d1", 1700000000000, 1, "l9"))
    >>> signer.read(token)
    ClickToken(pool_id='home', decision_id='d1', issued_at_ms=1700000000000, position=1, \
link_id='l9')
    >>> signer.read(token.replace("l9", "l8")) is None
    True
    """

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        """Take secrets by key id; the last one signs."""
        if not secrets:
            raise InvalidInput.of("secrets", "at least one secret", dict(secrets))
        for key_id, secret in secrets.items():
            if not key_id.isalnum():
                raise InvalidInput.of("key id", "letters and digits", key_id)
            if len(secret) < 32:
                raise InvalidInput.of("secret", "at least 32 bytes", f"{len(secret)} bytes")
        self._macs = {key_id: _Mac(secret) for key_id, secret in secrets.items()}
        self._key_id = next(reversed(self._macs))
        self._mac = self._macs[self._key_id]

    def page(self, pool_id: str, decision_id: str, issued_at_ms: int) -> PageSigner:
        """Return what signs the links of one page."""
        return PageSigner(f"v1.{self._key_id}.{pool_id}~{decision_id}~{issued_at_ms}~", self._mac)

    def token(self, click: ClickToken) -> str:
        """Return the token that says `click`."""
        page = self.page(click.pool_id, click.decision_id, click.issued_at_ms)
        tail = f"{click.position}~{click.link_id}"
        [signature] = page.sign([tail.encode()])
        return f"{page.head}{tail}.{signature}"

    def read(self, token: str) -> ClickToken | None:
        """Return what an authentic token says, None for any other text."""
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            return None
        signed, _, signature = token.rpartition(".")
        version, _, rest = signed.partition(".")
        key_id, _, payload = rest.partition(".")
        mac = self._macs.get(key_id)
        if version != "v1" or mac is None:
            return None
        if not hmac.compare_digest(mac(signed.encode("ascii")), signature):
            return None
        pool_id, decision_id, issued_at_ms, position, link_id = payload.split("~")
        return ClickToken(pool_id, decision_id, int(issued_at_ms), int(position), link_id)

    def seal(self, payload: bytes) -> str:
        """Return a text that carries a payload, readable by all and made by this signer only.

        >>> signer = TokenSigner({"k1": b"0" * 32})
        >>> sealed = signer.seal(b"a page")
        >>> signer.unseal(sealed), signer.unseal(sealed[:-1] + "x"), signer.read(sealed)
        (b'a page', None, None)
        """
        signed = f"s1.{self._key_id}.{base64.urlsafe_b64encode(payload).decode()}"
        return f"{signed}.{self._mac(signed.encode())}"

    def unseal(self, sealed: str) -> bytes | None:
        """Return the payload of a text that this signer sealed, None for any other text."""
        signed, _, signature = sealed.rpartition(".")
        kind, _, rest = signed.partition(".")
        key_id, _, payload = rest.partition(".")
        mac = self._macs.get(key_id)
        if kind != "s1" or mac is None or len(sealed) > MAX_SEALED_CHARS or not sealed.isascii():
            return None
        if not hmac.compare_digest(mac(signed.encode("ascii")), signature):
            return None
        return base64.urlsafe_b64decode(payload)
