"""Several replicas on one PostgreSQL database: alike, one of them learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from slotwise.service.deciding.decisions_by_id import DecisionsById
from slotwise.service.learning.pool_run import PoolRun
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import POOL, http, until
from tests.service.private_postgresql import PrivatePostgresql
from tests.stores.store_rows import reads

StartReplica = Callable[..., BackgroundServer]


@pytest.fixture
def address(postgresql: PrivatePostgresql) -> str:
    return postgresql.new_database()


@pytest.fixture(autouse=True)
def patient_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no look-up of an id fail because the machine is busy."""
    monkeypatch.setattr(DecisionsById, "LOOK_UP_S", 60.0)


@pytest.fixture
def start_replica(address: str) -> Iterator[StartReplica]:
    """Start a replica on the test's database; the counters are verified after the test."""
    with ExitStack() as stack:

        def start(**settings: object) -> BackgroundServer:
            given: dict[str, object] = {
                "port": 0,
                "store": address,
                "fold_every_s": 0.05,
                "seed": 1,
            }
            server = BackgroundServer(Settings(**(given | settings)))  # type: ignore[arg-type]
            return stack.enter_context(server)

        yield start
    store = PostgresqlStore(address)
    assert verify(store).mismatches == ()
    store.close()


def epoch_of(server: BackgroundServer) -> int | None:
    sharing = server.context.service.store.sharing
    assert sharing is not None
    return sharing.epoch


def is_learner(server: BackgroundServer) -> bool:
    return server.context.service.health().is_learner


def fill(client: httpx.Client, **changes: object) -> None:
    client.put("/v1/pools/home", json=POOL | changes).raise_for_status()
    links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(5)]
    client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()


def knows_pool(server: BackgroundServer, n_links: int = 5) -> bool:
    published = dict(server.context.service.decider.stored_versions())
    return "home" in published and len(published["home"].link_ids) == n_links


def views_at(server: BackgroundServer) -> int:
    """Return how many views went into the version that a replica draws from."""
    return dict(server.context.service.decider.stored_versions())["home"].delivered.click_views


def test_replicas_are_alike(start_replica: StartReplica) -> None:
    """A page of one, its click link followed at the other, its sale at the first again."""
    first, second = start_replica(), start_replica()
    key = first.admin_key
    with http(first.url, key) as one, http(second.url, key) as other:
        fill(one)
        until(lambda: knows_pool(second))
        page = one.post("/v1/pools/home/decide").json()
        link = page["links"][0]
        until(lambda: one.get(f"/v1/decisions/{page['decision_id']}").status_code == 200)
        path = httpx.URL(link["click_url"]).raw_path.decode()
        followed = other.get(path)
        assert (followed.status_code, followed.headers["location"]) == (302, link["url"])
        sale = {
            "type": "conversion",
            "conversion_id": "order-1",
            "decision_id": page["decision_id"],
            "link_id": link["link_id"],
            "revenue_micros": 1_000_000,
            "currency": "EUR",
        }
        assert one.post("/v1/events", json=sale).json() == {"outcome": "accepted"}
        assert other.post("/v1/events", json=sale).json()["outcome"] == "duplicate"
        for client in (one, other):
            report = client.get(f"/v1/decisions/{page['decision_id']}").json()
            assert report["clicked"] == [link["link_id"]]
        mine = {"decision_id": "mine"}
        pages = [client.post("/v1/pools/home/decide", json=mine).json() for client in (one, other)]
        assert pages[0]["links"][0]["link_id"] == pages[1]["links"][0]["link_id"]
        until(lambda: is_learner(first) or is_learner(second))
        assert [is_learner(first), is_learner(second)].count(True) == 1


def test_rules_and_dates_hold_on_all_replicas(start_replica: StartReplica) -> None:
    first, second = start_replica(), start_replica()
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one)
        until(lambda: knows_pool(second))
        one.patch(
            "/v1/pools/home/links/l4", json={"ends_at": "2020-01-01T00:00:00Z"}
        ).raise_for_status()
        budget = {"clicks": 0, "until": "2099-01-01T00:00:00Z", "hard": True}
        rules = [
            {"name": "one", "links": ["l0", "l1"], "at_most": 1},
            {"name": "none", "links": ["l2"], "budget": budget},
        ]
        one.put("/v1/pools/home/rules", json={"rules": rules}).raise_for_status()
        until(lambda: len(other.get("/v1/pools/home/rules").json()["rules"]) == 2)
        for client in (one, other):
            for _ in range(20):
                page = client.post("/v1/pools/home/decide").json()
                shown = {link["link_id"] for link in page["links"]}
                assert len(shown) == 2
                assert shown & {"l0", "l1"} != {"l0", "l1"}
                assert not shown & {"l2", "l4"}


