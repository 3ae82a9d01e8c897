"""Pools, links and keys: checked, remembered with who changed them, kept over restarts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slotwise.errors import InvalidInput
from slotwise.service.records import KeyRecord
from slotwise.service.refusals import (
    Conflict,
    LimitReached,
    UnknownKey,
    UnknownLink,
    UnknownPool,
)
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool_id": "a b"}, "`pool_id` must be 1 to 64 characters"),
        ({"slots": 0}, "`slots` must be from 1 to 100, got 0"),
        ({"slots": 101}, "`slots` must be from 1 to 100"),
        ({"click_floor": 2.0}, r"`click_floor` must be at least 0 and below slots \(2\), got 2.0"),
        ({"click_floor": float("nan")}, "`click_floor` must be at least 0"),
        ({"click_floor": -0.1}, "`click_floor` must be at least 0"),
        ({"max_revenue_micros": 0}, "`max_revenue_micros` must be from 1 to"),
        ({"max_revenue_micros": 10**14}, "`max_revenue_micros` must be from 1 to"),
        ({"currency": "eur"}, "`currency` must be three capital letters"),
        ({"click_window_s": 0}, "`click_window_s` must be from 1 to"),
        ({"revenue_window_s": 10**9}, "`revenue_window_s` must be from 1 to"),
        ({"holdout": 1.5}, "`holdout` must be a share from 0 to 1, got 1.5"),
        ({"holdout": float("nan")}, "`holdout` must be a share"),
        ({"own_page": ("l 1",)}, "`own_page` must be 1 to 64 characters"),
        ({"policy": "con-ubc"}, "no policy is called 'con-ubc'; did you mean 'con-ucb'"),
        ({"policy_settings": {}}, "policy con-ucb: `horizon` must be"),
        ({"policy_settings": {"horizon": "long"}}, "policy"),
        ({"policy_settings": {"speed": 3}}, "policy con-ucb: `speed` is not a setting of con-ucb"),
    ],
)
def test_a_pool_that_breaks_a_rule_is_refused_with_its_name(
    service: Service, changes: dict[str, Any], message: str
) -> None:
    before = service.directory.pools()
    with pytest.raises(InvalidInput, match=message):
        service.directory.put_pool(pool(**changes), "test", T0)
    assert service.directory.pools() == before


def test_a_pool_keeps_when_it_was_made_and_says_when_it_changed(service: Service) -> None:
    service.directory.put_pool(pool(slots=3), "test", T0 + 5).result()
    found = service.directory.pool("home")
    assert (found.slots, found.created_us, found.changed_us) == (3, T0, T0 + 5)


def test_changes_hold_after_the_clock_was_set_back(service: Service) -> None:
    directory = service.directory
    directory.put_links("home", [link("l1", title="before")], "test", T0 + 9).result()
    directory.put_pool(pool(slots=1), "test", T0 + 9).result()
    directory.put_links("home", [link("l1", retired=True)], "test", T0 + 4).result()
    assert directory.link("home", "l1").retired
    directory.put_pool(pool(slots=3), "test", T0 + 4).result()
    assert directory.pool("home").slots == 3
    assert len(service.decider.decide("home", T0 + 5).shown) == 3
    directory.archive_pool("home", "test", T0 + 4).result()
    assert directory.pool("home").archived


def test_every_change_says_who_made_it(service: Service) -> None:
    service.directory.put_pool(pool(slots=3), "key-7", T0 + 5).result()
    service.directory.put_links("home", [link("l1", retired=True)], "key-8", T0 + 6).result()
    service.directory.archive_pool("home", "key-9", T0 + 7).result()
    found = [
        (item.changed_by, item.action, item.subject) for item in service.directory.changes(limit=3)
    ]
    assert found == [
        ("key-9", "pool.archive", "home"),
        ("key-8", "link.retire", "home/l1"),
        ("key-7", "pool.change", "home"),
    ]
    change = service.directory.changes("home")[1]
    assert msgspec.json.decode(change.before)["slots"] == 2
    assert msgspec.json.decode(change.after)["slots"] == 3
    assert service.directory.changes("home/l9") == []


def test_settings_links_and_keys_survive_a_restart(
    service: Service, open_service: OpenService
) -> None:
    key = KeyRecord(key_id="k1", key_hash="f00d", scopes=("decide",), label="shop")
    service.directory.put_key(key, "test", T0).result()
    pools, links, keys = (
        service.directory.pools(),
        service.directory.links("home"),
        service.directory.keys(),
    )
    service.close()
    again = open_service()
    assert (again.directory.pools(), again.directory.links("home"), again.directory.keys()) == (
        pools,
        links,
        keys,
    )


def test_links_keep_their_place_and_change_all_or_none(service: Service) -> None:
    saved = service.directory.put_links(
        "home", [link("l6"), link("l2", title="New")], "t", T0 + 1
    ).result()
    assert [(item.link_id, item.place) for item in saved] == [("l6", 5), ("l2", 1)]
    assert service.directory.link("home", "l2").title == "New"
    assert service.directory.link("home", "l2").created_us == T0
    with pytest.raises(InvalidInput, match="`link_id` must be 1 to 64 characters"):
        service.directory.put_links("home", [link("l7"), link("l 8")], "t", T0)
    with pytest.raises(InvalidInput, match="`url` must be an address"):
        service.directory.put_links("home", [link("l7", url="")], "t", T0)
    with pytest.raises(UnknownLink, match="pool 'home' has no link 'l7'"):
        service.directory.link("home", "l7")
    with pytest.raises(UnknownPool, match="no pool 'away'"):
        service.directory.put_links("away", [link("l7")], "t", T0)


def test_limits_are_named_with_their_number(open_service: OpenService) -> None:
    service = open_service(max_pools=1, max_links=3)
    service.directory.put_pool(pool(), "t", T0).result()
    with pytest.raises(LimitReached, match="`max_pools` is 1, and there are 1 pools"):
        service.directory.put_pool(pool(pool_id="other"), "t", T0)
    service.directory.put_pool(pool(slots=3), "t", T0).result()
    service.directory.put_links("home", [link("l1"), link("l2")], "t", T0).result()
    with pytest.raises(LimitReached, match="`max_links` is 3, and there would be 4 links"):
        service.directory.put_links("home", [link("l3"), link("l4")], "t", T0)
    service.directory.put_links("home", [link("l1"), link("l3")], "t", T0).result()


def test_keys_are_made_once_revoked_for_good_and_their_hash_is_never_logged(
    service: Service,
) -> None:
    key = KeyRecord(key_id="k1", key_hash="f00d", scopes=("admin",))
    service.directory.put_key(key, "test", T0 + 1).result()
    with pytest.raises(Conflict, match="the key id 'k1' is taken"):
        service.directory.put_key(key, "test", T0 + 2)
    service.directory.revoke_key("k1", "test", T0 + 3).result()
    service.directory.revoke_key("k1", "test", T0 + 4).result()
    found = service.directory.key_records.get("k1")
    assert found is not None
    assert (found.created_us, found.revoked_us) == (T0 + 1, T0 + 3)
    with pytest.raises(UnknownKey, match="there is no key 'k2'"):
        service.directory.revoke_key("k2", "test", T0)
    assert service.directory.key_records.get("k2") is None
    assert all("f00d" not in item.before + item.after for item in service.directory.changes())


def test_what_was_read_too_early_replaces_nothing(service: Service) -> None:
    """Another process's changes are read beside this one's: the reading may be the older one."""
    directory = service.directory
    [early] = directory.all_pools()
    service.directory.put_links("home", [link("l1", title="newer")], "test", T0 + 1).result()
    service.directory.put_pool(pool(click_floor=0.01), "test", T0 + 1).result()
    later = link("l2", title="of another process", changed_us=T0 + 2)
    directory._take_changed(
        early.with_links([msgspec.structs.replace(later, place=1, pool_id="home")])
    )
    assert service.directory.link("home", "l1").title == "newer"
    assert service.directory.link("home", "l2").title == "of another process"
    assert service.directory.pool("home").click_floor == 0.01


@pytest.mark.parametrize("policy", ["queue-kl", "of-a-package-that-is-gone"])
def test_a_stored_pool_whose_policy_does_not_exist_uses_the_default(
    open_service: OpenService, tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    service = open_service()
    service.directory.put_pool(pool(), "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(1, 6)], "test", T0).result()
    service.decider.decide("home", T0)
    service.close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE pools SET policy = ?", (policy,))
    service = open_service()
    assert (
        service.directory.pool("home").policy,
        service.directory.pool("home").policy_settings,
    ) == (
        "paced-bayes",
        {},
    )
    assert f"pool home uses paced-bayes: no policy is called {policy!r}" in caplog.text
    service.learner.learn(T0 + 1)
    assert service.decider.decide("home", T0 + 2).fallback == ""
    assert service.health().pools[0].fallback == ""
