"""The one loop that plays every policy in every environment, compiled where they are.

Used by most of `simulation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import NotCompilable, can_be_compiled, compiled_first, hot, loop_maker
from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.player.link_pool import LinkPool
from slotwise.player.rules_in_force import RulesInForce, check_links
from slotwise.policies import LinkFeedback, Policy, State
from slotwise.policies.policy import check_page, is_own
from slotwise.policies.within_rules import choosing_within, draw_within
from slotwise.problem import Problem
from slotwise.selection import draw_page
from slotwise.selection.mix import Mix, is_lawful
from slotwise.selection.page_order import (
    PageOrder,
    expose,
    learn_slot_weights,
    new_page_order,
    order_page,
    with_slot_weights,
)
from slotwise.selection.page_rules import PageRules
from slotwise.selection.passes import total_of

KINDS = TOTAL, VIOLATION, DEFICIT = tuple(range(3))
"""What is recorded of every level, and of every floor on a rate, at a checkpoint."""

VISITORS, CHANCE = range(2)
"""Streams of random numbers of a run: all its policies meet the same visitors."""

LINK_COUNTS = SHOWN, SETTLED, CLICKED = tuple(range(3))
"""What is counted of links whose rules have goals: views, those whose clicks are known, clicks."""

NONE = -1


class RunBuffers(NamedTuple):
    """Memory of a run: the pages whose feedback is still to come, and the totals so far.

    Row r % n_rows of the first five belongs to round r; a page is stored until its slowest
    level is known. `first_due` has the row of the latest page whose level is known in a round,
    `next_due` that of the page before it, and `NONE` ends the list.

    Totals are those of the levels, then of the floors on rates: the outcome of a page for such a
    floor is its level minus the rate times the level before, and the floor is 0. Where visitors
    have features, the rounds and the levels of every feature value follow, `1 + n_levels` rows
    each.
    """

    visitors: Whole
    shown: Links
    probabilities: Floats
    outcomes: Floats
    is_in_random_order: NDArray[np.bool_]
    order: PageOrder
    slots: Whole
    views: Floats
    exposure: Floats
    first_value: int
    delays: Whole
    delay_spread: float
    first_due: Whole
    next_due: Whole
    floors: Floats
    rates: Floats
    rate_levels: Whole
    page: Floats
    totals: Floats
    checkpoints: Whole
    record: Floats
    rules: PageRules | tuple[object, ...]
    """The rules of pages, an empty tuple where there are none, or what else the function that makes
    the pages needs."""
    of_links: Floats
    """Views and clicks of each link; empty where they are not needed."""


def new_buffers(problem: Problem, environment: Environment, checkpoints: Whole) -> RunBuffers:
    """Return the buffers of a run that has not started."""
    n_levels, n_slots = problem.n_levels, problem.n_slots
    n_rows = 1 + math.ceil(max(environment.delays) * (1.0 + environment.delay_spread))
    views = environment.views_per_round
    floors = [problem.floors.get(level, 0.0) for level in problem.levels]
    on_rates = [floor for floor in problem.active_floors if floor.rate > 0.0]
    first_value = n_levels + len(on_rates)
    n_kept = first_value + (1 + n_levels) * sum(environment.feature_sizes)
    return RunBuffers(
        visitors=np.zeros((n_rows, len(environment.feature_sizes) + 1), np.int64),
        shown=np.zeros((n_rows, n_slots), np.int64),
        probabilities=np.zeros((n_rows, n_slots)),
        outcomes=np.zeros((n_rows, n_levels, n_slots)),
        is_in_random_order=np.zeros(n_rows, np.bool_),
        order=new_page_order(problem),
        slots=np.arange(n_slots),
        views=np.full(n_slots, float(views)),
        exposure=np.full(n_slots, float(views)),
        first_value=first_value,
        delays=np.array(environment.delays, np.int64),
        delay_spread=environment.delay_spread,
        first_due=np.full((n_levels, n_rows), NONE),
        next_due=np.full((n_levels, n_rows), NONE),
        floors=np.array(floors),
        rates=np.array([floor.rate for floor in on_rates], np.float64),
        rate_levels=np.array([floor.level for floor in on_rates], np.int64),
        page=np.zeros(n_levels),
        totals=np.zeros((len(KINDS), n_kept)),
        checkpoints=checkpoints,
        record=np.zeros((len(KINDS), n_kept, len(checkpoints))),
        rules=simulated_rules(problem).for_page(None).rules if problem.rules else (),
        of_links=np.zeros((len(LINK_COUNTS), 0)),
    )


def simulated_rules(problem: Problem) -> RulesInForce:
    """Return the rules of a problem whose links are numbered from 0 on."""
    pool = LinkPool(range(problem.n_links))
    check_links(problem.rules, pool)
    return RulesInForce(problem.rules, pool, problem.n_slots)


@hot
def drawn_delay(delay: int, spread: float, rng: np.random.Generator) -> int:
    """Return after how many rounds a level of one page is known."""
    if spread == 0.0 or delay == 0:
        return delay
    return int(delay * (1.0 + spread * (2.0 * rng.random() - 1.0)) + 0.5)


class UnlawfulPage(Exception):
    """A policy chose probabilities that no page can have."""


@hot
def draw_checked(mix: Mix, rng: Any, shown: Links, probabilities: Floats) -> None:
    """Draw a page like `draw_page`, after checking its probabilities.

    Machine code does not check bounds: a page of too many links would be written beyond its array.
    """
    if not is_lawful(mix, len(shown)):
        raise UnlawfulPage
    draw_page(mix, rng, shown, probabilities)


@loop_maker
def _page_of(choose: Callable[..., None], draw: Callable[..., None]) -> Callable[..., None]:
    """Return a function that chooses a page and draws it."""

    def page(  # the loop gives `rules` to both kinds of page
        state: Any,
        rules: Any,  # noqa: ARG001
        visitor: Any,
        chance: Any,
        shown: Any,
        probabilities: Floats,
    ) -> None:
        choose(state, visitor, chance)
        draw(state.mix, chance, shown, probabilities)

    return page


@loop_maker
def _page_within(choose_within: Callable[..., None]) -> Callable[..., None]:
    """Return a function that chooses a page within rules and draws it."""

    def page(
        state: Any, rules: Any, visitor: Any, chance: Any, shown: Any, probabilities: Floats
    ) -> None:
        choose_within(state, visitor, chance, rules)
        draw_within(rules, chance, shown, probabilities)

    return page


@loop_maker
def playing(  # noqa: C901, PLR0915
    page: Callable[..., None],
    learn: Callable[..., None],
    rank: Callable[..., None],
    note_open: Callable[..., None],
    arrive: Callable[..., None],
    serve: Callable[..., None],
) -> Callable[..., None]:
    """Return the loop that plays the rounds of a policy in an environment."""

    def play(  # noqa: C901, PLR0915
        state: object,
        world: object,
        buffers: RunBuffers,
        first_round: int,
        visitors: np.random.Generator,
        chance: np.random.Generator,
    ) -> None:
        """Play the rounds up to the last checkpoint, writing totals there into `buffers.record`.

        Totals are per page view: where a round has many, they are means over its views.
        """
        n_rows, n_levels, _ = buffers.outcomes.shape
        per_view = 1.0 / buffers.views[0]
        slots_differ = len(buffers.order.weights) > 0
        totals = buffers.totals
        next_checkpoint = 0
        counts_links = buffers.of_links.shape[1] > 0
        for round_number in range(first_round, buffers.checkpoints[-1] + 1):
            row = round_number % n_rows
            shown = buffers.shown[row]
            outcomes = buffers.outcomes[row]
            visitor = buffers.visitors[row]
            arrive(world, round_number, visitors, visitor)
            known = visitor[: len(visitor) - 1]
            page(state, buffers.rules, known, chance, shown, buffers.probabilities[row])
            if slots_differ:
                rank(state, shown, buffers.order.worth)
                is_random = order_page(buffers.order, chance, shown, buffers.probabilities[row])
                buffers.is_in_random_order[row] = is_random
            for level in range(n_levels):
                if buffers.delays[level] > 0:
                    note_open(state, known, level, shown, buffers.views[0])
            serve(world, round_number, visitor, shown, visitors, outcomes)
            if counts_links:
                for link in shown:
                    buffers.of_links[SHOWN, link] += buffers.views[0]
            for level in range(n_levels):
                brought = per_view * total_of(outcomes[level])
                buffers.page[level] = brought
                totals[TOTAL, level] += brought
                if buffers.floors[level] > 0.0:
                    totals[VIOLATION, level] += max(0.0, buffers.floors[level] - brought)
                    deficit = buffers.floors[level] * round_number - totals[TOTAL, level]
                    totals[DEFICIT, level] = max(totals[DEFICIT, level], deficit)
            for feature in range(len(known)):
                row_of_value = buffers.first_value + (1 + n_levels) * known[feature]
                totals[TOTAL, row_of_value] += 1.0
                for level in range(n_levels):
                    totals[TOTAL, row_of_value + 1 + level] += buffers.page[level]
            for j in range(len(buffers.rates)):
                row_of_rate, level = n_levels + j, buffers.rate_levels[j]
                above = buffers.page[level] - buffers.rates[j] * buffers.page[level - 1]
                totals[TOTAL, row_of_rate] += above
                totals[VIOLATION, row_of_rate] += max(0.0, -above)
                deficit = max(totals[DEFICIT, row_of_rate], -totals[TOTAL, row_of_rate])
                totals[DEFICIT, row_of_rate] = deficit
            for level in range(n_levels):
                wait = drawn_delay(buffers.delays[level], buffers.delay_spread, visitors)
                due = (round_number + wait) % n_rows
                buffers.next_due[level, row] = buffers.first_due[level, due]
                buffers.first_due[level, due] = row
            for level in range(n_levels):
                old = buffers.first_due[level, row]
                buffers.first_due[level, row] = NONE
                while old != NONE:
                    row_of_view = buffers.visitors[old]
                    seen_by = row_of_view[: len(row_of_view) - 1]
                    if slots_differ:
                        if level == 0 and buffers.is_in_random_order[old]:
                            learn_slot_weights(buffers.order, buffers.outcomes[old, level])
                        expose(buffers.order, buffers.slots, buffers.views, buffers.exposure)
                    if buffers.delays[level] > 0:
                        note_open(state, seen_by, level, buffers.shown[old], -buffers.views[0])
                    if counts_links and level == 0:
                        for slot, link in enumerate(buffers.shown[old]):
                            buffers.of_links[SETTLED, link] += buffers.views[0]
                            buffers.of_links[CLICKED, link] += buffers.outcomes[old, level, slot]
                    learn(
                        state,
                        seen_by,
                        level,
                        LinkFeedback(
                            buffers.shown[old],
                            buffers.slots,
                            buffers.probabilities[old],
                            buffers.exposure,
                            buffers.outcomes[old, level],
                        ),
                    )
                    old = buffers.next_due[level, old]
            if round_number == buffers.checkpoints[next_checkpoint]:
                for kind in range(totals.shape[0]):
                    for kept in range(totals.shape[1]):
                        buffers.record[kind, kept, next_checkpoint] = totals[kind, kept]
                next_checkpoint += 1

    return play


def is_machine_code(policy: Policy, environment: Environment) -> bool:
    """Return whether the whole loop runs compiled for this policy and environment."""
    return all(can_be_compiled(function) for function in functions_of(policy, environment, False))


def functions_of(
    policy: Policy, environment: Environment, has_rules: bool
) -> tuple[Callable[..., None], ...]:
    """Return the functions that the loop calls, for `playing`."""
    kind = type(policy)
    draw = draw_page if is_own(kind.choose) else draw_checked
    page = _page_within(choosing_within(kind)) if has_rules else _page_of(kind.choose, draw)
    of_policy = (page, kind.learn, kind.rank, kind.note_open)
    return (*of_policy, environment.arriving, environment.serving)


def run_generator(seed: int, run: int, stream: int) -> np.random.Generator:
    """Return the generator of one stream of one run.

    >>> run_generator(1, 0, VISITORS).random() == run_generator(1, 0, VISITORS).random()
    True
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run, stream)))


