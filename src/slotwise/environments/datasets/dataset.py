"""A data set: the true rates of every link of a pool, and the page to fill from it.

Used by `ad_clicks`, `coupon_purchase`, `edx_courses`, `look_alikes`, `registry` and `source_files`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from slotwise.arrays import Floats
from slotwise.environments.bernoulli import BernoulliLevels, BernoulliLinks
from slotwise.errors import InvalidInput
from slotwise.problem import TWO_LEVELS
from slotwise.selection import solve


@dataclass(frozen=True, eq=False)
class Dataset:
    """The rates of every link, with the slots, floor and failure probability of the page.

    `click_rate` and `revenue_per_click` are copied on creation, checked to lie in [0, 1] and
    made read-only. `source` states in one sentence where the numbers come from; `notes` states
    what was left out or chosen. `look_alike` is true if the numbers were drawn from a recipe
    instead of read from the original files.

    `later_levels` has the conditional rates of the levels after the click, by name, where there
    are several: the part of the clicks that reaches the cart, the part of the carts that is
    bought. Their product is `revenue_per_click`; `of_levels` computes it.

    >>> pool = Dataset(
    ...     name="three", title="Three links", click_rate=[0.5, 0.2, 0.1],
    ...     revenue_per_click=[0.1, 0.5, 1.0], n_slots=2, click_floor=0.6,
    ...     failure_probability=0.01, look_alike=False, source="made up")
    >>> pool.n_links, pool.revenue_rate.tolist()
    (3, [0.05, 0.1, 0.1])
    >>> pool.with_floor(2.5)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `click_floor` must be at least 0 and below n_slots (2), got 2.5
    >>> funnel = {"click": [0.5, 0.2], "cart": [0.4, 0.5], "purchase": [0.5, 1.0]}
    >>> shop = Dataset.of_levels(
    ...     funnel, name="shop", title="Two links", n_slots=1, click_floor=0.3,
    ...     failure_probability=0.01, look_alike=False, source="made up")
    >>> shop.levels, shop.revenue_per_click.tolist()
    (('click', 'cart', 'purchase'), [0.2, 0.5])
    """

    name: str
    title: str
    click_rate: Floats
    revenue_per_click: Floats
    n_slots: int
    click_floor: float
    failure_probability: float
    look_alike: bool
    source: str
    notes: tuple[str, ...] = ()
    link_names: tuple[str, ...] | None = None
    later_levels: Mapping[str, Floats] | None = None

    @classmethod
    def of_levels(cls, rates: Mapping[str, Any], **described: Any) -> Dataset:
        """Return a data set of any number of levels from their conditional rates, click first."""
        if len(rates) < 2 or next(iter(rates)) != TWO_LEVELS[0]:
            rule = f"of the level {TWO_LEVELS[0]!r} first and of one level or more after it"
            raise InvalidInput.of("rates", rule, list(rates))
        (_, clicks), *later = rates.items()
        checked = {name: _checked_rates(name, rate) for name, rate in later}
        for name, rate in checked.items():
            if len(rate) != len(clicks):
                raise InvalidInput.of(name, f"as long as the click rate ({len(clicks)})", len(rate))
        product = np.prod(np.array(list(checked.values())), axis=0)
        return cls(
            click_rate=clicks,
            revenue_per_click=product,
            later_levels=MappingProxyType(checked),
            **described,
        )

    def __post_init__(self) -> None:
        for name in ("click_rate", "revenue_per_click"):
            object.__setattr__(self, name, _checked_rates(name, getattr(self, name)))
        if len(self.revenue_per_click) != self.n_links:
            rule = f"as long as `click_rate` ({self.n_links})"
            raise InvalidInput.of("revenue_per_click", rule, len(self.revenue_per_click))
        if not 1 <= self.n_slots <= self.n_links:
            rule = f"from 1 to the number of links ({self.n_links})"
            raise InvalidInput.of("n_slots", rule, self.n_slots)
        if not math.isfinite(self.click_floor) or not 0 <= self.click_floor < self.n_slots:
            rule = f"at least 0 and below n_slots ({self.n_slots})"
            raise InvalidInput.of("click_floor", rule, self.click_floor)
        if not 0 < self.failure_probability < 1:
            raise InvalidInput.of(
                "failure_probability", "between 0 and 1", self.failure_probability
            )
        if self.link_names is not None and len(set(self.link_names)) != self.n_links:
            rule = f"as many different names as there are links ({self.n_links})"
            raise InvalidInput.of("link_names", rule, len(set(self.link_names)))

    @property
    def n_links(self) -> int:
        """How many links the pool has."""
        return len(self.click_rate)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels of feedback."""
        return TWO_LEVELS if self.later_levels is None else (TWO_LEVELS[0], *self.later_levels)

    @property
    def rates_given_last(self) -> Floats:
        """The rate of every level given the level before it, of shape (n_levels, n_links)."""
        later = (self.later_levels or {"": self.revenue_per_click}).values()
        return np.array([self.click_rate, *later])

    @property
    def revenue_rate(self) -> Floats:
        """The revenue per page view of each link: click rate times revenue per click."""
        return self.click_rate * self.revenue_per_click

    @property
    def most_clicks(self) -> float:
        """The expected clicks of the most clicked page; no floor above it can be kept."""
        return float(np.sort(self.click_rate)[-self.n_slots :].sum())

    @property
    def links(self) -> BernoulliLevels:
        """The links as an environment, in which every level is reached or not."""
        if self.later_levels is not None:
            return BernoulliLevels(self.rates_given_last, self.levels)
        return BernoulliLinks(self.click_rate, self.revenue_per_click)

    @property
    def description(self) -> dict[str, Any]:
        """What reports say about the origin of the links."""
        return {
            "name": self.name,
            "title": self.title,
            "look_alike": self.look_alike,
            "source": self.source,
            "notes": list(self.notes),
        }

    def with_floor(self, click_floor: float) -> Dataset:
        """Return the same pool and page under another floor."""
        return replace(self, click_floor=click_floor)


