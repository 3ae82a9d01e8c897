"""The floor program on one draw from posteriors, of as few links as can matter.

The program on the posterior means is kept warm beside it: its price says which links to draw
first, and where to start the search for the price of the draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.policies.contract import Floats
from slotwise.policies.knowledge.posterior import N_CHANGED, Posterior, draw_reachable
from slotwise.policies.knowledge.sampling import Sampling, draw_first
from slotwise.problem import Problem
from slotwise.selection.compiled import inner
from slotwise.selection.floor_program import (
    Program,
    new_program,
    program_price,
    program_status,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.mix import Mix
from slotwise.selection.price_search import INFEASIBLE, Price, floor_slackness, search_price
from slotwise.selection.share_slots import share_slots
from slotwise.selection.top_page import top_page

__all__ = ["DrawnProgram", "new_drawn_program", "solve_draw"]


class DrawnProgram(NamedTuple):
    """The program on the means, and the starting point of the search for the price of a draw.

    `level_worth` says what a unit of each level is worth at the price tried last, `price_step`
    how far the price of a page lies from that of the means, on average.
    """

    average: Program
    level_worth: Floats
    price_step: Floats


def new_drawn_program(problem: Problem) -> DrawnProgram:
    """Return the program of a pool of which nothing is known."""
    unknown = np.full(problem.n_links, 0.5)
    return DrawnProgram(
        average=new_program(unknown, unknown),
        level_worth=np.zeros(problem.n_levels),
        price_step=np.full(1, 0.01),
    )


@inner
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


@inner
def _weigh_levels(worth: Floats, value_weight: float, click_weight: float) -> None:
    """Write what a unit of each level is worth at these weights."""
    worth[len(worth) - 1] = value_weight
    worth[0] = click_weight if len(worth) > 1 else value_weight + click_weight


@inner
def solve_draw(
    program: DrawnProgram,
    sampling: Sampling,
    n_slots: int,
    floor: float,
    rng: np.random.Generator,
    mix: Mix,
) -> None:
    """Write the best mix of a draw into `mix`; changed posteriors must have been computed.

    The links that are best at the average program's price are drawn first. At the price found
    among the links drawn so far, a link that may be worth as much as the last link shown is
    drawn too, and the program solved again, until there is none: then the dual says that no
    draw the others may still have could change the page.
    """
    worth, search, posterior = program.level_worth, sampling.search, sampling.posterior
    average = program.average
    _follow_means(average, posterior)
    solve_program(average, n_slots, floor)
    guess, value_weight, click_weight = 0.0, 0.0, 1.0
    if program_status(average) != INFEASIBLE:
        guess = program_price(average)
        value_weight, click_weight = 1.0, guess
    _weigh_levels(worth, value_weight, click_weight)
    n_drawn = draw_first(sampling, worth, n_slots, rng)
    value, clicks = posterior.compound[len(posterior.cap) - 1], posterior.compound[0]
    top_page(value, clicks, n_drawn, n_slots, value_weight, click_weight, search)
    n_drawn = draw_reachable(posterior, worth, search.first[n_slots - 1], rng)
    n_before = 0
    step = program.price_step[0]
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
        miss = abs(guess - program_price(average))
        program.price_step[0] += 0.1 * (min(miss, guess) - program.price_step[0])
    mix.sizes[:] = 0
    share_slots(clicks, posterior.candidates, n_slots, floor, price, search, mix)
