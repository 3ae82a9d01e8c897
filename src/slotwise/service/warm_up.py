"""Call everything that the pages and reports of a pool compile, once, on a small pool."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from slotwise.service.counting.views import Counters, LinkCounters
from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.deciding.wishes import NO_WISH, Wish
from slotwise.service.learning.pool_run import PoolRun
from slotwise.service.learning.publishing import publish
from slotwise.service.pool import Pool
from slotwise.service.records import LinkRecord, PoolSettings
from slotwise.service.reporting.pool_report import explain_links, report_frontier, share_rate

__all__ = ["warm_up"]

_LINKS = tuple(
    LinkRecord(pool_id="toy", link_id=link_id, url="/", place=place)
    for place, link_id in enumerate("abcd")
)
_COUNTERS = Counters(
    links={
        ("policy", link.link_id): LinkCounters(
            click_views=9, clicks=link.place, revenue_views=9, revenue_micros=4 - link.place
        )
        for link in _LINKS
    }
)


def warm_up(pool: PoolSettings) -> None:
    """Publish a small version with the pool's policy and draw every kind of page from it."""
    settings = replace(
        pool, slots=2, click_floor=min(pool.click_floor, 0.5), fallback_order=(), pins=()
    )
    if "probabilities" in pool.policy_settings:
        settings = replace(settings, policy_settings={"probabilities": [0.5] * len(_LINKS)})
    run = PoolRun(Pool.of(settings, _LINKS), np.random.SeedSequence(0))
    run.counters = _COUNTERS
    snapshot = Snapshot(publish(run.draft({"a": 1}, 0), 0, run.rng))
    for page in (
        snapshot.page(NO_WISH),
        snapshot.page(Wish(exclude=frozenset("a"))),
        snapshot.holdout_page(NO_WISH),
    ):
        page.draw(run.rng)
    explain_links(settings, snapshot)
    report_frontier(settings, snapshot)
    share_rate(1, 2, 1)
