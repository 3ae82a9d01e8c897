"""The simulated visitors of `slotwise demo`: what they are like, click and buy.

Used by `demo`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slotwise.client import Page, click_event, conversion_event
from slotwise.service.demo.shop import PRODUCTS

FEATURES = {"device": ["phone", "desktop"], "returning": "bool"}
PHONES, RETURNING = 0.6, 0.5
"""Shares of the visitors."""
LIKES = {"phone": (1.2, 0.6), "desktop": (0.7, 1.6)}
"""Factors of the click rates of cheap and of expensive products; their mean is 1."""
EXPENSIVE_MICROS = 15_000_000
"""Products of at least this price are expensive."""
SLOT_WEIGHTS = (1.4, 1.0, 0.6)
"""Factors of the click rates by slot, from the first on."""


class Taste(NamedTuple):
    """How often visitors click a product, and how often such a click becomes a sale."""

    clicks: float
    sales: float


TASTES = {
    "kettle": Taste(0.06, 0.35),
    "teapot": Taste(0.10, 0.30),
    "cups": Taste(0.08, 0.10),
    "tray": Taste(0.05, 0.25),
    "strainer": Taste(0.26, 0.08),
    "assam": Taste(0.22, 0.10),
    "sencha": Taste(0.18, 0.06),
    "honey": Taste(0.30, 0.03),
}
"""By product. The most clicked ones earn least: without the floor the shop would show only the
three most expensive ones."""


class DemoVisitors:
    """Visitors who click and buy at the rates of `TASTES`, on average.

    Visitors on a phone click cheap products more often, visitors on a desktop expensive ones.
    Returning visitors buy more often, and the first slot is clicked most.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._n_orders = 0

    def next(self) -> dict[str, Any]:
        """Return what is known of the next visitor."""
        is_phone = self._rng.random() < PHONES
        return {
            "device": "phone" if is_phone else "desktop",
            "returning": bool(self._rng.random() < RETURNING),
        }

    def react(self, page: Page, visitor: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what a visitor of the page does."""
        events: list[dict[str, Any]] = []
        for shown in page.links:
            taste = TASTES[shown.link_id]
            is_expensive = PRODUCTS[shown.link_id].price_micros >= EXPENSIVE_MICROS
            likes = LIKES[visitor["device"]][is_expensive] * SLOT_WEIGHTS[shown.position - 1]
            if self._rng.random() >= taste.clicks * likes:
                continue
            events.append(click_event(page.decision_id, shown.link_id))
            if self._rng.random() < taste.sales * (1.5 if visitor["returning"] else 0.5):
                self._n_orders += 1
                events.append(
                    conversion_event(
                        page.decision_id,
                        shown.link_id,
                        conversion_id=f"simulated-{self._n_orders}",
                        revenue_micros=PRODUCTS[shown.link_id].price_micros,
                        currency="EUR",
                    )
                )
        return events
