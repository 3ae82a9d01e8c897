"""The shipped contract over every registered policy, and over one that a user might write."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.policies import (
    CUCB,
    NOBODY,
    POLICIES,
    ConUCB,
    FixedMix,
    LExp,
    LinkFeedback,
    Policy,
    Uniform,
    make_policy,
)
from slotwise.policies.policy import CountingPolicy, Counts, Visitor, new_counts
from slotwise.problem import Problem
from slotwise.selection import Mix, new_mix
from slotwise.testing import PolicyContract
from slotwise.testing.policy_play import FLOOR
from tests.policies.order_of_feedback import ordered, refitted

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

PROBLEM = Problem(n_links=6, n_slots=2, click_floor=0.5, horizon=100)


@pytest.mark.parametrize("name", POLICIES)
class TestRegistry(PolicyContract):
    @pytest.fixture(autouse=True)
    def _policy_name(self, name: str) -> None:
        self.name = name
        self.ordered_knowledge = ordered(name)
        self.refitted_knowledge = refitted(name)

    def make_policy(self, problem: Problem) -> Policy:
        if self.name == FixedMix.name:
            share = problem.n_slots / problem.n_links
            return make_policy(self.name, {"probabilities": [share] * problem.n_links})
        return make_policy(self.name)

    def test_the_floor_is_kept_once_rates_are_known(self) -> None:
        """LExp regularises its multiplier, which settles below the price: it only asks for more."""
        if self.name != LExp.name:
            super().test_the_floor_is_kept_once_rates_are_known()
            return
        without = dataclasses.replace(FLOOR, click_floor=0.0, floors={})
        asked, free = (self.clicks_at_known_rates(one) for one in (FLOOR, without))
        assert asked > 1.15 * free


def test_the_contract_leaves_the_visitor_of_all_policies_as_it_is() -> None:
    """An array that cannot be written to is of another type, for which all is compiled again."""
    contract = TestConUCBWithNarrowBounds()
    assert contract.played(PROBLEM).pages[0].visitor is NOBODY
    assert NOBODY.flags.writeable


class TestConUCBWithNarrowBounds(PolicyContract):
    """Bounds that leave 1 within a few views, so that floors bind and get out of reach."""

    def make_policy(self, problem: Problem) -> Policy:
        return ConUCB(gamma_scale=1 / 2000)


class PopularState(NamedTuple):
    n_slots: int
    counts: Counts
    mix: Mix


def choose_popular(state: PopularState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Show links in proportion to 1 + their clicks, none with more than certainty."""
    weights = 1.0 + state.counts.sums[0]
    chances = np.zeros(len(weights))
    while True:
        rest = chances < 1.0
        n_left = state.n_slots - np.sum(~rest)
        if n_left == 0:
            chances[rest] = 0.0
            break
        chances[rest] = n_left * weights[rest] / weights[rest].sum()
        if chances.max() <= 1.0:
            break
        chances[chances >= 1.0] = 1.0
    state.mix.open[:] = np.arange(len(weights))
    state.mix.probabilities[:] = chances
    state.mix.sizes[:] = 0, len(weights), 0, 0


