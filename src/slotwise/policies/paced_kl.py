"""Paced KL: narrow optimism, and a price for clicks that is paced by what the floor is owed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.policies.contract import Floats, Knowledge, Links, require_click_floor_only
from slotwise.policies.counts import CountingPolicy, Counts, new_counts
from slotwise.problem import Problem
from slotwise.selection.compiled import hot
from slotwise.selection.confidence import kl_upper
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.top_links import take_top_links
from slotwise.selection.top_page import Search, new_search

__all__ = ["PacedKL"]

PRIOR_REVENUE, PRIOR_CLICKS = 0.25, 0.5
"""One imagined view of every link brings so much: a coin for the click, another for the sale."""

GRID = 1.02
"""The clock of the bounds moves in steps of 2 %: then those of all links are computed anew."""

ROUNDS, CLOCK, QUEUE, OWED = range(4)
KEPT = {"rounds": ROUNDS, "queue": QUEUE, "owed": OWED}


class Rule(NamedTuple):
    """The settings as numbers."""

    n_slots: int
    floor: float
    exploration: float
    patience: float


class PacedKLState(NamedTuple):
    """Counts, both bounds of every link, and four numbers: rounds, clock, queue, clicks owed."""

    rule: Rule
    counts: Counts
    value: Floats
    clicks: Floats
    numbers: Floats
    search: Search
    mix: Mix


@hot
def _clock(n_rounds: float) -> float:
    """Return the time of the bounds: the last step of the grid before the round to come."""
    return math.exp(math.floor(math.log(n_rounds + 1.0) / math.log(GRID) + 1e-9) * math.log(GRID))


@hot
def _bound(state: PacedKLState, level: int, link: int, imagined: float) -> float:
    rule, counts = state.rule, state.counts
    n_views = counts.views[level, link] + 1.0
    share = state.numbers[CLOCK] * rule.n_slots / len(state.value)
    width = rule.exploration * max(0.0, math.log(share / n_views))
    return kl_upper(counts.sums[level, link] + imagined, n_views, width)


@hot
def _set_bound(state: PacedKLState, level: int, link: int) -> None:
    if level == len(state.counts.views) - 1:
        state.value[link] = _bound(state, level, link, PRIOR_REVENUE)
    if level == 0:
        state.clicks[link] = _bound(state, level, link, PRIOR_CLICKS)


@hot
def _wind_clock(state: PacedKLState) -> None:
    """Compute all bounds anew when the clock has moved on."""
    clock = _clock(state.numbers[ROUNDS])
    if clock != state.numbers[CLOCK]:
        state.numbers[CLOCK] = clock
        for link in range(len(state.value)):
            _set_bound(state, 0, link)
            _set_bound(state, len(state.counts.views) - 1, link)


@hot
def click_price(state: PacedKLState) -> float:
    """Return the price of a click: the queue over patience * sqrt(t)."""
    numbers = state.numbers
    return numbers[QUEUE] / (state.rule.patience * math.sqrt(numbers[ROUNDS] + 1.0))


@hot
def choose(state: PacedKLState, rng: np.random.Generator) -> None:
    """Take the links with the largest bound of revenue plus priced bound of clicks."""
    _wind_clock(state)
    price = click_price(state)
    take_top_links(state.value, state.clicks, price, state.rule.n_slots, state.search, state.mix)


@hot
def learn(
    state: PacedKLState,
    level: int,
    links: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count and move the bounds; with the clicks, move the price towards the floor."""
    rule, counts, numbers = state.rule, state.counts, state.numbers
    n_views = 0.0
    brought = 0.0
    for k in range(len(links)):
        link = links[k]
        counts.views[level, link] += views[k]
        counts.sums[level, link] += outcomes[k]
        n_views += views[k]
        brought += outcomes[k]
        _set_bound(state, level, link)
    if level == 0 and n_views > 0.0:
        n_pages = n_views / rule.n_slots
        missing = rule.floor * n_pages - brought
        numbers[ROUNDS] += n_pages
        numbers[OWED] += missing
        reserve = max(0.0, numbers[QUEUE] - max(0.0, numbers[OWED]))
        growth = min(0.5, 0.5 * n_pages / numbers[ROUNDS]) * reserve
        numbers[QUEUE] = max(0.0, numbers[QUEUE] + missing + growth)


@dataclass(frozen=True)
class PacedKL(CountingPolicy):
    """Paced KL: show the best links at a price for clicks that follows what the floor is owed.

        U(S, n) = max { q : n kl(S/n, q) <= c ln+(t L / (K n)) },     one imagined view included
        shown   = the L largest  U_revenue + (Q / (v sqrt(t))) U_clicks
        Q      <- [Q + floor - clicks of the page + reserve / (2t)]+
        reserve = Q less the clicks owed so far, where positive

    The bound is that of MOSS (Audibert and Bubeck 2009) and KL-UCB++ (Menard and Garivier 2017)
    made anytime: a link that had its share t L / K of views is taken at its mean, so optimism
    goes to links with fewer views and none is wasted on those well known. c = `exploration`.

    Q is the virtual queue of drift plus penalty: the shortfall never exceeds it. A plain queue
    pays for its price with clicks owed, because the price is Q over a growing root; here the
    part of Q that is not owed grows with that root by itself. v = `patience`: larger is smoother
    and slower to react.

    Needs no horizon and no tuning. No bound on regret is proven for the parts together; the
    leaderboard shows what it does. A round costs about five bare rounds.

    >>> from slotwise.problem import Problem
    >>> state = PacedKL().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedKL.choose(state, np.random.default_rng(1))
    >>> state.mix.chances[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 0.5
    patience: float = 4.0

    name: ClassVar[str] = "paced-kl"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    ordered_knowledge: ClassVar[frozenset[str]] = frozenset({"queue"})

    def __post_init__(self) -> None:
        for name in ("exploration", "patience"):
            if not 0 < getattr(self, name) < np.inf:
                raise InvalidInput.of(name, "a positive number", getattr(self, name))

    def start(self, problem: Problem) -> PacedKLState:
        """Return a state in which every link had its one imagined view."""
        require_click_floor_only(self.name, problem)
        state = PacedKLState(
            rule=Rule(problem.n_slots, problem.click_floor, self.exploration, self.patience),
            counts=new_counts(problem),
            value=np.zeros(problem.n_links),
            clicks=np.zeros(problem.n_links),
            numbers=np.zeros(4),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
        _wind_clock(state)
        return state

    def knowledge(self, state: PacedKLState) -> Knowledge:
        """Return the counts, the number of rounds, the queue and the clicks owed."""
        numbers = {name: state.numbers[[place]] for name, place in KEPT.items()}
        return {**super().knowledge(state), **numbers}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> Any:
        """Return a state that has seen these counts, with this queue."""
        state: Any = super().restore(problem, knowledge)
        for name, place in KEPT.items():
            state.numbers[place] = knowledge[name][0]
        state.numbers[CLOCK] = 0.0
        _wind_clock(state)
        return state
