"""One network cannot move a young pool with the key that is in the page."""

from __future__ import annotations

import random
from pathlib import Path

import httpx
from msgspec.structs import replace

from slotwise.service.access.tokens import ClickToken
from slotwise.service.records import SECOND_US, ClickEvent
from slotwise.service.reporting.network_shares import ONE_NETWORK, NetworkShares
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions, Settings
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.attacks.test_page_keys import ON_PAGE
from tests.service.conftest import POOL, http
from tests.service.rows import T0, link, pool

ATTACKER = "203.0.113.0/24"


def test_views_and_clicks_of_one_network_are_limited(tmp_path: Path) -> None:
    """150 visitors of many networks, then 300 invented ones of one network, who click one link."""
    settings = Settings(
        port=0,
        store=f"sqlite:///{tmp_path / 's.db'}",
        trusted_proxies="127.0.0.1",
        fold_every_s=3_600,
        pages_per_s=1e6,
        clicks_per_s=1e6,
    )
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        admin.put("/v1/pools/home", json=POOL).raise_for_status()
        links = [{"link_id": f"l{k}", "url": f"https://shop.example/{k}"} for k in range(4)]
        admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        made = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": "home"}).json()
        with http(server.url, made["key"]) as page:

            def see(address: str, clicked: str = "") -> None:
                headers = ON_PAGE | {"x-forwarded-for": address}

                def post(url: str) -> None:
                    path = httpx.URL(url).raw_path.decode()
                    assert page.post(path, headers=headers).status_code == 204

                proposed = page.post("/v1/pools/home/page", headers=headers).json()
                post(proposed["view_url"])
                for shown in proposed["links"]:
                    if shown["link_id"] == clicked:
                        post(shown["click_url"])
                        post(shown["click_url"])  # the same click again is counted once

            for k in range(150):
                see(f"198.51.{k}.7", "l1" if k < 5 else "")
            for k in range(300):
                see(f"203.0.113.{k % 250}", "l3")
        service = server.context.service
        service.flush().result()
        with service.store.reading() as reader:
            views = reader.views_after("home", 0, None, 0, 1_000).views
        assert len(views) == 450
        learned = [view for view in views if view.decision.learned]
        assert len(learned) == 200
        clicks = [stored.event for view in learned for stored in view.clicks]
        counted = [click for click in clicks if click.link_id == "l3" and not click.invalid]
        assert len(counted) == 2
        assert {click.invalid for click in clicks} == {"", ONE_NETWORK}
        busiest = server.context.outcomes.networks.busiest("home")
        assert busiest is not None
        assert (busiest.network, busiest.views, busiest.all_views) == (ATTACKER, 300, 450)


def test_one_network_cannot_put_its_link_on_every_page(tmp_path: Path) -> None:
    """400 honest views, then 300 of one network in 7 s, which selects pages with l7.

    Without the limit of clicks l7 is then on every page.
    """
    rates = {f"l{k}": 0.05 for k in range(8)} | {"l2": 0.25, "l5": 0.2}
    chance, shares = random.Random(1), NetworkShares()
    options = ServiceOptions(seed=2, commit_every_ms=0.0)
    service = Service(SqliteStore(tmp_path / "s.db"), options)
    settings = pool(
        policy="paced-bayes", policy_settings={}, slot_weights=(), revenue_window_s=1_800
    )
    service.directory.put_pool(settings, "test", T0).result()
    service.directory.put_links("home", [link(name) for name in rates], "test", T0).result()

    def see(network: str, now_us: int) -> None:
        page = service.decider.propose("home", now_us)
        for _ in range(50):
            if network != ATTACKER or any(one.link_id == "l7" for one in page.shown):
                break
            page = service.decider.propose("home", now_us)
        may_learn = shares.may_learn("home", network, page.decision_id, now_us)
        service.decider.record_view(replace(page, learned=may_learn), now_us)
        for one in page.shown:
            name, token = one.link_id, ClickToken("home", page.decision_id, 0, 1, one.link_id, 0)
            if name == "l7" if network == ATTACKER else chance.random() < rates[name]:
                invalid = "" if shares.may_click(token, network, now_us) else ONE_NETWORK
                click = ClickEvent(page.decision_id, name, invalid)
                service.committer.submit_events([click], now_us + 1)

    for k in range(400):
        now_us = T0 + k * SECOND_US // 4
        see(f"10.{k % 200}.0.0/24", now_us)
        if k % 5 == 4:
            service.learner.learn(now_us)
    for k in range(300):
        see(ATTACKER, now_us + k * SECOND_US * 7 // 300)
        if k % 43 == 42:
            service.learner.learn(now_us + k * SECOND_US * 7 // 300)
    service.learner.learn(now_us + 10 * SECOND_US)
    probabilities = service.decider.installed("home").probabilities
    service.close()
    assert probabilities[7] < 0.3
    assert probabilities[2] + probabilities[5] > 1.4
