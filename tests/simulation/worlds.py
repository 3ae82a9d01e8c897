"""Small worlds and pages for the tests of the engine."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot
from slotwise.environments import BernoulliLinks
from slotwise.policies import POLICIES, FixedMix, Policy, make_policy

N_LINKS, N_SLOTS, FLOOR = 12, 3, 1.1
CLICKS = np.linspace(0.1, 0.6, N_LINKS)
REVENUE = np.linspace(0.9, 0.05, N_LINKS) ** 2
LINKS = BernoulliLinks(CLICKS, REVENUE)


def registered_policy(name: str, n_rounds: int) -> Policy:
    """Return a registered policy for this file's page, its horizon set, its bounds narrow."""
    if name == FixedMix.name:
        return make_policy(name, {"probabilities": [N_SLOTS / N_LINKS] * N_LINKS})
    known = {field.name for field in dataclasses.fields(POLICIES[name])}  # type: ignore[arg-type]
    wanted = {"horizon": n_rounds, "gamma_scale": 1 / 720}
    return make_policy(name, {key: wanted[key] for key in wanted if key in known})


class RememberingWorld(NamedTuple):
    conditional: NDArray[np.float64]
    pages: NDArray[np.int64]


@hot
def serve_and_remember(
    world: RememberingWorld,
    round_number: int,
    visitor: NDArray[np.int64],
    shown: NDArray[np.int64],
    rng: np.random.Generator,
    outcomes: NDArray[np.float64],
) -> None:
    """Serve like `BernoulliLinks`, writing down the page of every round."""
    for slot in range(len(shown)):
        world.pages[round_number - 1, slot] = shown[slot]
        alive = 1.0
        for level in range(len(world.conditional)):
            alive = alive if rng.random() < world.conditional[level, shown[slot]] else 0.0
            outcomes[level, slot] = alive


class RememberingLinks(BernoulliLinks):
    """Links that keep the page of every round of the last run."""

    serve: ClassVar[Any] = staticmethod(serve_and_remember)
    pages: NDArray[np.int64]

    def world(self, n_rounds: int) -> Any:
        object.__setattr__(self, "pages", np.full((n_rounds, N_SLOTS), -1))
        return RememberingWorld(np.asarray(self.rates_given_last), self.pages)
