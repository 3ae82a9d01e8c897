"""The contract of an environment: settings that make a world, and one compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Environment"]

Floats = NDArray[np.float64]


class Environment:
    """The source of feedback in a simulation.

    `world(n_rounds)` returns a NamedTuple of plain arrays; `serve(world, round_number, shown,
    rng, outcomes)` simulates one round: it writes the outcome of the links in `shown` at every
    level into `outcomes[level, slot]`, summed over the page views of the round. An environment
    knows nothing about regret or floors.

    Laws, tested by `slotwise.testing.EnvironmentContract`: outcomes lie in [0, views_per_round];
    no level exceeds the level before it; means are those of `rates`; the same generator gives
    the same visitors; serving does not change `world`.
    """

    serve: ClassVar[Callable[[Any, int, NDArray[np.int64], np.random.Generator, Floats], None]]
    levels: tuple[str, ...] = ("click", "revenue")
    views_per_round: int = 1
    delays: tuple[int, ...] = (0, 0)
    """How many rounds pass before the feedback of each level is known."""

    @property
    def serving(self) -> Callable[..., None]:
        """The function that serves a round; `serve`, unless the environment wraps another one."""
        return type(self).serve

    @property
    def n_links(self) -> int:
        """How many links there are."""
        raise NotImplementedError

    def world(self, n_rounds: int) -> Any:
        """Return the arrays that `serve` needs for an experiment of `n_rounds` rounds."""
        raise NotImplementedError

    def rates(self, n_rounds: int) -> Floats:
        """Return the mean outcome of a page view over the rounds, of shape (n_levels, n_links)."""
        raise NotImplementedError
