"""Runs in which some views get an own page and the share of chosen pages keeps a promise.

The loop is that of `engine`, in parts: the share is decided between them, as a `Selector` does it.
Used by `experiment`, `experiment_file`, `run_blocks` and `series`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import inner, loop_maker
from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.player.link_pool import LinkPool
from slotwise.player.own_page import checked_keep, checked_order, own_places, own_probabilities
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.selection.mix import add_page
from slotwise.selection.passes import total_of
from slotwise.selection.promise import (
    LEAST_OWN,
    Group,
    OpenCounts,
    PromiseEvidence,
    Shares,
    Terms,
    next_share,
)
from slotwise.selection.uniforms import next_uniform
from slotwise.simulation.engine import (
    CHANCE,
    VISITORS,
    functions_of,
    guarded_loop,
    new_buffers,
    run_generator,
    simulated_rules,
)

MIN_STEP, STEP = 10, 0.02
"""Rounds between two decisions: at least so many, or this part of the rounds so far."""


@dataclass(frozen=True)
class OwnPagePlan:
    """The own page of a simulation and the promise about it; links are numbered from 0 on.

    >>> OwnPagePlan((2, 0), keep=0.95).holdout
    0.05
    """

    own_page: tuple[int, ...]
    keep: float | None = None
    holdout: float = LEAST_OWN

    def __post_init__(self) -> None:
        checked_keep(self.keep)
        if not 0.01 <= self.holdout <= 1:
            raise InvalidInput.of("holdout", "from 0.01 to 1", self.holdout)

    def page(self, problem: Problem) -> Links:
        """Return the links of the own page; it must fill the page and be within the rules."""
        pool = LinkPool(range(problem.n_links))
        places = own_places(checked_order(self.own_page, pool), pool)
        if len(problem.slot_weights):
            advice = "leave out `slot_weights`"
            raise InvalidInput.of("own_page", "for slots that are alike", self.own_page, advice)
        ruled = simulated_rules(problem).for_page(None) if problem.rules else None
        nothing = np.zeros(problem.n_links)
        page = own_probabilities(places, nothing, problem.n_slots, None, ruled)
        shown = np.flatnonzero(page == 1.0)
        if len(shown) < problem.n_slots or not set(shown.tolist()) <= set(places.tolist()):
            rule = f"an order with {problem.n_slots} links that may be on one page"
            raise InvalidInput.of("own_page", rule, self.own_page)
        return shown


def own_page_plan(
    own_page: Sequence[int] | None, keep: float | None, holdout: float = LEAST_OWN
) -> OwnPagePlan | None:
    """Return the plan that was given, if any."""
    if own_page is None:
        if keep is not None:
            raise InvalidInput.of("keep", "given with an own page", keep)
        return None
    return OwnPagePlan(tuple(own_page), keep, holdout)


class OwnBuffers(NamedTuple):
    """The own page in the loop, and the group and the revenue of every round."""

    page: Links
    is_own: Floats
    share: Floats
    """One entry: the share of chosen pages now."""
    mixture: Floats
    n_rounds: Whole
    """One entry: the rounds played so far."""
    shares: Floats
    is_chosen: Whole
    revenue: Floats
    rewards: Floats


@loop_maker
def _mixed_page(page: Callable[..., None]) -> Callable[..., None]:
    """Return a function that draws a page of the policy or shows the own page."""

    def mixed(
        state: Any, both: Any, visitor: Any, chance: Any, shown: Any, probabilities: Floats
    ) -> None:
        rules, own = both
        page(state, rules, visitor, chance, shown, probabilities)
        share = _begin_mixture(own)
        add_page(state.mix, share, own.mixture)
        _show_one(own, share, chance, shown, probabilities)

    return mixed


@loop_maker
def _mixed_page_within(page: Callable[..., None]) -> Callable[..., None]:
    """Return a function like `_mixed_page` for pages within rules."""

    def mixed(
        state: Any, both: Any, visitor: Any, chance: Any, shown: Any, probabilities: Floats
    ) -> None:
        rules, own = both
        page(state, rules, visitor, chance, shown, probabilities)
        share = _begin_mixture(own)
        for link in range(len(own.mixture)):
            own.mixture[link] += share * rules.probabilities[link]
        _show_one(own, share, chance, shown, probabilities)

    return mixed


@inner
def _begin_mixture(own: OwnBuffers) -> float:
    """Write the own page's part of the mixture; return the share of the chosen page."""
    share = own.share[0]
    for link in range(len(own.mixture)):
        own.mixture[link] = (1.0 - share) * own.is_own[link]
    return float(share)


@inner
def _show_one(
    own: OwnBuffers, share: float, chance: Any, shown: Links, probabilities: Floats
) -> None:
    """Show the chosen page or the own one; write the probabilities of its links."""
    number = own.n_rounds[0]
    is_chosen = next_uniform(chance) < share
    own.shares[number] = share
    own.is_chosen[number] = is_chosen
    for slot in range(len(shown)):
        if not is_chosen:
            shown[slot] = own.page[slot]
        probabilities[slot] = own.mixture[shown[slot]]


