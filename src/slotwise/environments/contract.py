"""What every environment is: settings that make a world, and one compiled function on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Environment"]

Floats = NDArray[np.float64]


class Environment:
    """Where feedback comes from in a simulation.

    `world(n_rounds)` returns a NamedTuple of plain arrays; `serve(world, round_number, shown,
    rng, outcomes)` plays one round: it writes what the links in `shown` brought at every level
    into `outcomes[level, slot]`, summed over the page views of the round. An environment knows
    nothing of regret or floors; it only answers what links bring.

    Laws, tested by `slotwise.testing.EnvironmentContract`: outcomes lie in [0, views_per_round];
    no level brings more than the level before it; means are those of `rates`; the same generator
    gives the same visitors; `world` is not changed by serving.
    """

    serve: ClassVar[Callable[[Any, int, NDArray[np.int64], np.random.Generator, Floats], None]]
    levels: tuple[str, ...] = ("click", "revenue")
    views_per_round: int = 1
    delays: tuple[int, ...] = (0, 0)
    """How many rounds pass before the feedback of each level is known."""

    @property
    def serving(self) -> Callable[..., None]:
        """The function that serves a round: `serve`, unless links are wrapped."""
        return type(self).serve

    @property
    def n_links(self) -> int:
        """How many links there are."""
        raise NotImplementedError

    def world(self, n_rounds: int) -> Any:
        """Return what `serve` needs for an experiment of `n_rounds` rounds."""
        raise NotImplementedError

    def rates(self, n_rounds: int) -> Floats:
        """Return the mean outcome of a view, of shape (n_levels, n_links), over the rounds."""
        raise NotImplementedError
