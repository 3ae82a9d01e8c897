"""Paced KL: narrow optimism, and a price for clicks that is paced by what the floor is owed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

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

HOPE = 4.0
"""Once views are counted, the imagined one brings this many times what a view brings on average."""

CLOCK_GRID, HOPE_GRID = 1.02, 1.25
"""Time and hope move in steps of 2 % and 25 %: only then are the bounds of all links set anew."""

ROUNDS, QUEUE, OWED, CLOCK, CLICKS, REVENUE = range(6)
KEPT = {"rounds": ROUNDS, "queue": QUEUE, "owed": OWED}


class Rule(NamedTuple):
    """The settings as numbers."""

    n_slots: int
    floor: float
    exploration: float
    patience: float


class PacedKLState(NamedTuple):
    """Counts, bounds and numbers.

    `numbers` are the rounds, the queue and the clicks owed; then those that the bounds were set
    with: the clock, and what an imagined view brings in clicks and revenue. `totals` has the
    views and outcomes of all links at the first level, then those at the last.
    """

    rule: Rule
    counts: Counts
    value: Floats
    clicks: Floats
    is_stale: NDArray[np.bool_]
    """Links whose counts have changed since their bounds were set."""
    numbers: Floats
    totals: Floats
    search: Search
    mix: Mix


@hot
def _on_grid(number: float, grid: float) -> float:
    """Return the largest power of `grid` up to a number."""
    return math.exp(math.floor(math.log(number) / math.log(grid) + 1e-9) * math.log(grid))


@hot
def _imagine(n_views: float, brought: float, prior: float) -> float:
    """Return what the imagined view brings when all links together had and brought so much."""
    return min(prior, _on_grid(HOPE * (brought + prior) / (n_views + 1.0), HOPE_GRID))


@hot
def _bound(state: PacedKLState, level: int, link: int, imagined: float) -> float:
    """Return the bound of one link at one level.

    Views that have not told yet what they brought take their part of the optimism with them:
    showing the link more often tells nothing sooner.
    """
    rule, counts = state.rule, state.counts
    n_views = counts.views[level, link] + 1.0
    n_shown = max(n_views, counts.views[0, link] + 1.0)
    share = state.numbers[CLOCK] * rule.n_slots / len(state.value)
    width = rule.exploration * max(0.0, math.log(share / n_shown)) * n_views / n_shown
    return kl_upper(counts.sums[level, link] + imagined, n_views, width)


@hot
def _wind_clock(state: PacedKLState) -> None:
    """Let all bounds be set anew when time or hope has moved on."""
    numbers, totals = state.numbers, state.totals
    clock = _on_grid(numbers[ROUNDS] + 1.0, CLOCK_GRID)
    clicks = _imagine(totals[0, 0], totals[0, 1], PRIOR_CLICKS)
    revenue = _imagine(totals[1, 0], totals[1, 1], PRIOR_REVENUE)
    if clock != numbers[CLOCK] or clicks != numbers[CLICKS] or revenue != numbers[REVENUE]:
        numbers[CLOCK], numbers[CLICKS], numbers[REVENUE] = clock, clicks, revenue
        state.is_stale[:] = True


@hot
def _set_bounds(state: PacedKLState) -> None:
    """Set the bounds of the links whose counts have changed."""
    last = len(state.counts.views) - 1
    for link in range(len(state.value)):
        if state.is_stale[link]:
            state.is_stale[link] = False
            state.clicks[link] = _bound(state, 0, link, state.numbers[CLICKS])
            state.value[link] = _bound(state, last, link, state.numbers[REVENUE])


@hot
def click_price(state: PacedKLState) -> float:
    """Return the price of a click: the queue over patience times the root of clicks promised."""
    numbers = state.numbers
    promised = state.rule.floor * (numbers[ROUNDS] + 1.0)
    return numbers[QUEUE] / (state.rule.patience * math.sqrt(promised)) if promised > 0.0 else 0.0


@hot
def choose(state: PacedKLState, rng: np.random.Generator) -> None:
    """Take the links with the largest bound of revenue plus priced bound of clicks."""
    _wind_clock(state)
    _set_bounds(state)
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
    """Count; with the clicks, move the price towards the floor."""
    rule, counts, numbers = state.rule, state.counts, state.numbers
    n_views = 0.0
    brought = 0.0
    for k in range(len(links)):
        link = links[k]
        counts.views[level, link] += views[k]
        counts.sums[level, link] += outcomes[k]
        n_views += views[k]
        brought += outcomes[k]
        state.is_stale[link] = True
    if level == 0:
        state.totals[0, 0] += n_views
        state.totals[0, 1] += brought
    if level == len(counts.views) - 1:
        state.totals[1, 0] += n_views
        state.totals[1, 1] += brought
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

        U(S, n) = max { q : n kl(S/n, q) <= c ln+(t L / (K N)) n / N },   one imagined view included
        shown   = the L largest  U_revenue + (Q / (v sqrt(floor t))) U_clicks
        Q      <- [Q + floor - clicks of the page + reserve / (2t)]+
        reserve = Q less the clicks owed so far, where positive

    The bound is that of MOSS (Audibert and Bubeck 2009) and KL-UCB++ (Menard and Garivier 2017)
    made anytime: a link that had its share t L / K of views is taken at its mean, so optimism
    goes to links with fewer views and none is wasted on those well known. c = `exploration`.
    Of N views of a link n have told what they brought; n = N unless feedback comes late. The
    imagined view brings four times what a view brings on average, so that rates of a thousandth are
    learned as soon as rates of a tenth.

    Q is the virtual queue of drift plus penalty: the shortfall never exceeds it. A plain queue
    pays for its price with clicks owed, because the price is Q over a growing root; here the
    part of Q that is not owed grows with that root by itself. The root is that of the clicks
    promised so far, by which their number varies whatever the policy does. v = `patience`:
    larger is smoother and slower to react.

    Needs no horizon and no tuning. No bound on regret is proven for the parts together; the
    leaderboard shows what it does. A round costs about five bare rounds.

    >>> from slotwise.problem import Problem
    >>> state = PacedKL().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedKL.choose(state, np.random.default_rng(1))
    >>> state.mix.chances[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 0.5
    patience: float = 1.0

    name: ClassVar[str] = "paced-kl"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    moves_each_round: ClassVar[bool] = True
    ordered_knowledge: ClassVar[frozenset[str]] = frozenset({"queue"})

    def __post_init__(self) -> None:
        for name in ("exploration", "patience"):
            if not 0 < getattr(self, name) < np.inf:
                raise InvalidInput.of(name, "a positive number", getattr(self, name))

    def start(self, problem: Problem) -> PacedKLState:
        """Return a state in which every link had its one imagined view."""
        require_click_floor_only(self.name, problem)
        return PacedKLState(
            rule=Rule(problem.n_slots, problem.click_floor, self.exploration, self.patience),
            counts=new_counts(problem),
            value=np.zeros(problem.n_links),
            clicks=np.zeros(problem.n_links),
            is_stale=np.ones(problem.n_links, np.bool_),
            numbers=np.zeros(6),
            totals=np.zeros((2, 2)),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )

    def knowledge(self, state: PacedKLState) -> Knowledge:
        """Return the counts, the number of rounds, the queue and the clicks owed."""
        numbers = {name: state.numbers[[place]] for name, place in KEPT.items()}
        return {**super().knowledge(state), **numbers}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> Any:
        """Return a state that has seen these counts, with this queue."""
        state: Any = super().restore(problem, knowledge)
        for name, place in KEPT.items():
            state.numbers[place] = knowledge[name][0]
        for total, level in enumerate((0, -1)):
            state.totals[total] = state.counts.views[level].sum(), state.counts.sums[level].sum()
        return state
