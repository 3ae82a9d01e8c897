"""Con-TS: the floor program on a draw from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_prior
from slotwise.policies.contract import Floats, Links, require_click_floor_only
from slotwise.policies.deficit import (
    Deficit,
    DeficitPolicy,
    clicks_wanted,
    new_deficit,
    note_clicks,
)
from slotwise.policies.evidence import (
    Evidence,
    add_views,
    check_memory,
    count_rounds,
    is_time_to_look_again,
    new_evidence,
)
from slotwise.policies.pool_prior import PoolPrior, new_pool_prior
from slotwise.policies.posterior import (
    N_CHANGED,
    Posterior,
    draw_links,
    draw_reachable,
    mean_worth,
    new_posterior,
    note_change,
    start_draw,
)
from slotwise.policies.sampling import (
    change_all,
    follow_evidence,
    forget_changes,
    worth_of_first_draws,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.floor_program import (
    Program,
    new_program,
    program_price,
    program_status,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.price_search import INFEASIBLE, Price, floor_slackness, search_price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import Search, new_search, top_page

__all__ = ["ConTS"]


class ConTSState(NamedTuple):
    """Evidence, its posteriors, and the floor program on their means, kept warm.

    `level_worth` says what a unit of each level is worth at the price tried last.
    """

    n_slots: int
    evidence: Evidence
    deficit: Deficit
    pool: PoolPrior
    posterior: Posterior
    average: Program
    level_worth: Floats
    price_step: Floats
    average_search: Search
    search: Search
    mix: Mix


@hot
def _follow_means(state: ConTSState) -> None:
    """Give the average program the means of the links that changed."""
    posterior, program = state.posterior, state.average
    n_levels = len(posterior.cap)
    for k in range(posterior.sizes[N_CHANGED]):
        link = posterior.changed[k]
        passed = 1.0
        for level in range(n_levels):
            hits = posterior.hits[level, link]
            passed *= hits / (hits + posterior.misses[level, link])
            if level == 0:
                set_clicks(program, link, passed)
        set_value(program, link, passed)


@hot
def _weigh_levels(state: ConTSState, value_weight: float, click_weight: float) -> None:
    """Write what a unit of each level is worth at these weights."""
    worth = state.level_worth
    worth[len(worth) - 1] = value_weight
    worth[0] = click_weight if len(worth) > 1 else value_weight + click_weight


@hot
def choose(state: ConTSState, rng: np.random.Generator) -> None:
    """Solve the floor program on a draw of the links that can matter.

    The links that are best at the average program's price are drawn first. At the price found
    among the links drawn so far, a link that may be worth as much as the last link shown is
    drawn too, and the program solved again, until there is none: then the dual says that no
    draw the others may still have could change the page.
    """
    posterior, n_slots, search = state.posterior, state.n_slots, state.search
    follow_evidence(posterior, state.evidence, state.pool)
    _follow_means(state)
    forget_changes(posterior)
    floor = clicks_wanted(state.deficit)
    solve_program(state.average, n_slots, floor)
    start_draw(posterior, rng)
    guess, value_weight, click_weight = 0.0, 0.0, 1.0
    if program_status(state.average) != INFEASIBLE:
        guess = program_price(state.average)
        value_weight, click_weight = 1.0, guess
    _weigh_levels(state, value_weight, click_weight)
    mean_worth(posterior, state.level_worth)
    least = worth_of_first_draws(posterior, n_slots, state.average_search)
    n_drawn = draw_links(posterior, least, rng)
    value, clicks = posterior.compound[len(posterior.cap) - 1], posterior.compound[0]
    top_page(value, clicks, n_drawn, n_slots, value_weight, click_weight, search)
    n_drawn = draw_reachable(posterior, state.level_worth, search.first[n_slots - 1], rng)
    n_before = 0
    step = state.price_step[0]
    slackness = floor_slackness(floor)
    price = Price(INFEASIBLE, 0.0, 1.0, 0.0, 0.0)
    while n_drawn > n_before:
        price = search_price(value, clicks, n_drawn, n_slots, floor, slackness, guess, step, search)
        _weigh_levels(state, price.value_weight, price.click_weight)
        least = price.threshold - 1e-9 * (1.0 + price.click_weight)
        guess = price.click_weight * price.value_weight
        step = 1e-3 * guess
        n_before = n_drawn
        n_drawn = draw_reachable(posterior, state.level_worth, least, rng)
    if guess > 0.0:
        miss = abs(guess - program_price(state.average))
        state.price_step[0] += 0.1 * (min(miss, guess) - state.price_step[0])
    state.mix.sizes[:] = 0
    share_slots(clicks, posterior.candidates, n_slots, floor, price, search, state.mix)


@hot
def look_again(state: ConTSState) -> None:
    """Work out every posterior anew before the next page."""
    change_all(state.posterior)


@hot
def learn(
    state: ConTSState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count; the posteriors of the links counted move before the next page."""
    evidence = state.evidence
    if level == 0:
        note_clicks(state.deficit, views, outcomes)
    count_rounds(evidence, level, views)
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])
        note_change(state.posterior, links[k])
    if is_time_to_look_again(evidence, level):
        change_all(state.posterior)


@dataclass(frozen=True)
class ConTS(DeficitPolicy):
    """Con-TS: posterior sampling with the floor program.

        a ~ Beta(p + clicks, q + views - clicks),   b ~ Beta(r + revenue, s + clicks - revenue)
        x = floor program on (a b, a, floor)

    Draws are coherent: revenue never exceeds clicks; n levels draw one conditional rate each.
    Outcomes inside (0, 1) add their value to the one and the rest to the other count, which
    keeps the mean and makes the posterior no narrower than that of clicks.

    It needs no horizon and loses far less revenue than bounds that hold with certainty, but no
    bound keeps its floor: half of the draws are too hopeful about clicks, and the program picks
    those. `deficit_feedback` makes up for it; Queue-TS keeps the floor by itself.
    `prior="fitted"` learns from the pool what an unknown link is like (see
    `slotwise.policies.pool_prior`). `memory`, in rounds, lets counts fade where rates drift.
    Pages are drawn exactly as if every link were sampled; links that cannot matter are not (see
    `slotwise.policies.posterior`).

    >>> from slotwise.problem import Problem
    >>> state = ConTS().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> ConTS.learn(state, 0, np.array([2]), np.ones(1), np.full(1, 8.0), np.full(1, 2.0))
    >>> ConTS.choose(state, np.random.default_rng(1))
    >>> state.posterior.hits[0].tolist(), state.posterior.misses[0].tolist()
    ([1.0, 1.0, 3.0, 1.0], [1.0, 1.0, 7.0, 1.0])
    """

    prior: str = "uniform"
    deficit_feedback: bool = False
    memory: int | None = None

    name: ClassVar[str] = "con-ts"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    look_again: ClassVar[Any] = staticmethod(look_again)
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_prior(self.prior)
        check_memory(self, self.memory)

    def start(self, problem: Problem) -> ConTSState:
        """Return posteriors that are the prior."""
        require_click_floor_only(self.name, problem)
        unknown = np.full(problem.n_links, 0.5)
        return ConTSState(
            n_slots=problem.n_slots,
            evidence=new_evidence(problem, self.memory),
            deficit=new_deficit(problem, self.deficit_feedback, problem.horizon),
            pool=new_pool_prior(problem, self.prior),
            posterior=new_posterior(problem),
            average=new_program(unknown, unknown),
            level_worth=np.zeros(problem.n_levels),
            price_step=np.full(1, 0.01),
            average_search=new_search(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
