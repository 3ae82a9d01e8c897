"""The sections of an experiment file that describe links, visitors and slots.

Used by `experiment_file`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from slotwise.environments import (
    BernoulliLinks,
    BetaRevenueLinks,
    Environment,
    FixedPriceLinks,
    IntervalLinks,
    LateFeedback,
    SegmentLinks,
    drift_towards,
)
from slotwise.environments.datasets import Dataset
from slotwise.environments.visitor_shops import logistic_of, segments_of
from slotwise.errors import InvalidInput


class Section(pydantic.BaseModel):
    """A table of the file, with exactly these keys, each of exactly its type."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


def _two_levels(kind: str, data: Dataset) -> BernoulliLinks:
    """Return the links of a data set with two levels, the only ones that `kind` can be made of."""
    if len(data.levels) > 2:
        rule = f"bernoulli or late for {data.name}, which has the levels {', '.join(data.levels)}"
        raise InvalidInput.of("kind", rule, kind)
    return BernoulliLinks(data.click_rate, data.revenue_per_click)


class Bernoulli(Section):
    """Every level is reached or not: the paper's world, for any number of levels."""

    kind: Literal["bernoulli"] = "bernoulli"

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        return data.links


class Beta(Section):
    """The revenue of a click is spread around its mean."""

    kind: Literal["beta"]
    concentration: float = 4.0

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        _two_levels(self.kind, data)
        return BetaRevenueLinks(data.click_rate, data.revenue_per_click, self.concentration)


class FixedPrice(Section):
    """A click brings `price` or nothing; its mean is that of the data set."""

    kind: Literal["fixed-price"]
    price: float

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        _two_levels(self.kind, data)
        sale_rate = data.revenue_per_click / self.price
        return FixedPriceLinks(data.click_rate, sale_rate, np.full(data.n_links, self.price))


class IntervalTable(Section):
    """A round is a short interval of many page views of one page."""

    kind: Literal["interval"]
    views_per_round: int

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        _two_levels(self.kind, data)
        return IntervalLinks(data.click_rate, data.revenue_per_click, self.views_per_round)


class Late(Section):
    """Clicks, and all later levels, are known some rounds after their page view."""

    kind: Literal["late"]
    click_delay: int
    revenue_delay: int
    spread: float = 0.0

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        return LateFeedback(data.links, self.click_delay, self.revenue_delay, self.spread)


class Drifting(Section):
    """Rates drift away from those of the data set."""

    kind: Literal["drifting"]
    drift_seed: int = 1
    n_stations: int = 4
    strength: float = 0.5

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data` at the start."""
        links = _two_levels(self.kind, data)
        return drift_towards(links, self.drift_seed, self.n_stations, self.strength)


class Slots(Section):
    """All visitors are alike; a link in slot l is clicked with `slot_weights[l]` times its rate."""

    kind: Literal["slots"]
    slot_weights: list[float]

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data` in a slot of weight 1."""
        _two_levels(self.kind, data)
        rates = ([data.click_rate], [data.revenue_per_click], [1.0])
        return SegmentLinks(*rates, visitors=[{}], slot_weights=self.slot_weights)


class Segments(Section):
    """Visitors of several kinds, one for each of `shares`.

    Rates are drawn around those of the data set with a standard deviation of `spread` in the logit,
    or given with a row for each kind. `visitors` has the features of each kind.
    """

    kind: Literal["segments"]
    shares: list[float]
    spread: float = 0.7
    visitor_seed: int = 1
    visitors: list[dict[str, str | int | bool]] | None = None
    click_rate: list[list[float]] | None = None
    revenue_per_click: list[list[float]] | None = None
    slot_weights: list[float] | None = None

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`, different for every kind."""
        _two_levels(self.kind, data)
        if self.click_rate is None and self.revenue_per_click is None:
            return segments_of(
                (data.click_rate, data.revenue_per_click),
                self.shares,
                self.spread,
                self.visitor_seed,
                self.visitors,
                self.slot_weights,
            )
        given = (
            self.click_rate or [data.click_rate.tolist()] * len(self.shares),
            self.revenue_per_click or [data.revenue_per_click.tolist()] * len(self.shares),
        )
        links = SegmentLinks(*given, self.shares, self.visitors, self.slot_weights)
        if links.n_links != data.n_links:
            rule = f"rates for the {data.n_links} links of {data.name}"
            raise InvalidInput.of("click_rate", rule, links.n_links)
        return links


class Logistic(Section):
    """Visitors with features of so many values each, whose effects add up in the logit."""

    kind: Literal["logistic"]
    feature_sizes: list[int]
    effect: float = 0.7
    visitor_seed: int = 1
    slot_weights: list[float] | None = None

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data` for visitors whose features have no effect."""
        _two_levels(self.kind, data)
        if not self.feature_sizes or min(self.feature_sizes) < 1:
            rule = "how many values each feature has, at least one feature"
            raise InvalidInput.of("feature_sizes", rule, self.feature_sizes)
        return logistic_of(
            (data.click_rate, data.revenue_per_click),
            self.feature_sizes,
            self.effect,
            self.visitor_seed,
            self.slot_weights,
        )
