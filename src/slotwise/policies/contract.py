"""What every policy is: settings that start a state, and two compiled functions on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.problem import Problem
from slotwise.selection.mix import Mix

__all__ = [
    "Estimates",
    "Floats",
    "Knowledge",
    "Links",
    "Policy",
    "State",
    "require_click_floor_only",
    "require_horizon",
    "require_last_level_reward",
]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]
Knowledge = dict[str, Floats]


class State(Protocol):
    """What a policy has learned: a NamedTuple of plain arrays, scalars and such tuples."""

    @property
    def mix(self) -> Mix:
        """The chances that `choose` wrote last."""
        ...


class Estimates(NamedTuple):
    """What a policy believes each link to be worth when it solves the floor program."""

    value: Floats
    clicks: Floats


class Policy:
    """Settings of a policy: a frozen dataclass with two functions on the state it starts.

    A policy answers one question: with what probability should each link be on the page?
    `choose(state, rng)` writes the answer into `state.mix`; the one shared rounding
    (`slotwise.selection.draw_page`) turns it into exactly `n_slots` links.
    `learn(state, level, links, probabilities, views, outcomes)` takes in what happened at one
    level of feedback: for each of `links` the probability it was shown with, how many page
    views are settled at this level and the sum of the level's outcome over them (level 0:
    clicks; level 1: revenue in [0, 1] a view).

    Both are plain functions in the subset of Python that numba compiles, decorated with
    `slotwise.selection.compiled`, and stand as class attributes. A function that cannot be
    compiled works everywhere too, only slower.

    What a state knows, apart from how it is arranged for speed, is its `knowledge`: named
    arrays that are saved, moved to a changed pool and restored. Arrays whose last axis has one
    entry a link are named in `per_link`.

    Laws, tested for every registered policy by `slotwise.testing.PolicyContract`:

    - probabilities lie in [0, 1] and sum to `n_slots`; exactly `n_slots` different links show
    - `choose` changes nothing that `learn` depends on; the same seed gives the same pages
    - `learn` reads only the links given and takes the probabilities from the round itself, so
      feedback may arrive late, in batches, level by level and out of order
    - a state survives save and load, and moves to a changed pool without touching what is
      known of the links that stay
    - `n_slots == n_links`, one link, equal values everywhere, a floor out of reach all work
    - ties are broken at random, and only among the links that tie at the boundary
    """

    name: ClassVar[str]
    choose: ClassVar[Callable[[Any, np.random.Generator], None]]
    learn: ClassVar[Callable[[Any, int, Links, Floats, Floats, Floats], None]]
    per_link: ClassVar[frozenset[str]] = frozenset()
    """Names of the knowledge whose last axis has one entry a link."""
    ordered_knowledge: ClassVar[frozenset[str]] = frozenset()
    """Names of the knowledge that depends on the order of feedback, such as a queue, which
    forgets a surplus. All other knowledge is the same in whatever order feedback arrives."""
    learns_from_counts: ClassVar[bool] = True
    """Whether counts per link, without the pages they came from, are enough to learn."""
    keeps_floor: ClassVar[bool] = True
    """Whether the policy tries to keep the click floor at all."""
    moves_each_round: ClassVar[bool] = False
    """Whether its pages are meant to follow each other, as with a queue that moves the price of
    clicks every round: then one page is no plan for many views, but `average_ahead` is."""
    samples: ClassVar[bool] = False
    """Whether `choose` draws what the policy believes; its page is certain only given the draw."""

    def start(self, problem: Problem) -> State:
        """Return the state of a policy that has seen nothing."""
        raise NotImplementedError

    def knowledge(self, state: Any) -> Knowledge:
        """Return copies of the arrays that hold everything the state has learned."""
        raise NotImplementedError

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return the state that knows exactly `knowledge`."""
        raise NotImplementedError

    def newcomer(self, knowledge: Knowledge) -> Knowledge:
        """Return the per-link knowledge with which a link that joins a running pool starts."""
        return {name: np.zeros(knowledge[name].shape[:-1]) for name in self.per_link}

    def move(self, state: Any, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool, where `kept[i]` is the old place of link i or -1."""
        knowledge = self.knowledge(state)
        fresh = self.newcomer(knowledge)
        stays = kept >= 0
        for name in self.per_link:
            moved = np.repeat(fresh[name][..., None], len(kept), axis=-1)
            moved[..., stays] = knowledge[name][..., kept[stays]]
            knowledge[name] = moved
        return self.restore(problem, knowledge)

    def estimates(self, state: Any) -> Estimates | None:  # noqa: ARG002 - overridden by some
        """Return what goes into the floor program, or None for policies that solve none."""
        return None


def require_horizon(policy_name: str, horizon: int | None, problem: Problem) -> int:
    """Return the horizon of the policy or else of the problem; refuse if neither has one."""
    found = horizon if horizon is not None else problem.horizon
    if found is None:
        advice = f"{policy_name} plans for a number of rounds: say how many page views to expect"
        raise InvalidInput.of("horizon", "a whole number of rounds", None, advice)
    if found < 1:
        raise InvalidInput.of("horizon", "at least 1", found)
    return found


def require_click_floor_only(policy_name: str, problem: Problem) -> None:
    """Refuse a problem with more floors than the click floor, or with weighed rewards.

    For policies that would silently ignore what they are asked for.

    >>> problem = Problem(9, 3, levels=("click", "cart", "buy"), floors={"cart": 0.5})
    >>> require_click_floor_only("con-ts", problem)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `floors` must be on 'click' only for con-ts, got 'cart'; ...
    """
    for floor in problem.active_floors:
        if floor.level != 0:
            rule = f"on {problem.levels[0]!r} only for {policy_name}"
            advice = "con-ucb keeps floors on every level and on rates"
            raise InvalidInput.of("floors", rule, floor.name, advice)
    require_last_level_reward(policy_name, problem)


def require_last_level_reward(policy_name: str, problem: Problem) -> None:
    """Refuse a problem that is to earn more than its last level."""
    if not problem.rewards_last_level_only:
        rule = f"on {problem.levels[-1]!r} only, with weight 1, for {policy_name}"
        advice = "con-ucb and lexp weigh levels"
        raise InvalidInput.of("rewards", rule, dict(problem.rewards), advice)