def count(state: PopularState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    np.add.at(state.counts.views[level], links, views)
    np.add.at(state.counts.sums[level], links, outcomes)


@dataclass(frozen=True)
class Popular(CountingPolicy):
    """A policy in plain Python that nothing compiles."""

    name: ClassVar[str] = "popular"
    choose: ClassVar[Any] = staticmethod(choose_popular)
    learn: ClassVar[Any] = staticmethod(count)
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> PopularState:
        return PopularState(problem.n_slots, new_counts(problem), new_mix(problem.n_links))


class TestPlainPython(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return Popular()


def choose_by_random_taste(state: PopularState, visitor: Visitor, rng: np.random.Generator) -> None:
    liking = rng.gamma(1.0 + state.counts.sums[0])
    state.mix.sure[: state.n_slots] = np.argsort(-liking)[: state.n_slots]
    state.mix.sizes[:] = state.n_slots, 0, 0, 0


class RandomTaste(Popular):
    """A policy that draws what it believes, so that each choice is certain given its draw."""

    choose: ClassVar[Any] = staticmethod(choose_by_random_taste)
    samples: ClassVar[bool] = True


class TestSampling(PolicyContract):
    def make_policy(self, problem: Problem) -> Policy:
        return RandomTaste()


def choose_and_forget(state: PopularState, visitor: Visitor, rng: np.random.Generator) -> None:
    choose_popular(state, visitor, rng)
    state.counts.sums[0] *= 0.9


class Forgetful(Popular):
    """Breaks a law: what it knows depends on how often it was asked."""

    choose: ClassVar[Any] = staticmethod(choose_and_forget)


def choose_the_first(state: PopularState, visitor: Visitor, rng: np.random.Generator) -> None:
    by_clicks = np.argsort(-state.counts.sums[0], kind="stable")
    state.mix.sure[: state.n_slots] = by_clicks[: state.n_slots]
    state.mix.sizes[:] = state.n_slots, 0, 0, 0


class Partial(Popular):
    """Breaks a law: of links that tie it takes the first."""

    choose: ClassVar[Any] = staticmethod(choose_the_first)


class UniformWithAClaim(Uniform):
    """Breaks a law: it says that it keeps the floor, and never looks at it."""

    keeps_floor: ClassVar[bool] = True


class CUCBWithAClaim(CUCB):
    """Breaks the same law: it shows what earns most."""

    keeps_floor: ClassVar[bool] = True


def count_and_fade(
    state: PopularState, visitor: Visitor, level: int, feedback: LinkFeedback
) -> None:
    state.counts.sums[level] *= 0.9
    count(state, visitor, level, feedback)


class Fading(Popular):
    """Breaks a law: it says that counts in any order are enough, and weighs the last one more."""

    learn: ClassVar[Any] = staticmethod(count_and_fade)


def contract_for(policy: Policy) -> PolicyContract:
    contract = PolicyContract()
    contract.make_policy = lambda problem: policy  # type: ignore[method-assign]
    return contract


def test_the_contract_catches_a_choice_that_forgets() -> None:
    with pytest.raises(AssertionError, match="sums"):
        contract_for(Forgetful()).test_choosing_changes_nothing_learned(PROBLEM)


@pytest.mark.parametrize("policy", [UniformWithAClaim(), CUCBWithAClaim()], ids=["uniform", "cucb"])
def test_the_contract_catches_a_floor_that_is_ignored(policy: Policy) -> None:
    with pytest.raises(AssertionError):
        contract_for(policy).test_the_floor_is_kept_once_rates_are_known()


def test_the_contract_catches_order_that_matters_unsaid() -> None:
    with pytest.raises(AssertionError, match="sums"):
        contract_for(Fading()).test_feedback_may_arrive_out_of_order(PROBLEM)


def test_the_contract_catches_ties_broken_by_place() -> None:
    with pytest.raises(AssertionError):
        contract_for(Partial()).test_chance_alone_breaks_ties()
    with pytest.raises(AssertionError):
        contract_for(Partial()).test_equal_links_are_equally_likely(PROBLEM)


def test_a_policy_that_is_not_told_of_visitors_is_refused_with_advice() -> None:
    def choose_as_before(state: PopularState, rng: np.random.Generator) -> None: ...

    with pytest.raises(
        TypeError, match=r"^`choose` of Old must take \(state, visitor, rng\), got \(st"
    ):
        type("Old", (Popular,), {"choose": staticmethod(choose_as_before)})
    with pytest.raises(
        TypeError, match=r"^`learn` of Old must take \(state, visitor, level, feedback\), got \(st"
    ):
        type("Old", (Popular,), {"learn": staticmethod(choose_as_before)})
