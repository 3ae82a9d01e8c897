"""Call everything that the pages and reports of a pool compile, once, on a small pool."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from slotwise.service.counting.attribution import CLICKS, Counters, LinkCounters, View
from slotwise.service.deciding.page_request import NO_WISH, Wish
from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.learning.pool_run import PoolRun, Round, RoundPosition
from slotwise.service.learning.publisher import publish
from slotwise.service.pool import Pool
from slotwise.service.published_version import Shown
from slotwise.service.records import (
    DecisionRecord,
    FloorReport,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.reporting.pool_report import explain_links, report_frontier, share_rate

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
    """Teach the pool's policy a view, publish a small version and draw every kind of page."""
    settings = replace(
        pool,
        slots=2,
        click_floor=min(pool.click_floor, 0.5),
        fallback_order=(),
        pins=(),
        slot_weights=pool.slot_weights[:2] if pool.slots > 1 else (),
    )
    if "probabilities" in pool.policy_settings:
        settings = replace(settings, policy_settings={"probabilities": [0.5] * len(_LINKS)})
    run = PoolRun(Pool.of(settings, _LINKS), np.random.SeedSequence(0))
    run.counters = _COUNTERS
    shown = Shown({"a": 1})
    first = Snapshot(publish(run.draft(shown, 0), 0, run.rng))
    run.feed([_settled_round(settings, first.page(NO_WISH).draw(run.rng))], after=run.fed_to)
    snapshot = Snapshot(publish(run.draft(shown, 0), 0, run.rng))
    visitor = snapshot.guests.nobody.places
    for page in (
        snapshot.page(NO_WISH),
        snapshot.page(Wish(visitor=visitor)),
        snapshot.page(Wish(exclude=frozenset("a"), visitor=visitor)),
        snapshot.holdout_page(NO_WISH),
    ):
        page.draw(run.rng)
    explain_links(settings, snapshot)
    report_frontier(settings, snapshot)
    share_rate(1, 2, 1)


def _settled_round(pool: PoolSettings, shown: tuple[ShownLink, ...]) -> Round:
    decision = DecisionRecord(
        decision_id="toy",
        pool_id=pool.pool_id,
        issued_us=0,
        click_closes_us=1,
        revenue_until_us=1,
        revenue_closes_us=1,
        currency=pool.currency,
        max_revenue_micros=pool.max_revenue_micros,
        policy=pool.policy,
        policy_version=1,
        floor=FloorReport(clicks=0.0, expected=0.0, attainable=0.0, status="met"),
        shown=shown,
        random_order=pool.learn_slot_weights,
    )
    return Round(RoundPosition(1, CLICKS, "toy"), View(decision=decision))