def test_one_id_asked_of_two_replicas_at_once_gets_one_page(start_replica: StartReplica) -> None:
    first, second = start_replica(seed=1), start_replica(seed=2)
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one)
        until(lambda: knows_pool(second))
        with ThreadPoolExecutor(2) as threads:
            for number in range(10):
                asked = {"decision_id": f"same-{number}"}

                def ask(client: httpx.Client, asked: object = asked) -> list[str]:
                    page = client.post("/v1/pools/home/decide", json=asked).json()
                    return [link["link_id"] for link in page["links"]]

                pages = list(threads.map(ask, (one, other)))
                assert pages[0] == pages[1]


def test_after_an_outage_the_stored_page_of_an_id_wins(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store is away each replica answers by itself; a click on either is redirected."""
    replicas = start_replica(), start_replica(seed=2)
    key = replicas[0].admin_key

    def away(*_: object) -> None:
        raise StoreUnavailable("away for a test")

    with ExitStack() as stack:
        first, second = (stack.enter_context(http(one.url, key)) for one in replicas)
        fill(first)
        until(lambda: knows_pool(replicas[1]))

        def links_of(client: httpx.Client, name: str) -> list[str]:
            page = client.post("/v1/pools/home/decide", json={"decision_id": name}).json()
            return [link["link_id"] for link in page["links"]]

        names = [f"d{number}" for number in range(20)]
        with monkeypatch.context() as outage:
            for replica in replicas:
                outage.setattr(replica.context.service.store, "reading", away)
                outage.setattr(replica.context.service.store, "commit", away)
            during = [[links_of(one, name) for name in names] for one in (first, second)]
            again = [[links_of(one, name) for name in names] for one in (first, second)]
        assert during == again
        assert during[0] != during[1]
        until(lambda: all(one.context.service.health().store_available for one in replicas))
        for one in replicas:
            one.context.service.flush().result()
        after = [[links_of(one, name) for name in names] for one in (first, second)]
        assert after[0] == after[1]
        for name, links in zip(names, after[0], strict=True):
            click = {"type": "click", "decision_id": name, "link_id": links[0]}
            assert second.post("/v1/events", json=click).json()["outcome"] == "accepted"


def test_changes_and_versions_reach_the_others(start_replica: StartReplica) -> None:
    first, second = start_replica(), start_replica()
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(other, click_window_s=1, revenue_window_s=1)
        until(lambda: knows_pool(first))
        until(lambda: is_learner(first) or is_learner(second))
        leader, follower = (first, second) if is_learner(first) else (second, first)

        def both_learned(n_views: int = 4) -> bool:
            """Show pages at both, until their windows have closed at the one that learns."""
            for client in (one, other):
                client.post("/v1/pools/home/decide").raise_for_status()
            return min(views_at(leader), views_at(follower)) >= n_views

        until(both_learned)
        other.delete("/v1/pools/home/links/l0").raise_for_status()
        until(lambda: knows_pool(first, 4))
        shown = [one.post("/v1/pools/home/decide").json()["links"] for _ in range(20)]
        assert "l0" not in {link["link_id"] for links in shown for link in links}
        made = other.post("/v1/keys", json={"scopes": ["decide"], "label": "shop"}).json()
        until(lambda: first.context.service.directory.key_records.get(made["key_id"]) is not None)
        with http(first.url, made["key"]) as shop:
            assert shop.post("/v1/pools/home/decide").status_code == 200


def test_a_lost_notification_is_made_up_for(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slotwise.service.storage import postgresql as batch

    monkeypatch.setattr(batch, "_TOLD", ())
    first, second = start_replica(), start_replica()
    with http(first.url, first.admin_key) as one:
        fill(one)
    until(lambda: knows_pool(second))


def test_another_takes_over_when_the_learner_stops(
    start_replica: StartReplica, address: str
) -> None:
    first, second = start_replica(), start_replica()
    until(lambda: epoch_of(first) is not None or epoch_of(second) is not None)
    leader, heir = (first, second) if epoch_of(first) else (second, first)
    with psycopg.connect(address, autocommit=True) as connection:  # as when its machine is lost
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks "
            "WHERE locktype = 'advisory' AND objid = 2"
        )
    until(lambda: (epoch_of(heir) or epoch_of(leader) or 0) > 1)
    until(lambda: is_learner(heir) or is_learner(leader))


def test_a_clock_that_is_off_is_set_by_the_database(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that starts an hour ahead stamps, closes and learns as the others do."""
    import time

    right = time.time_ns
    first = start_replica()
    monkeypatch.setattr(time, "time_ns", lambda: right() + 3_600_000_000_000)
    second = start_replica()
    monkeypatch.undo()
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one)
        until(lambda: knows_pool(second))
        pages = [client.post("/v1/pools/home/decide").json() for client in (one, other)]
        click = {
            "type": "click",
            "decision_id": pages[0]["decision_id"],
            "link_id": pages[0]["links"][0]["link_id"],
        }
        until(lambda: one.get(f"/v1/decisions/{pages[0]['decision_id']}").status_code == 200)
        assert other.post("/v1/events", json=click).json() == {"outcome": "accepted"}
    apart_us = abs(second.context.clock_us() - first.context.clock_us())
    assert apart_us < 1_800_000_000, "the two are read one after the other"


