"""Links whose levels are reached independently with fixed rates, as in the paper.

A round is one page view, or an interval of many. Used by `drifting`, `revenue_amounts` and the data
sets in `environments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Places
from slotwise.compile import hot, inner
from slotwise.environments.environment import Environment, Serve
from slotwise.errors import InvalidInput
from slotwise.problem import TWO_LEVELS
from slotwise.selection.solve import check_rates
from slotwise.selection.uniforms import draw_levels


class BernoulliWorld(NamedTuple):
    """Conditional rates, of shape (n_levels, n_links)."""

    conditional: Floats


class IntervalWorld(NamedTuple):
    """Conditional rates, and the number of page views of a round."""

    conditional: Floats
    n_views: int


@hot
def serve(
    world: BernoulliWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw every level of every shown link, even after a level was not reached.

    So a round takes the same number of draws for any links shown, and all policies of a run have
    the same visitors.
    """
    draw_levels(rng, outcomes)
    pass_levels(world.conditional, shown, outcomes)


@inner
def pass_levels(conditional: Floats, shown: Places, outcomes: Floats) -> None:
    """Turn the draws of shown links into 1 where a level was reached, into 0 where not."""
    if len(conditional) == 2:
        # one loop without inner ones, which is vectorised
        for slot in range(len(shown)):
            link = shown[slot]
            clicked = 1.0 if outcomes[0, slot] < conditional[0, link] else 0.0
            paid = 1.0 if outcomes[1, slot] < conditional[1, link] else 0.0
            outcomes[0, slot], outcomes[1, slot] = clicked, clicked * paid
        return
    for slot in range(len(shown)):
        alive = 1.0
        for level in range(len(conditional)):
            alive = alive if outcomes[level, slot] < conditional[level, shown[slot]] else 0.0
            outcomes[level, slot] = alive


@hot
def serve_interval(
    world: IntervalWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw how many page views of the round reach each level."""
    conditional = world.conditional
    for slot in range(len(shown)):
        alive = world.n_views
        for level in range(len(conditional)):
            alive = rng.binomial(alive, conditional[level, shown[slot]])
            outcomes[level, slot] = alive


def check_conditional_rates(names: tuple[str, ...], rates: tuple[ArrayLike, ...]) -> Floats:
    """Return the rates of all levels as one array, after checking each by its name."""
    checked = [check_rates(name, rate) for name, rate in zip(names, rates, strict=True)]
    for name, rate in zip(names, checked, strict=True):
        if len(rate) != len(checked[0]):
            rule = f"as many numbers as `{names[0]}` ({len(checked[0])})"
            raise InvalidInput.of(name, rule, len(rate))
    return np.array(checked)


@dataclass(frozen=True, eq=False)
class BernoulliLevels(Environment):
    """Links whose levels are reached independently; `rates_given_last[j, i]` is level j of link i.

    >>> rates = [[0.5, 0.2], [0.3, 0.4], [0.1, 0.9]]
    >>> shop = BernoulliLevels(rates, levels=("click", "cart", "buy"))
    >>> shop.rates(1)[-1].round(3).tolist()
    [0.015, 0.072]
    """

    rates_given_last: ArrayLike
    levels: tuple[str, ...] = TWO_LEVELS

    serve: ClassVar[Serve] = staticmethod(serve)

    def __post_init__(self) -> None:
        rows = tuple(np.asarray(self.rates_given_last, dtype=np.float64))
        if len(rows) != len(self.levels):
            rule = f"one row for each of the {len(self.levels)} levels"
            raise InvalidInput.of("rates_given_last", rule, len(rows))
        names = tuple(f"rates_given_last[{j}]" for j in range(len(rows)))
        object.__setattr__(self, "rates_given_last", check_conditional_rates(names, rows))
        object.__setattr__(self, "delays", (0,) * len(rows))

    def world(self, n_rounds: int) -> Any:
        """Return the conditional rates."""
        return BernoulliWorld(np.asarray(self.rates_given_last))

    def rates(self, n_rounds: int) -> Floats:
        """Return the product of the levels' rates up to each level."""
        return np.cumprod(np.asarray(self.rates_given_last), axis=0)


class BernoulliLinks(BernoulliLevels):
    """The paper's links: clicked with probability `click_rate`, then paid with `revenue_per_click`.

    >>> BernoulliLinks(click_rate=[0.5, 0.2], revenue_per_click=[0.1, 0.9]).n_links
    2
    """

    def __init__(self, click_rate: ArrayLike, revenue_per_click: ArrayLike) -> None:
        names = ("click_rate", "revenue_per_click")
        rates = check_conditional_rates(names, (click_rate, revenue_per_click))
        super().__init__(rates, TWO_LEVELS)


class IntervalLinks(BernoulliLinks):
    """Links for rounds that are short intervals of `views_per_round` page views of one page.

    >>> IntervalLinks([0.5], [0.1], views_per_round=100).views_per_round
    100
    """

    serve: ClassVar[Serve] = staticmethod(serve_interval)

    def __init__(
        self, click_rate: ArrayLike, revenue_per_click: ArrayLike, views_per_round: int
    ) -> None:
        super().__init__(click_rate, revenue_per_click)
        if views_per_round < 1:
            raise InvalidInput.of("views_per_round", "at least 1", views_per_round)
        object.__setattr__(self, "views_per_round", views_per_round)

    def world(self, n_rounds: int) -> IntervalWorld:
        """Return the conditional rates and the views of a round."""
        return IntervalWorld(np.asarray(self.rates_given_last), self.views_per_round)
