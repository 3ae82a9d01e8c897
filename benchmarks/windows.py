"""How well the service earns when feedback comes late: `python -m benchmarks.windows`.

A pool of the default policy is shown to simulated visitors, with windows of so many page views. For
each sixth of the views it prints the expected revenue against that of the best fixed mix, and the
expected clicks against the floor. Nothing is measured in seconds: the numbers are the same on every
machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.policies import default_policy
from slotwise.selection.solve import solve
from slotwise.service.records import (
    SECOND_US,
    ClickEvent,
    ConversionEvent,
    Event,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from tests.stores.memory_store import MemoryStore

Floats = NDArray[np.float64]

START_US = 1_800_000_000 * SECOND_US
VIEWS_PER_S = 100
MAX_REVENUE = 1_000_000
POOL = "windows"


class Visitors(NamedTuple):
    """True rates of links: clicks, and revenue of a click as a share of the most there is."""

    clicks: Floats
    revenue_per_click: Floats
    n_slots: int
    click_floor: float


class Sixth(NamedTuple):
    """What a sixth of the views brought."""

    revenue: float
    """Against the best fixed mix."""
    clicks: float
    """A page view."""


def make_visitors(n_links: int = 40, n_slots: int = 5, seed: int = 7) -> Visitors:
    """Return links of which the most clicked bring the least, so that the floor costs revenue."""
    rng = np.random.default_rng(seed)
    clicks = np.sort(rng.uniform(0.02, 0.2, n_links))
    revenue_per_click = np.sort(rng.uniform(0.05, 0.9, n_links))[::-1].copy()
    return Visitors(clicks, revenue_per_click, n_slots, click_floor=0.5)


def play(
    visitors: Visitors, window_views: int, n_views: int, policy: str, seed: int, n_unseen: int = 0
) -> list[Sixth]:
    """Show pages to visitors whose feedback settles `window_views` views later.

    For each page that is seen, `n_unseen` are proposed and never seen.
    """
    revenue = visitors.clicks * visitors.revenue_per_click
    best = solve(revenue, visitors.clicks, visitors.n_slots, visitors.click_floor).value
    earned, clicked = np.zeros(n_views), np.zeros(n_views)
    for number, shown in enumerate(_pages(visitors, window_views, n_views, policy, seed, n_unseen)):
        earned[number], clicked[number] = revenue[shown].sum(), visitors.clicks[shown].sum()
    parts = zip(np.array_split(earned, 6), np.array_split(clicked, 6), strict=True)
    return [Sixth(float(part.mean() / best), float(clicks.mean())) for part, clicks in parts]


def _pages(
    visitors: Visitors, window_views: int, n_views: int, policy: str, seed: int, n_unseen: int
) -> Iterator[list[int]]:
    rng = np.random.default_rng(seed)
    service = Service(MemoryStore(), ServiceOptions(seed=seed, commit_by_hand=True))
    window_s = max(1, window_views // VIEWS_PER_S)
    settings = PoolSettings(
        pool_id=POOL,
        slots=visitors.n_slots,
        click_floor=visitors.click_floor,
        max_revenue_micros=MAX_REVENUE,
        currency="EUR",
        click_window_s=window_s,
        revenue_window_s=window_s,
        policy=policy,
    )
    links = [
        LinkRecord(pool_id=POOL, link_id=f"l{k}", url="/") for k in range(len(visitors.clicks))
    ]
    pool_made = service.directory.put_pool(settings, "benchmark", START_US)
    service.committer.commit_waiting()
    pool_made.result()
    links_made = service.directory.put_links(POOL, links, "benchmark", START_US)
    service.committer.commit_waiting()
    links_made.result()
    for number in range(n_views):
        now_us = START_US + number * SECOND_US // VIEWS_PER_S
        if number % VIEWS_PER_S == 0:
            service.learner.learn(now_us)
        for _ in range(n_unseen):
            service.decider.propose(POOL, now_us)
        page = service.decider.propose(POOL, now_us)
        service.decider.record_view(page, now_us)
        shown = [int(link.link_id[1:]) for link in page.shown]
        service.submit_events(_feedback(page.decision_id, shown, visitors, rng), now_us + 1)
        yield shown
    service.close()


def _feedback(
    decision_id: str, shown: list[int], visitors: Visitors, rng: np.random.Generator
) -> list[Event]:
    events: list[Event] = []
    for place in shown:
        if rng.random() < visitors.clicks[place]:
            link_id = f"l{place}"
            events.append(ClickEvent(decision_id=decision_id, link_id=link_id))
            if rng.random() < visitors.revenue_per_click[place]:
                events.append(
                    ConversionEvent(
                        conversion_id=f"{decision_id}-{place}",
                        decision_id=decision_id,
                        link_id=link_id,
                        revenue_micros=MAX_REVENUE,
                        currency="EUR",
                    )
                )
    return events


def main() -> None:
    """Print a row for each window."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--views", type=int, default=60_000)
    parser.add_argument("--policy", default=default_policy().name)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unseen", type=int, default=0, help="pages not seen, for each seen one")
    asked = parser.parse_args()
    visitors = make_visitors()
    print(
        f"{asked.policy}, {asked.views} views, floor {visitors.click_floor}: revenue/best (clicks)"
    )
    for window in asked.windows:
        sixths = play(visitors, window, asked.views, asked.policy, asked.seed, asked.unseen)
        row = "  ".join(f"{sixth.revenue:.3f} ({sixth.clicks:.3f})" for sixth in sixths)
        print(f"{window:>7}  {row}", flush=True)


if __name__ == "__main__":
    main()
