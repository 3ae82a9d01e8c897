"""Links whose clicks earn amounts other than all or nothing: Beta-distributed, or fixed prices.

Clicks are those of `bernoulli`; only the revenue of a click differs. Experiments use it through
`slotwise.environments`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.environments.bernoulli import BernoulliLinks
from slotwise.environments.environment import Serve
from slotwise.errors import InvalidInput
from slotwise.selection.solve import check_rates


class BetaWorld(NamedTuple):
    """Click rates, and the two parameters of the Beta distribution of each link."""

    click_rate: Floats
    toward_one: Floats
    toward_zero: Floats


class PriceWorld(NamedTuple):
    """Click rates, probabilities of a sale after a click, and prices."""

    click_rate: Floats
    sale_rate: Floats
    price: Floats


@hot
def serve_beta(
    world: BetaWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw clicks, and the amount of each click."""
    for slot in range(len(shown)):
        link = shown[slot]
        clicked = 1.0 if rng.random() < world.click_rate[link] else 0.0
        amount = rng.beta(world.toward_one[link], world.toward_zero[link])
        outcomes[0, slot] = clicked
        outcomes[1, slot] = clicked * amount


@hot
def serve_price(
    world: PriceWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw clicks, and whether each click leads to a sale."""
    for slot in range(len(shown)):
        link = shown[slot]
        clicked = 1.0 if rng.random() < world.click_rate[link] else 0.0
        bought = clicked if rng.random() < world.sale_rate[link] else 0.0
        outcomes[0, slot] = clicked
        outcomes[1, slot] = bought * world.price[link]


class BetaRevenueLinks(BernoulliLinks):
    """Links whose clicks earn Beta-distributed amounts with mean `revenue_per_click`.

    `concentration` is the sum of the two Beta parameters: large values keep amounts close to the
    mean, small values push them to 0 and 1. Means must lie inside (0, 1).

    >>> BetaRevenueLinks([0.5], [0.25], concentration=4.0).rates(1)[1].tolist()
    [0.125]
    """

    serve: ClassVar[Serve] = staticmethod(serve_beta)

    def __init__(
        self, click_rate: ArrayLike, revenue_per_click: ArrayLike, concentration: float = 4.0
    ) -> None:
        super().__init__(click_rate, revenue_per_click)
        mean = np.asarray(self.rates_given_last)[1]
        if not np.all((mean > 0) & (mean < 1)):
            rule = "inside (0, 1) for Beta amounts"
            raise InvalidInput.of("revenue_per_click", rule, revenue_per_click)
        if not 0 < concentration < np.inf:
            raise InvalidInput.of("concentration", "a positive number", concentration)
        object.__setattr__(self, "concentration", float(concentration))

    concentration: float

    def world(self, n_rounds: int) -> BetaWorld:
        """Return click rates and Beta parameters."""
        click_rate, mean = np.asarray(self.rates_given_last)
        return BetaWorld(click_rate, mean * self.concentration, (1 - mean) * self.concentration)


class FixedPriceLinks(BernoulliLinks):
    """Links whose clicks lead to a sale with probability `sale_rate`; a sale earns `price`.

    >>> FixedPriceLinks([0.5], sale_rate=[0.5], price=[0.4]).rates(1)[1].tolist()
    [0.1]
    """

    serve: ClassVar[Serve] = staticmethod(serve_price)

    def __init__(self, click_rate: ArrayLike, sale_rate: ArrayLike, price: ArrayLike) -> None:
        sales = check_rates("sale_rate", sale_rate)
        prices = check_rates("price", price)
        if len(sales) != len(prices):
            rule = f"as many numbers as `sale_rate` ({len(sales)})"
            raise InvalidInput.of("price", rule, len(prices))
        super().__init__(click_rate, sales * prices)
        object.__setattr__(self, "_sales", sales)
        object.__setattr__(self, "_prices", prices)

    _sales: Floats
    _prices: Floats

    def world(self, n_rounds: int) -> PriceWorld:
        """Return click rates, sale rates and prices."""
        return PriceWorld(np.asarray(self.rates_given_last)[0], self._sales, self._prices)