def test_the_learner_counts_open_views_of_all_replicas(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PoolRun, "counts_open_views", True)
    first, second = start_replica(), start_replica()
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one)
        until(lambda: knows_pool(first) and knows_pool(second))
        until(lambda: is_learner(first) or is_learner(second))
        learner = (first if is_learner(first) else second).context.service.learner
        until(lambda: learner._runs["home"].knows_open_views)
        with learner._learning, learner._runs["home"].publishing:  # it counts them itself, too
            run = learner._runs["home"]
            learner._publisher._take_shown(run)
            pages = [client.post("/v1/pools/home/decide").json() for client in (one, other) * 5]
            for page in pages:
                until(lambda: one.get(f"/v1/decisions/{page['decision_id']}").status_code == 200)  # noqa: B023
            assert sum(learner._publisher._take_shown(run).links.values()) == 2 * len(pages)


def test_text_that_postgresql_cannot_store_is_no_error(start_replica: StartReplica) -> None:
    server = start_replica()
    with http(server.url, server.admin_key) as client:
        fill(client)
        link = {"url": "https://shop.example/9", "title": "nul \0, line\nbreak, back\\slash"}
        put = client.put("/v1/pools/home/links/l9", json=link)
        assert put.status_code < 500
        page = client.post("/v1/pools/home/decide").json()
        one = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        for client_time in ("\0", "{}", '",NULL,"', "\\", "\x1f\x7f", "2026-01-01T00:00:00Z"):
            event = {"type": "click", "client_time": client_time, **one}
            answer = client.post("/v1/events", json=event)
            assert answer.status_code < 500
        sale = {
            "type": "conversion",
            "conversion_id": "huge",
            "revenue_micros": 2**63,
            "currency": "EUR",
            **one,
        }
        assert client.post("/v1/events", json=sale).status_code < 500


def test_first_starts_at_once_make_one_secret(address: str) -> None:
    settings = Settings(port=0, store=address)
    with ThreadPoolExecutor(3) as threads:
        servers = list(threads.map(lambda _: BackgroundServer(settings), range(3)))
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        store = servers[0].context.service.store
        labels = sorted(key.label for key in reads(store).keys())  # noqa: SIM118
        assert labels == ["click tokens", "first admin key"]
        assert [server.start.admin_key is None for server in servers].count(False) == 1


def tells_what_is_stored(client: httpx.Client, path: str, stored: tuple[Any, ...]) -> bool:
    revisions = {f'"{one.changed_us}"' for one in stored}
    return client.get(path).headers["etag"] in revisions


def is_retired(client: httpx.Client, path: str) -> bool:
    return bool(client.get(path).json()["retired"])


