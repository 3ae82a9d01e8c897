"""Click tokens: signed names of one shown link, safe to print on a public page.

    v2.<key id>~<pool>~<decision>~<issued at, ms>~<places>~<HMAC-SHA-256, hex>~<position>~<link>

The token names the link and never its destination: the destination comes from the pool.
`places` has the place in the pool of every link on the page, in page order, so that one signature
serves the whole page. The last two parts are not signed: they choose one of the signed places, and
the link must be the one in that place (`ClickToken.place`). Ids hold no `~`.

Tokens of a longer page would list too many places. Where a page has more links than
`MAX_SIGNED_TOGETHER`, each token names one link and has a signature of its own:

    v1.<key id>.<pool>~<decision>~<issued at, ms>~<position>~<link>.<HMAC-SHA-256, hex>
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import NamedTuple

from slotwise.errors import InvalidInput
from slotwise.service.limits import MAX_SEALED_CHARS, MAX_TOKEN_CHARS

MAX_SIGNED_TOGETHER = 16
"""Links of a page with one signature: each of its tokens lists the places of all of them."""
_MAX_DIGITS = 18


class ClickToken(NamedTuple):
    """What a token says: this link, at this place, of this decision."""

    pool_id: str
    decision_id: str
    issued_at_ms: int
    position: int
    link_id: str
    place: int | None = None
    """The place in the pool that the link must have; None where its id itself is signed."""


def _sign(secret: bytes, message: str) -> str:
    return hmac.digest(secret, message.encode("ascii"), "sha256").hex()


class TokenSigner:
    """Signs with one secret and reads tokens of every secret it still knows.

    >>> signer = TokenSigner({"k1": b"0" * 32})
    >>> token = signer.token(ClickToken("home", "d1", 1700000000000, 1, "l9"))
    >>> signer.read(token)
    ClickToken(pool_id='home', decision_id='d1', issued_at_ms=1700000000000, position=1, \
link_id='l9', place=None)
    >>> signer.read(token.replace("l9", "l8")) is None
    True
    """

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        """Take secrets by key id; the last one signs."""
        self.renew(secrets)

    def renew(self, secrets: Mapping[str, bytes]) -> None:
        """Replace the secrets, after one was added or revoked."""
        if not secrets:
            raise InvalidInput.of("secrets", "at least one secret", dict(secrets))
        for key_id, secret in secrets.items():
            if not key_id.isalnum():
                raise InvalidInput.of("key id", "letters and digits", key_id)
            if len(secret) < 32:
                raise InvalidInput.of("secret", "at least 32 bytes", f"{len(secret)} bytes")
        self._secrets = dict(secrets)
        self._signing = list(self._secrets.items())[-1]

    def sign_page(self, pool_id: str, decision_id: str, issued_at_ms: int, places: str) -> str:
        """Return what the tokens of a page begin with; `~position~link` completes one.

        `places` are numbers joined by `-`.

        >>> signer = TokenSigner({"k1": b"0" * 32})
        >>> head = signer.sign_page("home", "d1", 1700000000000, "8-0")
        >>> signer.read(f"{head}~1~l9").place, signer.read(f"{head}~2~l1").place
        (8, 0)
        """
        key_id, secret = self._signing
        signed = f"v2.{key_id}~{pool_id}~{decision_id}~{issued_at_ms}~{places}"
        return f"{signed}~{_sign(secret, signed)}"

    def token(self, click: ClickToken) -> str:
        """Return the token that says `click`, with a signature of its own."""
        key_id, secret = self._signing
        signed = (
            f"v1.{key_id}.{click.pool_id}~{click.decision_id}~{click.issued_at_ms}"
            f"~{click.position}~{click.link_id}"
        )
        return f"{signed}.{_sign(secret, signed)}"

    def read(self, token: str) -> ClickToken | None:
        """Return what an authentic token says, None for any other text."""
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            return None
        return self._read_of_page(token) if token.startswith("v2.") else self._read_alone(token)

    def _read_of_page(self, token: str) -> ClickToken | None:
        parts = token.split("~")
        if len(parts) != 8:
            return None
        version_and_key, pool_id, decision_id, issued_at_ms, places, signature, at, link_id = parts
        if not self._is_signed(version_and_key[3:], "~".join(parts[:5]), signature):
            return None
        # Only these two parts are not signed; one position has one spelling.
        if not at.isdigit() or at.startswith("0") or len(at) > _MAX_DIGITS:
            return None
        position, on_page = int(at), places.split("-")
        if position > len(on_page):
            return None
        place = int(on_page[position - 1])
        return ClickToken(pool_id, decision_id, int(issued_at_ms), position, link_id, place)

    def _read_alone(self, token: str) -> ClickToken | None:
        signed, _, signature = token.rpartition(".")
        version, _, rest = signed.partition(".")
        key_id, _, payload = rest.partition(".")
        if version != "v1" or not self._is_signed(key_id, signed, signature):
            return None
        pool_id, decision_id, issued_at_ms, position, link_id = payload.split("~")
        return ClickToken(pool_id, decision_id, int(issued_at_ms), int(position), link_id)

    def _is_signed(self, key_id: str, signed: str, signature: str) -> bool:
        secret = self._secrets.get(key_id)
        return secret is not None and hmac.compare_digest(_sign(secret, signed), signature)

    def seal(self, payload: bytes) -> str:
        """Return a text that carries a payload, readable by all and made by this signer only.

        >>> signer = TokenSigner({"k1": b"0" * 32})
        >>> sealed = signer.seal(b"a page")
        >>> signer.unseal(sealed), signer.unseal(sealed[:-1] + "x"), signer.read(sealed)
        (b'a page', None, None)
        """
        key_id, secret = self._signing
        signed = f"s1.{key_id}.{base64.urlsafe_b64encode(payload).decode()}"
        return f"{signed}.{_sign(secret, signed)}"

    def unseal(self, sealed: str) -> bytes | None:
        """Return the payload of a text that this signer sealed, None for any other text."""
        signed, _, signature = sealed.rpartition(".")
        kind, _, rest = signed.partition(".")
        key_id, _, payload = rest.partition(".")
        if kind != "s1" or len(sealed) > MAX_SEALED_CHARS or not sealed.isascii():
            return None
        if not self._is_signed(key_id, signed, signature):
            return None
        return base64.urlsafe_b64decode(payload)
