"""A small shop that plays a selector, so that laws can compare what two selectors show."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise import Selector

Shown = tuple[tuple[Any, ...], ...]

FEATURES: dict[str, Mapping[str, Any]] = {
    "no features": {},
    "one feature": {"device": ("phone", "desktop")},
    "three features": {"device": ("phone", "desktop"), "is_new": bool, "days": (1, 7)},
    "an open list": {"country": str},
}
"""What is declared of visitors."""

SLOTS: dict[str, Any] = {
    "slots equal": "equal",
    "slots learned": "learn",
    "slots known": (1.5, 1.0, 0.5),
}


def a_visitor(features: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any] | None:
    """Draw a visitor with a value of every feature."""
    visitor: dict[str, Any] = {}
    for name, kind in features.items():
        if kind is bool:
            visitor[name] = bool(rng.integers(2))
        elif kind is str:
            visitor[name] = f"word{rng.integers(4)}"
        elif isinstance(kind[0], str):
            visitor[name] = str(rng.choice(kind))
        else:
            visitor[name] = float(rng.integers(40))
    return visitor or None


@dataclass
class Shop:
    """Links with click rates, sale rates and amounts; outcomes do not depend on the policy.

    Every page view draws the same uniform numbers for the same link, whatever was shown before.
    """

    click_rate: NDArray[np.float64]
    sale_rate: NDArray[np.float64]
    amount: NDArray[np.float64]
    features: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def drawn(cls, n_links: int, features: Mapping[str, Any] | None = None, seed: int = 0) -> Shop:
        """Draw a shop of `n_links` links with sales of 1."""
        rng = np.random.default_rng([seed, 7])
        click_rate = rng.uniform(0.05, 0.6, n_links)
        sale_rate = rng.uniform(0.1, 0.9, n_links) * np.exp(-2.0 * click_rate)
        return cls(click_rate, sale_rate, np.ones(n_links), features or {}, seed)

    @property
    def worth(self) -> NDArray[np.float64]:
        """The expected revenue of a view of each link."""
        return self.click_rate * self.sale_rate * self.amount

    def floor_halfway(self, n_slots: int) -> float:
        """Return the floor halfway from the clicks of the best page to the most clicks."""
        best = self.click_rate[np.argsort(-self.worth)[:n_slots]].sum()
        return float(0.5 * (best + np.sort(self.click_rate)[-n_slots:].sum()))

    def play(
        self,
        selector: Selector[Any],
        n_pages: int,
        *,
        delay: int = 0,
        report: Callable[[Selector[Any], Any, list[Any], dict[Any, float]], None] | None = None,
        first: int = 0,
    ) -> Shown:
        """Show pages and settle each `delay` pages later; return what was shown.

        `report` gives the selector the clicks and the revenue of a page; by default in one call.
        """
        report = report or in_one_call
        waiting: deque[Any] = deque()
        pages = []
        for number in range(first, first + n_pages):
            rng = np.random.default_rng([self.seed, number])
            visitor = a_visitor(self.features, rng)
            clicked, bought = rng.random((2, len(self.click_rate)))
            page = selector.select(visitor=visitor)
            clicks = [link for link in page.shown if clicked[link] < self.click_rate[link]]
            revenue = {
                link: float(self.amount[link])
                for link in clicks
                if bought[link] < self.sale_rate[link]
            }
            waiting.append((page, clicks, revenue))
            pages.append(page.shown)
            if len(waiting) > delay:
                report(selector, *waiting.popleft())
        while waiting:
            report(selector, *waiting.popleft())
        return tuple(pages)


def in_one_call(
    selector: Selector[Any], page: Any, clicks: list[Any], revenue: dict[Any, float]
) -> None:
    """Report all feedback of a page in one call."""
    selector.update(page, clicks=clicks, revenue=revenue)


def click_by_click(
    selector: Selector[Any], page: Any, clicks: list[Any], revenue: dict[Any, float]
) -> None:
    """Report one click after the other, then the revenue."""
    for one in [[link] for link in clicks] or [[]]:
        selector.update(page, clicks=one)
    selector.update(page, revenue=revenue)


def mean_of(values: NDArray[np.float64], pages: Sequence[Sequence[int]]) -> float:
    """Return the mean over pages of the sum of the values of their links."""
    return float(np.mean([sum(values[link] for link in page) for page in pages]))
