"""Keys: made once, kept as hashes, found only whole."""

from __future__ import annotations

import msgspec
import pytest

from slotwise.errors import InvalidInput
from slotwise.service.access.keys import (
    SCOPES,
    click_secret,
    click_secrets,
    find_key,
    key_allows,
    new_key,
)
from slotwise.service.records import Scope


@pytest.mark.parametrize(
    ("scopes", "prefix"),
    [
        (["decide"], "sw_dk_"),
        (["track"], "sw_tk_"),
        (["read"], "sw_rk_"),
        (["admin"], "sw_ak_"),
        (["track", "decide"], "sw_dk_"),
        (["decide", "track", "read", "admin"], "sw_ak_"),
    ],
)
def test_a_key_has_a_readable_prefix_and_256_bits(scopes: list[Scope], prefix: str) -> None:
    made = new_key(scopes, now_us=1)
    assert made.secret.startswith(prefix)
    assert len(made.secret) == len(prefix) + 43
    assert made.secret != new_key(scopes, now_us=1).secret


def test_the_record_does_not_hold_the_secret() -> None:
    made = new_key(["read"], now_us=1)
    assert made.secret[6:] not in msgspec.json.encode(made.record).decode()


@pytest.mark.parametrize("scopes", [[], ["decide", "decide"], ["root"]])
def test_scopes_that_make_no_sense_are_refused(scopes: list[Scope]) -> None:
    with pytest.raises(
        InvalidInput, match="`scopes` must be some of page, decide, track, read, admin"
    ):
        new_key(scopes, now_us=1)


def test_a_key_is_found_by_its_whole_secret_only() -> None:
    made = new_key(["read"], now_us=1)
    stored = {made.record.key_id: made.record}
    assert find_key(made.secret, stored) is made.record
    last = "A" if made.secret[-1] != "A" else "B"
    for wrong in ("", made.secret[:-1], made.secret + "A", made.secret[:-1] + last, "x" * 10_000):
        assert find_key(wrong, stored) is None


def test_the_hash_is_compared_even_when_the_id_fits() -> None:
    made, other = new_key(["read"], now_us=1), new_key(["admin"], now_us=1)
    clash = {made.record.key_id: other.record}
    assert find_key(made.secret, clash) is None


def test_a_revoked_key_is_not_found() -> None:
    made = new_key(["read"], now_us=1)
    revoked = msgspec.structs.replace(made.record, revoked_us=2)
    assert find_key(made.secret, {revoked.key_id: revoked}) is None


def test_only_admin_keys_may_do_everything() -> None:
    for held in SCOPES:
        pool_id = "home" if held == "page" else ""
        key = new_key([held], pool_id=pool_id, now_us=1).record
        allowed = [scope for scope in SCOPES if key_allows(key, scope)]
        expected = {"admin": list(SCOPES), "decide": ["page", "decide"]}.get(held, [held])
        assert allowed == expected


def test_click_secrets_open_nothing_and_are_found_oldest_first() -> None:
    newer, older = click_secret(2), click_secret(1)
    revoked = msgspec.structs.replace(click_secret(3), revoked_us=4)
    admin = new_key(["admin"], now_us=0).record
    found = click_secrets([newer, admin, older, revoked])
    assert list(found) == [older.key_id, newer.key_id]
    assert all(len(secret) == 32 for secret in found.values())
    assert not any(key_allows(newer, scope) for scope in SCOPES)
