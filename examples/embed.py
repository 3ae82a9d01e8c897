"""A shop front that learns: choose two of five links for each visitor, keep the click floor.

Run it with `python examples/embed.py`. The visitors are made up; in a program of yours a page
is shown where `select` is called, and `update` comes when clicks and sales are known.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

import slotwise


class Habits(NamedTuple):
    """What visitors do with a link, unknown to the selector."""

    click_rate: float
    revenue_per_click: float


VISITORS = {
    "spring-sale": Habits(0.30, 4.0),
    "new-in": Habits(0.25, 6.0),
    "gift-cards": Habits(0.04, 45.0),
    "outlet": Habits(0.12, 12.0),
    "blog": Habits(0.45, 0.5),
}
CLICK_FLOOR = 0.5
N_PAGES = 20_000
SALES_COME_AFTER = 500  # page views later than the click


def clicks_on(page: slotwise.Decision, rng: np.random.Generator) -> list[str]:
    """Return which of the links shown this visitor clicks."""
    shown = [str(link) for link in page.shown]
    return [link for link in shown if rng.random() < VISITORS[link].click_rate]


def sales_from(clicks: list[str], rng: np.random.Generator) -> dict[str, float]:
    """Return what the clicks bring: one in two buys, for twice the mean."""
    return {link: 2 * VISITORS[link].revenue_per_click for link in clicks if rng.random() < 0.5}


def main() -> None:
    """Show pages, learn from them and print what was learned."""
    selector = slotwise.Selector(
        links=VISITORS,
        n_slots=2,
        click_floor=CLICK_FLOOR,
        max_revenue=90.0,
        seed=7,
    )
    rng = np.random.default_rng(1)
    waiting: deque[tuple[str, list[str]]] = deque()
    n_clicks: list[int] = []
    for _ in range(N_PAGES):
        page = selector.select()
        clicks = clicks_on(page, rng)
        n_clicks.append(len(clicks))
        selector.update(page, clicks=clicks)
        waiting.append((page.id, clicks))
        if len(waiting) > SALES_COME_AFTER:
            page_id, clicked = waiting.popleft()
            selector.update(page_id, revenue=sales_from(clicked, rng))
    print(selector.report())
    quarters = np.array(n_clicks).reshape(4, -1).mean(axis=1)
    print("\nclicks a page view in each quarter of the day:", *(f"{mean:.3f}" for mean in quarters))


if __name__ == "__main__":
    main()