def _checked_rates(name: str, rates: Floats) -> Floats:
    """Return a read-only copy of `rates`, all of them in [0, 1]."""
    checked = np.array(rates, dtype=np.float64)
    if checked.ndim != 1 or len(checked) == 0:
        raise InvalidInput.of(name, "one number for each link", checked.shape)
    outside = np.flatnonzero(~((checked >= 0) & (checked <= 1)))
    if len(outside):
        rule = "from 0 to 1 for every link"
        first = int(outside[0])
        raise InvalidInput.of(name, rule, float(checked[first]), f"see link {first}")
    checked.flags.writeable = False
    return checked


@dataclass(frozen=True)
class Outlook:
    """Expected revenue and clicks per page view of the best fixed mixes of a data set.

    If the floor is infeasible, `revenue` and `clicks` are those of the most clicked page, and
    the shadow price is infinite.
    """

    floor: str
    """The status of the floor: "slack", "binding" or "infeasible"."""
    revenue: float
    clicks: float
    shadow_price: float
    revenue_without_floor: float
    clicks_without_floor: float
    most_clicks: float


def look_ahead(dataset: Dataset) -> Outlook:
    """Solve the floor program on the true rates of `dataset`.

    >>> from slotwise.environments.datasets import load_dataset
    >>> outlook = look_ahead(load_dataset("ads-like-binding"))
    >>> outlook.floor, round(outlook.revenue, 3), round(outlook.revenue_without_floor, 3)
    ('binding', 3.765, 3.871)
    """
    value, clicks = dataset.revenue_rate, dataset.click_rate
    free = solve(value, clicks, dataset.n_slots, 0.0)
    best = solve(value, clicks, dataset.n_slots, dataset.click_floor)
    return Outlook(
        floor=best.status,
        revenue=best.value,
        clicks=best.clicks,
        shadow_price=best.shadow_price,
        revenue_without_floor=free.value,
        clicks_without_floor=free.clicks,
        most_clicks=dataset.most_clicks,
    )


@dataclass(frozen=True)
class PageSetting:
    """Slots, click floor and failure probability; `Dataset` checks them against its links."""

    n_slots: int
    click_floor: float
    failure_probability: float = 0.01