def play_run(
    policy: Policy,
    environment: Environment,
    problem: Problem,
    checkpoints: Whole,
    seed: int,
    run: int,
    state: State | None = None,
) -> Floats:
    """Play one run; return totals, violations and deficits at the checkpoints, levels first.

    A `state` may know something already; it learns on. It must be of the policy for the problem.
    """
    buffers = new_buffers(problem, environment, checkpoints)
    play = player_of_run(policy, environment, problem, int(checkpoints[-1]), (seed, run), state)
    play(buffers, 1)
    return buffers.record


def player_of_run(
    policy: Policy,
    environment: Environment,
    problem: Problem,
    n_rounds: int,
    seed_and_run: tuple[int, int],
    state: State | None = None,
) -> Callable[[RunBuffers, int], None]:
    """Return a function that plays one run into its buffers, from a given round on.

    It ends at the last checkpoint of the buffers and can be called again from the next round on.
    """
    policy = policy.for_problem(problem)
    state = policy.start(problem) if state is None else state
    play = guarded_loop(policy, problem, functions_of(policy, environment, bool(problem.rules)))
    world = environment.world(n_rounds)
    streams = run_generator(*seed_and_run, VISITORS), run_generator(*seed_and_run, CHANCE)

    def play_rounds(buffers: RunBuffers, first_round: int) -> None:
        play(state, world, buffers, first_round, *streams)

    return play_rounds


def guarded_loop(
    policy: Policy, problem: Problem, functions: Sequence[Callable[..., None]]
) -> Callable[..., None]:
    """Return the loop of `playing` with these functions, with errors in the words of the policy."""
    play = compiled_first(playing(*functions))

    def play_rounds(state: State, world: object, buffers: RunBuffers, *rest: object) -> None:
        try:
            play(with_slot_weights(state, buffers.order), world, buffers, *rest)
        except UnlawfulPage:
            pass  # its page is in the state
        except NotCompilable as error:
            advice = "fix it, or leave out @compiled to run it as plain Python"
            message = f"the policy `{policy.name}`: {error}; {advice} (docs/write-a-policy.md)"
            raise InvalidInput(message) from error
        if not (is_own(policy.choose) or problem.rules):
            check_page(policy, state.mix, problem.n_slots)

    return play_rounds
