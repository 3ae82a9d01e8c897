"""Con-TS: the floor program on a draw from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.policies.checks import check_prior, require_click_floor_only
from slotwise.policies.contract import Floats, Links, Visitor
from slotwise.policies.deficit import (
    Deficit,
    DeficitPolicy,
    clicks_wanted,
    new_deficit,
    note_clicks,
)
from slotwise.policies.evidence import Evidence, check_memory, new_evidence
from slotwise.policies.posterior import N_CHANGED, Posterior, draw_reachable
from slotwise.policies.sampling import (
    Sampling,
    count_links,
    draw_first,
    follow_evidence,
    look_again,
    new_sampling,
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
from slotwise.selection.top_page import top_page

__all__ = ["ConTS"]


class ConTSState(NamedTuple):
    """Evidence, its posteriors, and the floor program on their means, kept warm.

    `level_worth` says what a unit of each level is worth at the price tried last, `price_step`
    how far the price of a page lies from that of the means, on average.
    """

    n_slots: int
    evidence: Evidence
    deficit: Deficit
    sampling: Sampling
    average: Program
    level_worth: Floats
    price_step: Floats
    mix: Mix


@hot
def _follow_means(program: Program, posterior: Posterior) -> None:
    """Give the average program the means of the links that changed."""
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
def _weigh_levels(worth: Floats, value_weight: float, click_weight: float) -> None:
    """Write what a unit of each level is worth at these weights."""
    worth[len(worth) - 1] = value_weight
    worth[0] = click_weight if len(worth) > 1 else value_weight + click_weight


@hot
def choose(state: ConTSState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Solve the floor program on a draw of the links that can matter.

    The links that are best at the average program's price are drawn first. At the price found
    among the links drawn so far, a link that may be worth as much as the last link shown is
    drawn too, and the program solved again, until there is none: then the dual says that no
    draw the others may still have could change the page.
    """
    n_slots, worth, search = state.n_slots, state.level_worth, state.sampling.search
    posterior = state.sampling.posterior
    follow_evidence(state.sampling, state.evidence)
    _follow_means(state.average, posterior)
    floor = clicks_wanted(state.deficit)
    solve_program(state.average, n_slots, floor)
    guess, value_weight, click_weight = 0.0, 0.0, 1.0
    if program_status(state.average) != INFEASIBLE:
        guess = program_price(state.average)
        value_weight, click_weight = 1.0, guess
    _weigh_levels(worth, value_weight, click_weight)
    n_drawn = draw_first(state.sampling, worth, n_slots, rng)
    value, clicks = posterior.compound[len(posterior.cap) - 1], posterior.compound[0]
    top_page(value, clicks, n_drawn, n_slots, value_weight, click_weight, search)
    n_drawn = draw_reachable(posterior, worth, search.first[n_slots - 1], rng)
    n_before = 0
    step = state.price_step[0]
    slackness = floor_slackness(floor)
    price = Price(INFEASIBLE, 0.0, 1.0, 0.0, 0.0)
    while n_drawn > n_before:
        price = search_price(value, clicks, n_drawn, n_slots, floor, slackness, guess, step, search)
        _weigh_levels(worth, price.value_weight, price.click_weight)
        least = price.threshold - 1e-9 * (1.0 + price.click_weight)
        guess = price.click_weight * price.value_weight
        step = 1e-3 * guess
        n_before = n_drawn
        n_drawn = draw_reachable(posterior, worth, least, rng)
    if guess > 0.0:
        miss = abs(guess - program_price(state.average))
        state.price_step[0] += 0.1 * (min(miss, guess) - state.price_step[0])
    state.mix.sizes[:] = 0
    share_slots(clicks, posterior.candidates, n_slots, floor, price, search, state.mix)


@hot
def learn(
    state: ConTSState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count; the posteriors of the links counted move before the next page."""
    if level == 0:
        note_clicks(state.deficit, views, outcomes)
    count_links(state.evidence, state.sampling, level, links, views, outcomes)


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

    >>> from slotwise.policies import NOBODY, NO_SLOTS
    >>> from slotwise.problem import Problem
    >>> state = ConTS().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> ConTS.learn(state, NOBODY, 0, np.array([2]), NO_SLOTS,
    ...             np.ones(1), np.full(1, 8.0), np.full(1, 2.0))
    >>> ConTS.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.sampling.posterior.hits[0].tolist(), state.sampling.posterior.misses[0].tolist()
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
        check_memory(self.memory)

    def start(self, problem: Problem) -> ConTSState:
        """Return posteriors that are the prior."""
        require_click_floor_only(self.name, problem)
        unknown = np.full(problem.n_links, 0.5)
        return ConTSState(
            n_slots=problem.n_slots,
            evidence=new_evidence(problem, self.memory),
            deficit=new_deficit(problem, self.deficit_feedback, problem.horizon),
            sampling=new_sampling(problem, self.prior),
            average=new_program(unknown, unknown),
            level_worth=np.zeros(problem.n_levels),
            price_step=np.full(1, 0.01),
            mix=new_mix(problem.n_links),
        )
