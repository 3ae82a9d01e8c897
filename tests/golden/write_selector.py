"""Write small selectors in the present file format, with everything that a file can hold.

Run `python -m tests.golden.write_selector FOLDER` once when the format changes, and keep the files:
later versions must load them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise import ConUCB, Selector
from slotwise.selector.accounting import RevenueClipped


def with_levels() -> Selector:
    """Three levels, two floors, a retired link and open pages in three states."""
    selector = Selector(
        ["spring-sale", 7, ("shop", 3), "outlet"],
        2,
        policy=ConUCB(horizon=5000, failure_probability=0.05, gamma_scale=0.125),
        levels=("click", "cart", "sale"),
        floors={"click": 0.5, "cart": 0.2},
        rewards={"click": 0.01, "sale": 1.0},
        max_revenue=50.0,
        seed=11,
    )
    views = {"spring-sale": 100, 7: 80, "outlet": 90}
    selector.update_batch(
        views,
        click={"spring-sale": 10, 7: 25, "outlet": 5},
        cart={7: 5},
        sale={7: 120.0},
    )
    pages = [selector.select(pin=["outlet", 7]) for _ in range(3)]
    selector.update(pages[0], click=["outlet"])
    with pytest.warns(RevenueClipped):
        selector.update(pages[1], click=[7], cart=[7], sale={7: 60.0})
    selector.retire(["outlet"])
    return selector


def with_visitors() -> Selector:
    """The default policy with features, floors of segments, learned slots and explored pages."""
    selector = Selector(
        ["spring-sale", "new-in", "gift-cards", "blog"],
        2,
        click_floor=0.4,
        features={"device": ("phone", "desktop"), "country": str},
        segment_floors={"device": {"phone": 0.3}},
        slot_weights="learn",
        explore=0.1,
        seed=12,
    )
    rng = np.random.default_rng(13)
    for k in range(60):
        visitor = {"device": ("phone", "desktop")[k % 2], "country": ("DE", "FR", "NL")[k % 3]}
        page = selector.select(visitor=visitor)
        clicks = [link for link in page.shown if rng.random() < 0.3]
        selector.update(page, clicks, {link: float(rng.random()) for link in clicks})
    for device in ("phone", "desktop"):
        selector.select(visitor={"device": device, "country": "DE"})
    return selector


def main(folder: Path) -> None:
    """Write both files."""
    with_levels().save(folder / "selector-v2-levels.sel")
    with_visitors().save(folder / "selector-v2-visitors.sel")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.write_selector FOLDER")
    main(Path(sys.argv[1]))
