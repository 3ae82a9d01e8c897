"""Write a small store of the present format with rows of every kind.

Run `python -m tests.golden.write_store FILE` once when a format of rows, published versions or
policy states changes, and keep the file: later versions must open it.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from slotwise.service.records import (
    SECOND_US,
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    ImportedCounts,
    KeyRecord,
    LinkRecord,
    Pin,
    PoolRule,
    PoolSettings,
)
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore

T0 = 1_700_000_000 * SECOND_US
HOUR_US = 3600 * SECOND_US
FEATURES = {"device": ["phone", "desktop"], "country": "text", "days": [1, 7]}
VISITORS: list[dict[str, object]] = [
    {"device": "phone", "country": "DE", "days": 3},
    {"device": "desktop", "country": "FR"},
    {"country": "x" * 200, "days": 0.5},
    {},
]
SEGMENT_FLOORS = {"country": {"DE": 0.2}, "device": {"phone": 0.25}}
LINK_IDS = [f"l{k}" for k in range(1, 7)]


def pool(pool_id: str, policy: str, **changes: object) -> PoolSettings:
    settings: dict[str, object] = {
        "slots": 2,
        "click_floor": 0.3,
        "max_revenue_micros": 50_000_000,
        "currency": "EUR",
        "click_window_s": 1800,
        "revenue_window_s": 86400,
        "holdout": 0.2,
        "explore": 0.1,
        "own_page": ("l1",),
        "allowed_hosts": ("shop.example",),
    }
    return PoolSettings(pool_id=pool_id, policy=policy, **{**settings, **changes})  # type: ignore[arg-type]


def set_up(service: Service) -> None:
    pins = (Pin(link_id="l5", position=2),)
    settings = {"horizon": 1000}
    home = pool("home", "con-ucb", policy_settings=settings, learn_slot_weights=True)
    service.directory.put_pool(home, "test", T0).result()
    side = pool("side", "paced-bayes", pins=pins, features=FEATURES, segment_floors=SEGMENT_FLOORS)
    service.directory.put_pool(side, "test", T0).result()
    key = KeyRecord(key_id="k1", key_hash="ab" * 32, scopes=("decide", "read"), label="old")
    service.directory.put_key(key, "test", T0).result()
    for pool_id in ("home", "side"):
        links = [
            LinkRecord(
                pool_id=pool_id,
                link_id=item,
                url=f"https://shop.example/{item}",
                group="partner" if item in ("l3", "l4") else "",
                ends_us=T0 + 400 * HOUR_US if item == "l1" else 0,
            )
            for item in LINK_IDS
        ]
        service.directory.put_links(pool_id, links, "test", T0).result()
    rules = [
        PoolRule(name="partner", group="partner", at_least=0.5),
        PoolRule(name="one", links=("l1", "l2"), at_most=1, boost=0.1),
    ]
    service.directory.put_rules("home", rules, "test", T0).result()
    known = {"l1": [ImportedCounts(views=100, clicks=9, revenue_micros=40_000_000, discount=0.5)]}
    service.directory.put_known("home", known, "test", T0 + 1).result()
    phones = ImportedCounts(views=80, clicks=8, visitor={"device": "phone", "country": "DE"})
    service.directory.put_known("side", {"l2": [phones]}, "test", T0 + 1).result()


def live(service: Service, start_us: int, n_views: int) -> None:
    """Show pages of both pools; click on every second one, buy and refund on every fourth."""
    for k in range(n_views):
        now_us = start_us + k * 60 * SECOND_US
        for pool_id in ("home", "side"):
            name = f"{pool_id}-{start_us // HOUR_US}-{k}"
            page = service.decider.decide(
                pool_id,
                now_us,
                exclude=("l6",) if k % 7 == 0 else (),
                decision_id=name if k % 5 == 0 else None,
                visitor=VISITORS[k % len(VISITORS)] if pool_id == "side" else {},
            )
            if k % 2 == 0:
                decision_id, link_id = page.decision_id, page.shown[0].link_id
                click = ClickEvent(decision_id=decision_id, link_id=link_id)
                service.committer.submit_events([click, click], now_us + SECOND_US).result()
            if k % 4 == 0:
                sale = ConversionEvent(
                    conversion_id=f"c-{name}",
                    decision_id=decision_id,
                    link_id=link_id,
                    revenue_micros=7_000_000 + k,
                    currency="EUR",
                )
                refund = AdjustmentEvent(
                    adjustment_id=f"a-{name}",
                    conversion_id=f"c-{name}",
                    refund_micros=1_000_000,
                    currency="EUR",
                )
                wrong = ConversionEvent(
                    conversion_id=f"w-{name}",
                    decision_id=decision_id,
                    link_id=link_id,
                    revenue_micros=1,
                    currency="USD",
                )
                service.committer.submit_events(
                    [sale, refund, wrong], now_us + 2 * SECOND_US
                ).result()


def write_store(path: Path) -> None:
    """Let a service live for two days of its own clock."""
    service = Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))
    set_up(service)
    live(service, T0, 40)
    first = f"home-{T0 // HOUR_US}-0"
    late = ClickEvent(decision_id=first, link_id="l1")
    unknown = ClickEvent(decision_id="nobody", link_id="l1")
    crawler = ClickEvent(decision_id=first, link_id="l2", invalid="crawler")
    service.committer.submit_events([late, unknown, crawler], T0 + 3 * HOUR_US).result()
    service.learner.learn(T0 + 4 * HOUR_US)
    anew = LinkRecord(pool_id="home", link_id="l2", url="https://shop.example/2", title="anew")
    service.directory.put_links(
        "home", [anew], "test", T0 + 5 * HOUR_US, reset_statistics=True
    ).result()
    live(service, T0 + 6 * HOUR_US, 20)
    service.learner.learn(T0 + 48 * HOUR_US)
    service.decider.decide("home", T0 + 49 * HOUR_US, decision_id="last")
    service.flush().result()
    service.close()
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 1024", "VACUUM"):
            connection.execute(statement)
    path.with_name(path.name + ".lock").unlink()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.write_store FILE")
    write_store(Path(sys.argv[1]))