@loop_maker
def _arriving(arrive: Callable[..., None]) -> Callable[..., None]:
    def arrive_at(both: Any, round_number: int, rng: Any, visitor: Any) -> None:
        arrive(both[0], round_number, rng, visitor)

    return arrive_at


@loop_maker
def _serving(serve: Callable[..., None]) -> Callable[..., None]:
    """Return a function that serves a page and notes its revenue."""

    def serve_noted(
        both: Any, round_number: int, visitor: Any, shown: Any, rng: Any, outcomes: Floats
    ) -> None:
        world, own = both
        serve(world, round_number, visitor, shown, rng, outcomes)
        number = own.n_rounds[0]
        for level in range(len(own.rewards)):
            own.revenue[number] += own.rewards[level] * total_of(outcomes[level])
        own.n_rounds[0] = number + 1

    return serve_noted


def play_promised(
    policy: Policy,
    environment: Environment,
    problem: Problem,
    checkpoints: Whole,
    streams: tuple[int, int],
    plan: OwnPagePlan,
) -> Floats:
    """Play one run with an own page; return what `engine.play_run` does. `streams`: seed and run.

    Revenue counts when the slowest level is known. Own pages have the same chance as in a
    `Selector`; where a round has many views, all of them get the same page.
    """
    seed, run = streams
    n_rounds = int(checkpoints[-1])
    form = policy.for_problem(problem)
    state = form.start(problem)
    page, *learning, arrive, serve = functions_of(form, environment, bool(problem.rules))
    mixed = (_mixed_page_within if problem.rules else _mixed_page)(page)
    functions = mixed, *learning, _arriving(arrive), _serving(serve)
    play = guarded_loop(form, problem, functions)
    own = _own_buffers(problem, environment, plan, n_rounds)
    buffers = new_buffers(problem, environment, checkpoints)
    buffers, record = buffers._replace(rules=(buffers.rules, own)), buffers.record
    world = (environment.world(n_rounds), own)
    chances = run_generator(seed, run, VISITORS), run_generator(seed, run, CHANCE)
    late = max(buffers.visitors.shape[0] - 1, 0)
    decisions = _Decisions(problem, plan, own, late)
    first, place = 1, 0
    while first <= n_rounds:
        step = max(MIN_STEP, int(STEP * first))
        end = min(decisions.decide(step), int(checkpoints[place]))
        play(state, world, buffers._replace(checkpoints=np.array([end])), first, *chances)
        if end == checkpoints[place]:
            record[:, :, place] = buffers.totals
            place += 1
        first = end + 1
    return record


def _own_buffers(
    problem: Problem, environment: Environment, plan: OwnPagePlan, n_rounds: int
) -> OwnBuffers:
    page = plan.page(problem)
    is_own = np.zeros(problem.n_links)
    is_own[page] = 1.0
    rewards = np.array([problem.rewards.get(level, 0.0) for level in problem.levels])
    return OwnBuffers(
        page=page,
        is_own=is_own,
        share=np.zeros(1),
        mixture=np.zeros(problem.n_links),
        n_rounds=np.zeros(1, np.int64),
        shares=np.zeros(n_rounds),
        is_chosen=np.zeros(n_rounds, np.int64),
        revenue=np.zeros(n_rounds),
        rewards=rewards / environment.views_per_round,
    )


class _Decisions:
    """The share of chosen pages, decided from the settled rounds."""

    def __init__(self, problem: Problem, plan: OwnPagePlan, own: OwnBuffers, late: int) -> None:
        self._plan, self._own, self._late = plan, own, late
        most = problem.n_slots * sum(problem.rewards.values())
        self._terms = Terms(plan.keep or 0.0, most, plan.holdout)
        self._evidence, self._n_settled = PromiseEvidence(), 0

    def decide(self, step: int) -> int:
        """Set the share of the next rounds; return the last of them."""
        own, n_played = self._own, int(self._own.n_rounds[0])
        if self._plan.keep is None:
            own.share[0] = self._terms.largest_share
            return len(own.revenue)
        self._settle(max(0, n_played - self._late))
        n_other = int(own.is_chosen[self._n_settled : n_played].sum())
        open_views = OpenCounts(n_played - self._n_settled - n_other, n_other)
        previous = float(own.share[0])
        share = next_share(self._evidence, open_views, self._terms, n_ahead=step, previous=previous)
        own.share[0] = share.chosen
        return n_played + step

    def _settle(self, end: int) -> None:
        """Add the rounds up to `end` to the evidence: those of the same share at once."""
        own, start = self._own, self._n_settled
        while start < end:
            same = own.shares[start:end] == own.shares[start]
            stop = start + int(same.argmin()) if not same.all() else end
            shares = Shares.of(float(own.shares[start]))
            groups: list[tuple[int, Group]] = [(1, "chosen"), (0, "own")]
            for is_chosen, group in groups:
                amounts = own.revenue[start:stop][own.is_chosen[start:stop] == is_chosen]
                sums = float(amounts.sum()), float(amounts @ amounts)
                self._evidence.note_many(group, shares, len(amounts), sums)
            start = stop
        self._n_settled = max(end, self._n_settled)
