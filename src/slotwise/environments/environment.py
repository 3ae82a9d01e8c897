"""The contract of an environment: settings that make a world, and one compiled function.

Used by `bernoulli`, `drifting`, `late_feedback`, `revenue_amounts` and `visitor_shops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.features import Features


class VisitorRates(NamedTuple):
    """The visitors that can be distinguished: feature values, shares, and rates by level and link.

    `places` has a row for each of them and a column for each feature; `rates` is of shape
    (n_visitors, n_levels, n_links).
    """

    places: Places
    shares: Floats
    rates: Floats


class Arrive(Protocol):
    """The type of `arrive`; only the environment knows the type of its world."""

    def __call__(
        self, world: Any, round_number: int, rng: np.random.Generator, visitor: Places, /
    ) -> None:
        """Write a visitor."""


class Serve(Protocol):
    """The type of `serve`."""

    def __call__(
        self,
        world: Any,
        round_number: int,
        visitor: Places,
        shown: Places,
        rng: np.random.Generator,
        outcomes: Floats,
        /,
    ) -> None:
        """Write the outcomes of a round."""


@hot
def arrive(world: object, round_number: int, rng: np.random.Generator, visitor: Places) -> None:
    """Leave the visitor as it is: all visitors are alike."""


class Environment:
    """The source of feedback in a simulation.

    `world(n_rounds)` returns a NamedTuple of plain arrays; `serve(world, round_number, visitor,
    shown, rng, outcomes)` plays one round: it writes the outcomes of the links in `shown`, in the
    order of their slots, into `outcomes[level, slot]`, summed over the page views of the round. An
    environment does not know regret or floors.

    Where visitors differ, `features` has the values of each of their features, and
    `arrive(world, round_number, rng, visitor)` writes one visitor before the page is chosen: for
    each feature its value's place in the list of all values, then one number more, which `serve`
    gets and policies do not. `slot_weights` are those that `serve` uses; none means equal slots.

    Laws, tested by `slotwise.testing.EnvironmentContract`: outcomes lie in [0, views_per_round]; no
    level has a larger outcome than the level before it; means are those of `rates`, and for each
    visitor those of `visitor_rates`; the same generator gives the same visitors; `world` is not
    changed by serving.
    """

    arrive: ClassVar[Arrive] = staticmethod(arrive)
    serve: ClassVar[Serve]
    levels: tuple[str, ...] = ("click", "revenue")
    views_per_round: int = 1
    delays: tuple[int, ...] = (0, 0)
    """How many rounds pass before the feedback of each level is known."""
    delay_spread: float = 0.0
    """The share by which the delay of a page view may be shorter or longer, drawn uniformly."""
    features: Features = Features({})
    slot_weights: tuple[float, ...] = ()

    @property
    def serving(self) -> Callable[..., None]:
        """The function that serves a round; `serve`, unless the environment wraps another one."""
        return type(self).serve

    @property
    def arriving(self) -> Callable[..., None]:
        """The function that writes a visitor: `arrive`, unless links are wrapped."""
        return type(self).arrive

    @property
    def feature_sizes(self) -> tuple[int, ...]:
        """How many values each feature of a visitor has."""
        return self.features.sizes

    @property
    def segment_labels(self) -> list[str]:
        """The feature and value of every segment, as results name it."""
        return [f"{one.name} {label}" for one in self.features.features for label in one.labels()]

    @property
    def n_links(self) -> int:
        """How many links there are."""
        return self.rates(1).shape[1]

    def world(self, n_rounds: int) -> Any:
        """Return the arrays that `serve` needs for an experiment of `n_rounds` rounds."""
        raise NotImplementedError

    def rates(self, n_rounds: int) -> Floats:
        """Return the mean outcome of a page view over the rounds, of shape (n_levels, n_links).

        The mean is over all visitors, in a slot of weight 1. Define `rates` or `visitor_rates`.
        """
        visitors = self.visitor_rates(n_rounds)
        return np.tensordot(visitors.shares, visitors.rates, axes=1)

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return the visitors that can be distinguished, and their mean outcomes per view."""
        return VisitorRates(np.zeros((1, 0), np.int64), np.ones(1), self.rates(n_rounds)[None])
