"""Keys and their scopes. Only hashes are stored; a key is shown once, when it is made.

Used by `api`, `cli`, `opening` and `service`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, get_args

from slotwise.errors import InvalidInput
from slotwise.service.records import KeyRecord, Scope

SCOPES: tuple[Scope, ...] = get_args(Scope)
_PREFIXES: dict[Scope, str] = {
    "admin": "sw_ak_",
    "read": "sw_rk_",
    "decide": "sw_dk_",
    "track": "sw_tk_",
    "page": "sw_pk_",
}
"""From the broadest scope to the narrowest; a key starts with the prefix of its broadest scope."""
_IMPLIED: dict[str, frozenset[str]] = {"page": frozenset({"page", "decide", "admin"})}
"""Scopes that include a narrower one, apart from the scope itself and admin."""
_KEY = re.compile(r"sw_[dtrap]k_[A-Za-z0-9_-]{43}")
_KEY_ID_CHARS = 16


class NewKey(NamedTuple):
    """A new key with its secret, which is not stored."""

    secret: str
    record: KeyRecord


def _hash_of(secret: str) -> str:
    """Return what is stored for a key.

    A plain hash is enough: the secret has 256 random bits and cannot be guessed.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def new_key(
    scopes: Collection[Scope], *, label: str = "", pool_id: str = "", now_us: int
) -> NewKey:
    """Make a key of 256 random bits.

    A key with the scope `page` is public: it has no other scope and is for one pool. The id of a
    key is the start of its hash, which reveals nothing about the secret.

    >>> new_key(["decide", "track"], now_us=0).secret[:6]
    'sw_dk_'
    """
    kept = tuple(scope for scope in SCOPES if scope in scopes)
    if not kept or len(kept) != len(scopes):
        raise InvalidInput.of("scopes", f"some of {', '.join(SCOPES)}, once each", list(scopes))
    if "page" in kept and len(kept) > 1:
        raise InvalidInput.of("scopes", "page alone, or other scopes without it", list(scopes))
    if ("page" in kept) != bool(pool_id):
        rule = "given for a key with scope page, and only for such a key"
        raise InvalidInput.of("pool_id", rule, pool_id)
    prefix = next(prefix for scope, prefix in _PREFIXES.items() if scope in kept)
    secret = prefix + secrets.token_urlsafe(32)
    key_hash = _hash_of(secret)
    record = KeyRecord(
        key_id=key_hash[:_KEY_ID_CHARS],
        key_hash=key_hash,
        scopes=kept,
        label=label,
        created_us=now_us,
        pool_id=pool_id,
    )
    return NewKey(secret, record)


def key_allows(key: KeyRecord, scope: str) -> bool:
    """Return whether the key may make calls of `scope`; an admin key may make all calls."""
    return not _IMPLIED.get(scope, frozenset({scope, "admin"})).isdisjoint(key.scopes)


def find_key(secret: str, records: Mapping[str, KeyRecord]) -> KeyRecord | None:
    """Return the valid key with this secret, compared in constant time, or None.

    `records` are the known keys by id.

    >>> made = new_key(["read"], now_us=0)
    >>> stored = {made.record.key_id: made.record}
    >>> find_key(made.secret, stored) is made.record
    True
    >>> find_key("sw_rk_" + "A" * 43, stored) is None
    True
    """
    if not _KEY.fullmatch(secret):
        return None
    key_hash = _hash_of(secret)
    key = records.get(key_hash[:_KEY_ID_CHARS])
    if key is None or key.revoked_us or not hmac.compare_digest(key.key_hash, key_hash):
        return None
    return key


def click_secret(now_us: int) -> KeyRecord:
    """Make the secret that signs click tokens, in the form of a key without scopes.

    It is stored with the keys so that a backup contains it. Without a scope no call can be made
    with it, and its hash is random, so no known text has this hash.
    """
    secret = secrets.token_hex(32)
    key_id = hashlib.sha256(secret.encode()).hexdigest()[:_KEY_ID_CHARS]
    return KeyRecord(
        key_id=key_id, key_hash=secret, scopes=(), label="click tokens", created_us=now_us
    )


def click_secrets(keys: Iterable[KeyRecord]) -> dict[str, bytes]:
    """Return the click secrets among `keys` by id, oldest first."""
    found = [key for key in keys if not key.scopes and not key.revoked_us]
    found.sort(key=lambda key: (key.created_us, key.key_id))
    return {key.key_id: bytes.fromhex(key.key_hash) for key in found}


def group_secret(keys: Iterable[KeyRecord], pool_id: str) -> bytes:
    """Return the secret from which the groups of a pool's visitors follow.

    It is the same for every process on the store, and a new click secret does not change it.
    """
    oldest = next(iter(click_secrets(keys).values()), b"")
    return hmac.digest(oldest, f"slotwise groups 1 {pool_id}".encode(), "sha256")
