"""A day of visitors for a pool, told to the service as fast as it can listen."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from slotwise.service.records import ClickEvent, ConversionEvent, Event
from slotwise.service.server import BackgroundServer

MAX_REVENUE_MICROS = 40_000_000
# Much clicked and poor, rarely clicked and rich, and neither.
CLICK_RATES = (0.28, 0.22, 0.16, 0.09, 0.07, 0.06, 0.04, 0.03)
SALES_PER_CLICK = (0.02, 0.04, 0.06, 0.40, 0.12, 0.60, 0.10, 0.05)
N_HOURS = 24
VIEWS_AN_HOUR = 120

POOL: dict[str, Any] = {
    "slots": 3,
    "click_floor": 0.45,
    "max_revenue": {"amount_micros": MAX_REVENUE_MICROS, "currency": "EUR"},
    "click_window_s": 1800,
    "revenue_window_s": 7200,
    "holdout": 0.2,
    "allowed_hosts": ["shop.example"],
    "slot_weights": [],
}


class DayClock:
    """The time of the server: it passes when a test says so, and never stands still."""

    def __init__(self) -> None:
        self._now_us = 1_800_000_000_000_000

    def __call__(self) -> int:
        self._now_us += 10
        return self._now_us

    def advance(self, seconds: float) -> None:
        self._now_us += round(seconds * 1_000_000)


def links(n_links: int) -> list[dict[str, str]]:
    return [
        {"link_id": f"l{n}", "url": f"https://shop.example/{n}", "title": f"Offer {n}"}
        for n in range(n_links)
    ]


def play_day(server: BackgroundServer, admin: httpx.Client, clock: DayClock, pool_id: str) -> None:
    """Let a day of visitors see, click and buy; the floor is raised at noon."""
    rng = np.random.default_rng(7)
    service = server.context.service
    n_orders = 0
    for hour in range(N_HOURS):
        if hour == N_HOURS // 2:
            admin.patch(f"/v1/pools/{pool_id}", json={"click_floor": 0.5}).raise_for_status()
        events: list[Event] = []
        for _ in range(VIEWS_AN_HOUR):
            clock.advance(3600 / VIEWS_AN_HOUR)
            decision = service.decider.decide(pool_id, clock())
            for shown in decision.shown:
                link = int(shown.link_id.removeprefix("l"))
                if rng.random() >= CLICK_RATES[link]:
                    continue
                clicked = ClickEvent(decision_id=decision.decision_id, link_id=shown.link_id)
                events.append(clicked)
                if rng.random() < SALES_PER_CLICK[link]:
                    n_orders += 1
                    events.append(
                        ConversionEvent(
                            conversion_id=f"{pool_id}-{n_orders}",
                            decision_id=decision.decision_id,
                            link_id=shown.link_id,
                            revenue_micros=int(rng.integers(5, 40)) * 1_000_000,
                            currency="EUR",
                        )
                    )
            if len(events) > 20:
                service.committer.submit_events(events, clock()).result()
                events = []
        service.committer.submit_events(events, clock()).result()
        service.learner.learn(clock())
