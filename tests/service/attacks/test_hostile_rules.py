"""Rules under attack: at the same time, on another replica, in large pools, and out of reach."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from slotwise.errors import InvalidInput
from slotwise.service.records import LinkRecord, PoolRule
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions, Settings
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.conftest import POOL, OpenService, http, problem_of, until
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.rows import T0, link, pool, seconds

CONTROLS = ["a\x00b", "a\u202eb", "a\nb", "\u2066a"]


def opened(service: Service, links: list[LinkRecord], *rules: PoolRule, slots: int = 2) -> Service:
    settings = pool(policy="uniform", policy_settings={}, slots=slots)
    service.directory.put_pool(settings, "test", T0).result()
    service.directory.put_links("home", links, "test", T0).result()
    service.directory.put_rules("home", rules, "test", T0).result()
    return service


def shown(service: Service, now_us: int, n_pages: int = 60) -> list[set[str]]:
    found = [service.decider.decide("home", now_us + k) for k in range(n_pages)]
    return [{one.link_id for one in page.shown} for page in found]


def test_two_sets_of_rules_at_once_are_never_mixed(open_service: OpenService) -> None:
    links = [link(f"l{k}") for k in range(6)]
    service = opened(open_service(), links)
    sets = [
        tuple(PoolRule(name=f"{name}{k}", links=(f"l{2 * k + odd}",), at_most=0) for k in range(3))
        for odd, name in enumerate("ab")
    ]

    def put(turn: int) -> None:
        service.directory.put_rules("home", sets[turn % 2], "test", seconds(turn)).result()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put, range(40)))
    stored = [rule.name for rule in service.directory.pool("home").rules]
    last = stored[0][0]
    assert stored == [f"{last}{k}" for k in range(3)]
    left_out = {f"l{2 * k + 'ab'.index(last)}" for k in range(3)}
    assert not any(page & left_out for page in shown(service, seconds(100)))
    service.close()
    service = open_service()
    assert [rule.name for rule in service.directory.pool("home").rules] == stored
    assert not any(page & left_out for page in shown(service, seconds(200)))


def test_a_thousand_links_in_twenty_groups(open_service: OpenService) -> None:
    links = [link(f"l{k}", group=f"g{k % 20}") for k in range(1_000)]
    rules = [PoolRule(name=f"r{k}", group=f"g{k}", at_most=1) for k in range(20)]
    rules[3] = PoolRule(name="r3", group="g3", at_least=1, at_most=1)
    service = opened(open_service(), links, *rules, slots=15)
    for page in shown(service, seconds(1), n_pages=200):
        groups = [int(name[1:]) % 20 for name in page]
        assert len(groups) == len(set(groups)) == 15
        assert 3 in groups
    status = service.reporter.rules("home", seconds(2))
    assert [one.n_links for one in status] == [50] * 20
    assert not any(one.violated for one in status)


@pytest.mark.parametrize("ends", [False, True])
def test_a_rule_out_of_reach_is_named_and_pages_go_on(
    open_service: OpenService, ends: bool
) -> None:
    links = [link(f"l{k}") for k in range(5)]
    if ends:
        links[1] = link("l1", ends_us=seconds(50))
    both = PoolRule(name="both of them", links=("l0", "l1"), at_least=2)
    service = opened(open_service(), links, both)
    assert all(page == {"l0", "l1"} for page in shown(service, seconds(1)))
    if not ends:
        retired = link("l1", retired=True)
        service.directory.put_links("home", [retired], "test", seconds(40)).result()
    service.learner.learn(seconds(60))
    found = shown(service, seconds(61))
    assert all("l0" in page and "l1" not in page and len(page) == 2 for page in found)
    [status] = service.reporter.rules("home", seconds(120))
    assert status.violated
    assert "both of them" in status.detail
    retired = link("l0", retired=True)
    service.directory.put_links("home", [retired], "test", seconds(130)).result()
    assert all(len(page) == 2 and not page & {"l0", "l1"} for page in shown(service, seconds(131)))
    [status] = service.reporter.rules("home", seconds(140))
    assert status.violated


@pytest.mark.parametrize("text", CONTROLS)
def test_control_characters_are_refused(open_service: OpenService, text: str) -> None:
    service = opened(open_service(), [link(f"l{k}") for k in range(3)])
    rule = PoolRule(name=text, links=("l1",), at_most=1)
    with pytest.raises(InvalidInput, match="`name` must be text without control characters, of"):
        service.directory.put_rules("home", [rule], "test", T0)
    for field in ("title", "group"):
        hidden = link("l1", **{field: text})
        with pytest.raises(InvalidInput, match=f"`{field}` must be text without control"):
            service.directory.put_links("home", [hidden], "test", T0)


def test_control_characters_are_refused_over_http(admin: httpx.Client) -> None:
    admin.put("/v1/pools/controls", json=POOL).raise_for_status()
    of_pool = "/v1/pools/controls"
    body = {"url": "https://shop.example/1", "title": "a\u202eb"}
    for answer in (
        admin.put(f"{of_pool}/links/l1", json=body),
        admin.post(f"{of_pool}/links:batch", json={"links": [{"link_id": "l1", **body}]}),
        admin.put(f"{of_pool}/rules", json={"rules": [{"name": "\x00", "links": ["l1"]}]}),
    ):
        assert answer.status_code == 422, answer.text
        assert "text without control characters" in answer.text
        assert problem_of(answer)["errors"]


def test_rules_survive_backup_and_restore(open_service: OpenService, tmp_path: Path) -> None:
    rule = PoolRule(name="never", links=("l0",), at_most=0)
    service = opened(open_service(), [link(f"l{k}") for k in range(4)], rule)
    back_up(tmp_path / "store.db", tmp_path / "copy.db")
    service.directory.put_rules("home", (), "test", seconds(5)).result()
    restore(tmp_path / "copy.db", tmp_path / "restored.db")
    options = ServiceOptions(seed=1, commit_every_ms=0.0)
    restored = Service(SqliteStore(tmp_path / "restored.db"), options)
    assert [one.name for one in restored.directory.pool("home").rules] == ["never"]
    assert not any("l0" in page for page in shown(restored, seconds(10)))
    restored.close()
    assert any("l0" in page for page in shown(service, seconds(10)))


def test_rules_of_one_replica_hold_on_the_other(postgresql: PrivatePostgresql) -> None:
    settings = Settings(port=0, store=postgresql.new_database(), fold_every_s=0.05, seed=1)
    with (
        BackgroundServer(settings) as first,
        BackgroundServer(settings) as second,
        http(first.url, first.admin_key) as one,
        http(second.url, first.admin_key) as other,
    ):
        one.put("/v1/pools/home", json=POOL | {"slots": 2}).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
        one.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        for client, left_out in ((one, "l0"), (other, "l1")):
            rules = {"rules": [{"name": left_out, "links": [left_out], "at_most": 0}]}
            client.put("/v1/pools/home/rules", json=rules).raise_for_status()
            for server in (first, second):
                until(partial(_has_rule, server, left_out))
            for asked in (one, other):
                pages = [asked.post("/v1/pools/home/decide").json() for _ in range(40)]
                found = {link["link_id"] for page in pages for link in page["links"]}
                assert found == {f"l{n}" for n in range(5)} - {left_out}


def _has_rule(server: BackgroundServer, name: str) -> bool:
    """Say whether the pages of a server are drawn within a rule."""
    decider = server.context.service.decider
    if "home" not in dict(decider.stored_versions()):
        return False
    return [rule.name for rule in decider.installed("home").pool.settings.rules] == [name]