def test_simultaneous_changes_are_all_kept_and_replicas_agree(
    start_replica: StartReplica, address: str
) -> None:
    """Both replicas change the same pool, link and rules at the same time, many times."""
    first, second = start_replica(), start_replica()
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one)
        until(lambda: knows_pool(second))

        def both(*calls: tuple[str, str, dict[str, object] | None]) -> None:
            with ThreadPoolExecutor(2) as threads:
                sent = [
                    threads.submit(client.request, method, path, json=body)
                    for client, (method, path, body) in zip((one, other), calls, strict=True)
                ]
                for answer in sent:
                    assert answer.result().status_code == 200, answer.result().text

        for k in range(8):
            both(
                ("PATCH", "/v1/pools/home", {"click_floor": k / 100}),
                ("PATCH", "/v1/pools/home", {"holdout": k / 100}),
            )
            both(
                ("PATCH", "/v1/pools/home/links/l0", {"title": f"t{k}"}),
                ("PATCH", "/v1/pools/home/links/l0", {"group": f"g{k}"}),
            )
            rule = {"name": f"r{k}", "links": ["l1"], "at_most": 0.5}
            both(
                ("PATCH", "/v1/pools/home", {"explore": k / 100}),
                ("PUT", "/v1/pools/home/rules", {"rules": [rule]}),
            )
            store = PostgresqlStore(address)
            [stored] = reads(store).pools()
            [link] = [link for link in reads(store).links("home") if link.link_id == "l0"]
            store.close()
            assert (stored.click_floor, stored.holdout, stored.explore) == (k / 100,) * 3
            assert [rule.name for rule in stored.rules] == [f"r{k}"]
            assert (link.title, link.group) == (f"t{k}", f"g{k}")
            for path in ("/v1/pools/home", "/v1/pools/home/links/l0"):
                until(partial(tells_what_is_stored, one, path, (stored, link)))
                until(partial(tells_what_is_stored, other, path, (stored, link)))
                assert one.get(path).json() == other.get(path).json()
        for k in range(1, 4):
            link_path = f"/v1/pools/home/links/l{k}"
            both(("PATCH", link_path, {"title": "new"}), ("DELETE", link_path, None))
            for client in (one, other):
                until(partial(is_retired, client, link_path))
        # A replica that has not read the last change yet accepts its revision.
        tag = one.patch("/v1/pools/home", json={"holdout": 0.5}).headers["etag"]
        read = {"if-match": tag}
        assert other.patch("/v1/pools/home", json={"explore": 0.5}, headers=read).status_code == 200
        refused = one.patch("/v1/pools/home", json={"explore": 0.1}, headers=read)
        assert refused.status_code == 412
        assert one.get("/v1/pools/home").json()["explore"] == 0.5


def test_replicas_show_one_share_and_one_group_to_a_visitor(start_replica: StartReplica) -> None:
    """The learner decides the share with the version; the group is a hash with one secret."""
    first, second = start_replica(), start_replica()
    promise = {"own_page": ["l1", "l2", "l3"], "keep": 0.5, "click_window_s": 1}
    with http(first.url, first.admin_key) as one, http(second.url, first.admin_key) as other:
        fill(one, **promise, revenue_window_s=1)
        until(lambda: knows_pool(first) and knows_pool(second))
        until(lambda: is_learner(first) or is_learner(second))

        def promised(server: BackgroundServer) -> Any:
            return dict(server.context.service.decider.stored_versions())["home"].promise

        def decide(client: httpx.Client, key: str) -> str:
            body = {"visitor_key": key}
            group: str = client.post("/v1/pools/home/decide", json=body).json()["group"]
            return group

        def has_chosen_pages() -> bool:
            for client in (one, other):
                for _ in range(20):
                    client.post("/v1/pools/home/decide").raise_for_status()
            known = promised(first), promised(second)
            return known[0] is not None and known[0] == known[1] and known[0].share > 0.0

        until(has_chosen_pages)
        keys = [f"visitor {k}" for k in range(200)]

        def groups_agree() -> bool:
            before = promised(first), promised(second)
            groups = [[decide(client, key) for key in keys] for client in (one, other)]
            after = promised(first), promised(second)
            shares = {found.share for found in (*before, *after)}
            return len(shares) == 1 and groups[0] == groups[1] and len(set(groups[0])) == 2

        until(groups_agree)
