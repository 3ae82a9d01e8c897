"""Every attribute and hook of `Policy` has a law in the contract, which catches a violation."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from slotwise.policies import PacedBayes
from slotwise.policies.con_ucb import ConUCB
from slotwise.policies.cucb import CUCB
from slotwise.policies.policy import (
    AtPrices,
    Debt,
    Estimates,
    Knowledge,
    LinkFeedback,
    Policy,
    ReadsVisitors,
    Visitor,
    visitors_seen,
)
from slotwise.policies.uniform_and_fixed import Uniform
from slotwise.problem import Problem
from slotwise.testing import PolicyContract
from slotwise.testing.policy_hook_laws import MORE_FLOORS, SOLD
from slotwise.testing.policy_play import OF_VISITORS, PAGE

LAWS = {
    "name": "test_every_form_of_a_policy_has_its_name",
    "choose": "test_probabilities_make_a_page",
    "learn": "test_late_feedback_teaches_the_same",
    "rank": "test_ranking_links_is_repeatable_and_teaches_nothing",
    "note_open": "test_open_views_that_settle_leave_nothing_behind",
    "choose_within": "test_rules_hold_on_every_page",
    "at_prices": "test_pages_at_the_present_prices_are_those_chosen",
    "needs": "test_the_order_of_feedback_matters_where_it_is_needed_in_order",
    "per_link": "test_knowledge_is_a_copy_with_an_entry_a_link",
    "for_visitors": "test_visitors_matter_only_where_that_is_declared",
    "keeps_floor": "test_the_floor_is_kept_once_rates_are_known",
    "debt": "test_pages_depend_on_what_is_owed_as_declared",
    "samples": "test_a_choice_that_depends_on_chance_is_declared",
    "for_problem": "test_further_floors_are_kept_or_refused",
    "start": "test_states_of_one_policy_are_apart",
    "plan_for": "test_a_plan_for_fewer_rounds_keeps_what_is_known",
    "knowledge": "test_knowledge_is_a_copy_with_an_entry_a_link",
    "restore": "test_a_saved_state_goes_on_as_before",
    "move": "test_a_changed_pool_keeps_what_is_known_of_the_others",
    "estimates": "test_estimates_are_those_of_the_program",
}


def test_every_hook_has_a_law() -> None:
    functions = {name for name, _ in inspect.getmembers(Policy, inspect.isfunction)}
    hooks = {*inspect.get_annotations(Policy), *functions}
    assert {hook for hook in hooks if not hook.startswith("_")} == {*LAWS}
    assert all(callable(getattr(PolicyContract, law)) for law in LAWS.values())


@dataclass(frozen=True)
class Contract(PolicyContract):
    policy: Policy

    def make_policy(self, problem: Problem) -> Policy:
        return self.policy


class TwoWords(Uniform):
    name: ClassVar[str] = "show anything"


class Namesake(Uniform):
    name: ClassVar[str] = CUCB.name


class Renamed(ConUCB):
    def for_problem(self, problem: Problem) -> Policy:
        return Uniform()


@pytest.mark.parametrize("policy", [TwoWords(), Namesake(), Renamed()], ids=lambda one: one.name)
def test_a_name_that_is_not_the_policys(policy: Policy) -> None:
    with pytest.raises(AssertionError):
        Contract(policy).test_every_form_of_a_policy_has_its_name(PAGE)


class NeverFinal(PacedBayes):
    def for_problem(self, problem: Problem) -> Policy:
        return replace(self, patience=self.patience / 2)


def test_a_form_that_has_another_form() -> None:
    with pytest.raises(AssertionError):
        Contract(NeverFinal()).test_the_form_for_a_problem_is_final(PAGE)


class ClicksOnly(ConUCB):
    """Accepts every floor and keeps that on clicks."""

    def for_problem(self, problem: Problem) -> Policy:
        return self

    def _is_for(self, problem: Problem) -> bool:
        return True


@pytest.mark.parametrize("asked", MORE_FLOORS.values(), ids=list(MORE_FLOORS))
def test_a_floor_that_is_accepted_and_ignored(asked: Any) -> None:
    with pytest.raises(AssertionError):
        Contract(ClicksOnly()).test_further_floors_are_kept_or_refused(asked)


def learn_of_phones(state: Any, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    if len(visitor) and visitor[0] == 1:
        CUCB.learn(state, visitor, level, feedback)


class ReadsInSecret(CUCB):
    learn: ClassVar[Any] = staticmethod(learn_of_phones)


def test_a_visitor_that_is_read_without_saying_so() -> None:
    with pytest.raises(AssertionError):
        Contract(ReadsInSecret()).test_visitors_matter_only_where_that_is_declared()


class SeesOthers(CUCB):
    for_visitors: ClassVar[Any] = ReadsVisitors(seen=lambda _: np.array([[0, 9]]))


def test_visitors_that_the_problem_does_not_have() -> None:
    with pytest.raises(AssertionError):
        Contract(SeesOthers()).test_visitors_seen_are_visitors_of_the_problem()


def forget_all(known: Knowledge, problem: Problem, value: int, into: int) -> Knowledge:
    return {name: np.zeros_like(array) for name, array in known.items()}


def merge_nothing(known: Knowledge, problem: Problem, value: int, into: int) -> Knowledge:
    return known


def visitors_seen_by_default(state: Any) -> Any:
    return visitors_seen(PacedBayes(), state)


@pytest.mark.parametrize("merge", [forget_all, merge_nothing])
def test_a_merge_that_forgets_or_leaves_the_value(merge: Any) -> None:
    class Merging(PacedBayes):
        for_visitors: ClassVar[Any] = ReadsVisitors(visitors_seen_by_default, merge)

    with pytest.raises(AssertionError):
        Contract(Merging()).test_a_merged_value_is_free()


class SilentDebt(PacedBayes):
    debt: ClassVar[Debt] = Debt.NONE


class ForgetsSurplus(PacedBayes):
    debt: ClassVar[Debt] = Debt.QUEUE


class OwesNothing(ConUCB):
    debt: ClassVar[Debt] = Debt.BALANCE


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (SilentDebt(), "set `debt`"),
        (ForgetsSurplus(), "offsets a later debt"),
        (OwesNothing(), "repay nothing"),
    ],
)
def test_a_debt_that_is_not_as_declared(policy: Policy, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        Contract(policy).test_pages_depend_on_what_is_owed_as_declared()


class Exchanged(ConUCB):
    def estimates(self, state: Any) -> Estimates:
        return Estimates.of(state.program.clicks, state.program.value)


class Writable(ConUCB):
    def estimates(self, state: Any) -> Estimates:
        return Estimates(state.program.value.copy(), state.program.clicks.copy())


class OfAnother(CUCB):
    """Its pages are not those of the program, since it ignores the floor."""

    def estimates(self, state: Any) -> Estimates:
        views = np.maximum(state.counts.views, 1.0)
        return Estimates.of(*(state.counts.sums / views)[::-1])


@pytest.mark.parametrize("policy", [Exchanged(), Writable(), OfAnother()])
def test_estimates_that_are_not_those_of_the_page(policy: Policy) -> None:
    with pytest.raises(AssertionError):
        Contract(policy).test_estimates_are_those_of_the_program(SOLD)


def page_for_nobody(
    state: Any, visitor: Visitor, prices: Any, links: Any, n_slots: int, probabilities: Any
) -> None:
    probabilities[:] = n_slots / len(links)


def page_within_for_nobody(
    state: Any, visitor: Visitor, prices: Any, rules: Any, probabilities: Any
) -> None:
    probabilities[:] = 3 / len(probabilities)


class OtherPages(PacedBayes):
    at_prices: ClassVar[Any] = AtPrices(page_for_nobody, page_within_for_nobody)


@pytest.mark.parametrize("problem", [PAGE, OF_VISITORS])
def test_pages_at_prices_that_are_not_those_chosen(problem: Problem) -> None:
    contract = Contract(OtherPages())
    with pytest.raises(AssertionError):
        contract.test_pages_at_the_present_prices_are_those_chosen(problem)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError):
        contract.test_pages_at_prices_are_within_rules(problem, patch)
