"""Write what the default policy has learned, in selectors and in a store of the service.

Run `python -m tests.golden.write_default FOLDER` once before what the policy saves changes, and
keep the files: later versions must go on from them.
"""

from __future__ import annotations

import gzip
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from slotwise import Selector
from slotwise.service.records import (
    SECOND_US,
    ClickEvent,
    ConversionEvent,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore

T0 = 1_700_000_000 * SECOND_US
N_LINKS, N_SLOTS, N_PAGES = 5, 2, 120
CLICK_RATE = (0.6, 0.5, 0.3, 0.2, 0.1)
SALE_RATE = (0.1, 0.2, 0.5, 0.6, 0.3)

SELECTORS: dict[str, dict[str, Any]] = {
    "plain": {"click_floor": 0.7},
    "segment": {
        "click_floor": 0.7,
        "features": {"device": ("phone", "desktop")},
        "segment_floors": {"device": {"phone": 0.6}},
    },
    "wide": {"click_floor": 0.7, "features": {"country": str, "source": str}},
}
"""No features; a feature with the floor of a segment; so many values that pairs do not fit."""

POOLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "segment": {
        "features": {"device": ["phone", "desktop"]},
        "segment_floors": {"device": {"phone": 0.6}},
    },
    "wide": {"features": {"country": "text", "source": "text"}},
}


def visitor_of(kind: str, number: int) -> dict[str, str]:
    """Return the visitor of a page."""
    if kind == "segment":
        return {"device": ("phone", "desktop")[number % 2]}
    if kind == "wide":
        return {"country": ("DE", "FR", "NL")[number % 3], "source": ("ad", "mail")[number % 2]}
    return {}


def new_selector(kind: str) -> Selector[int]:
    """Return a selector that has seen nothing."""
    return Selector(range(N_LINKS), N_SLOTS, slot_weights="equal", seed=1, **SELECTORS[kind])


def show_pages(selector: Selector[int], kind: str) -> None:
    """Show pages that do not depend on the policy: pins fill them. Every sale is 0.5."""
    rng = np.random.default_rng(5)
    for number in range(N_PAGES):
        shown = rng.permutation(N_LINKS)[:N_SLOTS].tolist()
        clicks = [link for link in shown if rng.random() < CLICK_RATE[link]]
        revenue = {link: 0.5 for link in clicks if rng.random() < SALE_RATE[link]}
        page = selector.select(pin=shown, visitor=visitor_of(kind, number) or None)
        selector.update(page, shown=shown, clicks=clicks, revenue=revenue)


def live(service: Service) -> None:
    """Show pages of all pools, with clicks and sales, and learn from them."""
    for kind, more in POOLS.items():
        settings = PoolSettings(
            pool_id=kind,
            slots=N_SLOTS,
            click_floor=0.7,
            max_revenue_micros=1_000_000,
            currency="EUR",
            click_window_s=1800,
            revenue_window_s=3600,
            policy="paced-bayes",
            **more,
        )
        service.directory.put_pool(settings, "test", T0).result()
        links = [
            LinkRecord(pool_id=kind, link_id=f"l{k}", url=f"https://shop.example/{k}")
            for k in range(N_LINKS)
        ]
        service.directory.put_links(kind, links, "test", T0).result()
        rng = np.random.default_rng(6)
        for number in range(40):
            now_us = T0 + number * SECOND_US
            page = service.decider.decide(kind, now_us, visitor=visitor_of(kind, number))
            for one in page.shown:
                place = int(one.link_id[1:])
                if rng.random() < CLICK_RATE[place]:
                    decision_id = page.decision_id
                    events: list[Any] = [ClickEvent(decision_id=decision_id, link_id=one.link_id)]
                    if rng.random() < SALE_RATE[place]:
                        events.append(
                            ConversionEvent(
                                conversion_id=f"{kind}-{number}-{place}",
                                decision_id=decision_id,
                                link_id=one.link_id,
                                revenue_micros=500_000,
                                currency="EUR",
                            )
                        )
                    service.committer.submit_events(events, now_us + 1).result()
    service.learner.learn(T0 + 7200 * SECOND_US)
    service.flush().result()


def write_compressed(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def main(folder: Path) -> None:
    """Write a selector of every kind, and a store with a pool of every kind."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for kind in SELECTORS:
            selector = new_selector(kind)
            show_pages(selector, kind)
            selector.save(scratch / "one.sel")
            content = (scratch / "one.sel").read_bytes()
            write_compressed(folder / f"default-1-{kind}.sel.gz", content)
        service = Service(SqliteStore(scratch / "s.db"), ServiceOptions(seed=1, commit_every_ms=0))
        live(service)
        service.close()
        with closing(sqlite3.connect(scratch / "s.db")) as connection:
            for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 1024", "VACUUM"):
                connection.execute(statement)
        write_compressed(folder / "default-1.db.gz", (scratch / "s.db").read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.write_default FOLDER")
    main(Path(sys.argv[1]))
