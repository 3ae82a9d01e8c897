"""Compile, ahead of the first visitor, what a policy's pages need.

Compiling takes seconds on a new machine and is kept on disk afterwards; loading what was kept
takes a fraction of a second. Either way no page view should wait for it.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from slotwise.service.publishing import publish
from slotwise.service.records import PoolSettings
from slotwise.service.reporting import explain_links, report_frontier, share_rate
from slotwise.service.snapshot import NO_WISH, Wish
from slotwise.service.views import Counters, LinkCounters

__all__ = ["warm_up"]

_TOY_LINKS = ("a", "b", "c", "d")


def warm_up(pool: PoolSettings) -> None:
    """Publish a toy version with the pool's policy and draw every kind of page from it."""
    toy = replace(pool, slots=2, click_floor=min(pool.click_floor, 0.5), fallback_order=())
    if "probabilities" in pool.policy_settings:
        toy = replace(toy, policy_settings={"probabilities": [0.5] * len(_TOY_LINKS)})
    counters = Counters(
        links={
            ("policy", link_id): LinkCounters(
                click_views=9, clicks=place, revenue_views=9, revenue_micros=4 - place
            )
            for place, link_id in enumerate(_TOY_LINKS)
        }
    )
    rng = np.random.default_rng(0)
    snapshot = publish(toy, _TOY_LINKS, counters, None, 1, 0, rng)
    for page in (
        snapshot.page(NO_WISH),
        snapshot.page(Wish(exclude=frozenset("a"))),
        snapshot.holdout_page(NO_WISH),
    ):
        page.draw(rng)
    explain_links(toy, snapshot)
    report_frontier(toy, snapshot)
    share_rate(1, 2, 1)
