"""The [environment] of an experiment's file: how the rates of a data set turn into feedback."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pydantic

from slotwise.environments import (
    BernoulliLinks,
    BetaRevenueLinks,
    Environment,
    FixedPriceLinks,
    IntervalLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.environments.datasets import Dataset

__all__ = ["Bernoulli", "EnvironmentSection", "Section"]


class Section(pydantic.BaseModel):
    """A table of the file: it has these keys and no others, each of exactly its type."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class Bernoulli(Section):
    """A click brings all or nothing: the paper's world."""

    kind: Literal["bernoulli"] = "bernoulli"

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        return BernoulliLinks(data.click_rate, data.revenue_per_click)


class Beta(Section):
    """A click brings an amount spread around its mean."""

    kind: Literal["beta"]
    concentration: float = 4.0

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        return BetaRevenueLinks(data.click_rate, data.revenue_per_click, self.concentration)


class FixedPrice(Section):
    """A click brings `price` or nothing, with the mean of the data set."""

    kind: Literal["fixed-price"]
    price: float

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        sale_rate = data.revenue_per_click / self.price
        return FixedPriceLinks(data.click_rate, sale_rate, np.full(data.n_links, self.price))


class Interval(Section):
    """A round is a short interval of many page views of one page."""

    kind: Literal["interval"]
    views_per_round: int

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        return IntervalLinks(data.click_rate, data.revenue_per_click, self.views_per_round)


class Late(Section):
    """Clicks and revenue are known some rounds after their page view."""

    kind: Literal["late"]
    click_delay: int
    revenue_delay: int

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data`."""
        links = BernoulliLinks(data.click_rate, data.revenue_per_click)
        return LateFeedback(links, self.click_delay, self.revenue_delay)


class Drifting(Section):
    """Rates wander around those of the data set."""

    kind: Literal["drifting"]
    drift_seed: int = 1
    n_stations: int = 4
    strength: float = 0.5

    def environment(self, data: Dataset) -> Environment:
        """Return links with the rates of `data` at the start."""
        links = BernoulliLinks(data.click_rate, data.revenue_per_click)
        return drift_towards(links, self.drift_seed, self.n_stations, self.strength)


EnvironmentSection = Annotated[
    Bernoulli | Beta | FixedPrice | Interval | Late | Drifting, pydantic.Field(discriminator="kind")
]
