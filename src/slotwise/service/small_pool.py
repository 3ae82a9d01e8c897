"""Call everything that the pages and reports of a pool compile, once, on a small pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from slotwise.service.counting.attribution import CLICKS, Counters, LinkCounters, View
from slotwise.service.deciding.page_request import NO_WISH, Wish
from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.learning.pool_player import RoundPosition
from slotwise.service.learning.pool_run import PoolRun, Round
from slotwise.service.learning.publisher import publish
from slotwise.service.pool import Pool
from slotwise.service.published_version import Shown
from slotwise.service.records import (
    DecisionRecord,
    FloorState,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.reporting.pool_report import explain_links, report_frontier, share_rate

_FEW_LINKS = 4


def _links(n_links: int) -> tuple[LinkRecord, ...]:
    return tuple(
        LinkRecord(pool_id="toy", link_id=f"l{place}", url="/", place=place)
        for place in range(n_links)
    )


def _counters(links: Sequence[LinkRecord]) -> Counters:
    return Counters(
        links={
            ("policy", link.link_id): LinkCounters(
                click_views=9, clicks=k % 4, revenue_views=9, revenue_micros=4 - k % 4
            )
            for k, link in enumerate(links)
        }
    )


def warm_up(asked: Pool) -> None:
    """Teach the pool's policy a view, publish a version and draw every kind of page.

    A few links are enough, unless a pool of this size has another form of its policy.
    """
    pool = asked.settings
    settings = replace(
        pool,
        slots=2,
        click_floor=min(pool.click_floor, 0.5),
        fallback_order=(),
        pins=(),
        slot_weights=pool.slot_weights[:2] if pool.slots > 1 else (),
    )
    if "probabilities" in pool.policy_settings:
        settings = replace(settings, policy_settings={"probabilities": [0.5] * _FEW_LINKS})
    small = Pool.of(settings, _links(_FEW_LINKS))
    if type(small.policy()) is not type(asked.policy()):
        small = Pool.of(settings, _links(max(len(asked.active), pool.slots, _FEW_LINKS)))
    run = PoolRun(small, np.random.SeedSequence(0))
    run.counters = _counters(tuple(small.links.values()))
    shown = Shown({"l0": 1})
    first = Snapshot(publish(run.draft(shown, 0), 0, run.rng))
    shown_first, _ = first.page(NO_WISH).draw(run.rng)
    run.feed([_settled_round(settings, shown_first)], after=run.fed_to)
    snapshot = Snapshot(publish(run.draft(shown, 0), 0, run.rng))
    visitor = snapshot.guests.nobody.places
    for page in (
        snapshot.page(NO_WISH),
        snapshot.page(Wish(visitor=visitor)),
        snapshot.page(Wish(exclude=frozenset({"l0"}), visitor=visitor)),
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
        floor=FloorState(clicks=0.0, expected=0.0, attainable=0.0, status="met"),
        shown=shown,
        random_order=pool.learn_slot_weights,
    )
    return Round(RoundPosition(1, CLICKS, "toy"), View(decision=decision))
