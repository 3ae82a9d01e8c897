"""The price of a floor: the price at the posterior means, corrected by the clicks received.

    price    = b0 [expected + s Q / (v sqrt(floor t))]+,   b0 the pool's revenue per click s
    = max(1, sqrt(expected)) expected = the price of the floor program on the posterior means, in
    b0, at most 20 Q        = owed + reserve owed    <- max(owed + floor - clicks of the page, -4
    sqrt(floor t)) reserve <- [reserve +- sqrt(floor / t) / 4]+,   + while something is owed, -
    otherwise

The first part is steady and correct in the long run; the second corrects its errors, for example
while the page explores. Clicks vary by sqrt(floor t) under any policy, so that is the scale of Q: a
surplus, too, lowers the price until it is used up. A surplus is limited to four standard
deviations, so that a floor that was slack for a long time is kept from the first page views in
which it binds again. The reserve ends a debt that lasts because `expected` is too low; sqrt(floor /
t) / 4 per page adds up to half a standard deviation. The more a click costs, the more the price
must move to get another one, so s grows with the expected price; with its root, since the price
oscillates if s is proportional to it.

The cap on `expected` is for pools with too few observations to reach the floor at all. At twenty
times the revenue of a click, clicks are nearly all that counts; a lasting debt raises the price
further. Used by `paced_bayes`, `paced_bayes_visitors`, `queue_ts` and `visitor_pages`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, inner
from slotwise.policies.evidence import EvidencePolicy, WithMemory
from slotwise.policies.policy import Feedback, Floats, Knowledge, Links, State, Visitor
from slotwise.problem import Problem
from slotwise.selection.page_search import Entries, Objective, Search
from slotwise.selection.passes import total_of
from slotwise.selection.top_page import top_page

#     Q <- [Q + h pages - outcomes]+          as page views settle
#     score of a link = reward + (Q / V) * its outcome of the floor's level
#
# A queue grows while pages fall short of the floor and shrinks while they exceed it, so by
# induction the shortfall so far never exceeds it. Q / V estimates the floor's shadow price, with V
# = sqrt(T), or the root of the rounds settled so far without a horizon.
#
# A *paced* queue (`patience` above 0) uses V = patience sqrt(h t), the root of the clicks promised
# so far, and its reserve, the part of Q that is not owed, grows with that root:
#
#     Q <- [Q + h pages - outcomes + growth]+
#     growth = reserve / (2t) + sqrt(h / t) / 4 while something is owed,   reserve = [Q - owed+]+
#
# The second term is for a floor that is expensive from the first round on. Its queue must reach
# price * V, and without a reserve only debt makes it longer: the page would owe price * V for
# ever. The term adds up to V / 2, so that a price of up to a half is reached without debt.
#
# Pages are settled views over slots, so batches are counted correctly, and late feedback moves the
# queue when it settles. A batch of good and bad pages is one step: the order of rounds matters to a
# queue, since it discards a surplus.
#
# A floor on the part of one level that reaches the next, C^j - rate C^(j-1), owes `rate` of the
# outcomes of the level before until its own level has settled.


DEBT_GROWTH = 0.25
"""How fast a paced queue grows while something is owed, in sqrt(floor / rounds) a page."""


class Queues(NamedTuple):
    """One queue per floor, and the value of a unit of each level that results from them.

    Floor f requires `least[f]` of level `levels[f]` per page, less `rates[f]` of the level before.
    `owed` is the total shortfall of all settled pages. `root_horizon` is zero if the horizon is not
    known, `patience` if the queues are not paced.
    """

    lengths: Floats
    owed: Floats
    levels: Links
    least: Floats
    rates: Floats
    rewards: Floats
    worth: Floats
    n_slots: int
    root_horizon: float
    patience: float


def new_queues(problem: Problem, horizon: int | None = None, patience: float = 0.0) -> Queues:
    """Return empty queues, one for each floor above 0."""
    floors = problem.active_floors
    return Queues(
        lengths=np.zeros(len(floors)),
        owed=np.zeros(len(floors)),
        levels=np.array([floor.level for floor in floors], np.int64),
        least=np.array([floor.least for floor in floors], np.float64),
        rates=np.array([floor.rate for floor in floors], np.float64),
        rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        worth=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
        root_horizon=math.sqrt(horizon) if horizon else 0.0,
        patience=patience,
    )


@inner
def paced_length(
    queues: Queues, floor: int, missing: float, n_pages: float, rounds: float
) -> float:
    """Return the length of a paced queue after `n_pages` of `rounds` pages lacked `missing`."""
    length = queues.lengths[floor]
    queues.owed[floor] += missing
    reserve = max(0.0, length - max(0.0, queues.owed[floor]))
    growth = min(0.5, 0.5 * n_pages / rounds) * reserve
    if queues.owed[floor] > 0.0:
        growth += DEBT_GROWTH * math.sqrt(queues.least[floor] / rounds) * n_pages
    return max(0.0, length + missing + growth)


@inner
def queue_outcomes(
    queues: Queues, level: int, views: Floats, outcomes: Floats, rounds: Floats
) -> None:
    """Add what page views owe to the queues of a level and subtract their outcomes.

    `rounds` are those settled at each level, the present ones included.
    """
    if len(queues.lengths) == 0:
        return
    pages, brought = total_of(views) / queues.n_slots, total_of(outcomes)
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            if queues.patience == 0.0:
                owed = queues.lengths[floor] + queues.least[floor] * pages - brought
                queues.lengths[floor] = max(0.0, owed)
            elif pages > 0.0 or brought > 0.0:
                missing = queues.least[floor] * pages - brought
                queues.lengths[floor] = paced_length(queues, floor, missing, pages, rounds[level])
        elif queues.levels[floor] == level + 1:
            queues.lengths[floor] += queues.rates[floor] * brought


@inner
def price_levels(queues: Queues, rounds: Floats, coming: Floats) -> None:
    """Compute the value of a unit of each level: its reward and the prices of its queues.

    `coming` is the expected change of each queue by open pages; it may be negative.
    """
    root = queues.root_horizon if queues.root_horizon > 0.0 else math.sqrt(max(1.0, rounds[0]))
    for level in range(len(queues.worth)):
        queues.worth[level] = queues.rewards[level]
    for floor in range(len(queues.lengths)):
        level = queues.levels[floor]
        price = max(0.0, queues.lengths[floor] + coming[floor]) / root
        queues.worth[level] += price
        if queues.rates[floor] > 0.0:
            queues.worth[level - 1] -= queues.rates[floor] * price


class QueuePolicy(EvidencePolicy):
    """A policy whose state has `evidence` and `queues`; the queues are part of its knowledge.

    `knowledge(state)["queue"]` is what the page owes, in clicks for the click floor: the shortfall
    never exceeds it.
    """

    needs: ClassVar[Any] = Feedback.COUNTS_IN_ORDER
    ordered_knowledge: ClassVar[Any] = WithMemory(
        frozenset({"queue"}), EvidencePolicy.per_link | {"queue"}
    )
    moves_each_round: ClassVar[bool] = True

    def knowledge(self, state: Any) -> Knowledge:
        """Return the evidence and the queues."""
        known = {**super().knowledge(state), "queue": state.queues.lengths.copy()}
        if state.queues.patience > 0.0:
            known["owed"] = state.queues.owed.copy()
        return known

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Restore the queues of `state`."""
        state.queues.lengths[:] = knowledge["queue"]
        if state.queues.patience > 0.0:
            state.queues.owed[:] = knowledge["owed"]

    def move(self, state: Any, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool; a floor that stays keeps its queue."""
        before = state.queues
        place = {
            floor: k for k, floor in enumerate(zip(before.levels, before.rates > 0.0, strict=True))
        }
        floors = [place.get((floor.level, floor.rate > 0.0)) for floor in problem.active_floors]
        if floors == list(range(len(before.lengths))):
            return super().move(state, problem, kept)
        after = new_queues(problem, patience=before.patience)
        for new, old in enumerate(floors):
            if old is not None:
                after.lengths[new], after.owed[new] = before.lengths[old], before.owed[old]
        return super().move(state._replace(queues=after), problem, kept)


MAX_EXPECTED = 20.0
"""The largest expected price, in units of the mean revenue of an outcome of the floor's level."""

MAX_STEPS = 100
"""More steps than the search for a price needs."""

MAX_CREDIT = 4.0
"""The largest surplus, in roots of the clicks promised so far."""


@inner
def correct_queues(
    queues: Queues, level: int, views: Floats, outcomes: Floats, rounds: Floats
) -> None:
    """Add page views to the queues of a level; a negative queue is a surplus.

    `rounds` are those settled at each level, the present ones included.
    """
    n_views = brought = 0.0
    for k in range(len(views)):
        n_views += views[k]
        brought += outcomes[k]
    pages = n_views / queues.n_slots
    if pages == 0.0:
        return
    for floor in range(len(queues.lengths)):
        if queues.levels[floor] == level:
            least = queues.least[floor]
            reserve = queues.lengths[floor] - queues.owed[floor]
            owed = queues.owed[floor] + least * pages - brought
            owed = max(owed, -MAX_CREDIT * math.sqrt(least * rounds[level]))
            step = DEBT_GROWTH * math.sqrt(least / rounds[level]) * pages
            reserve = max(0.0, reserve + (step if owed > 0.0 else -step))
            queues.owed[floor] = owed
            queues.lengths[floor] = owed + reserve


@inner
def priced(queues: Queues, floor: int, expected: float, rounds: Floats, open_debt: float) -> float:
    """Return the price of a floor in units of the revenue of an outcome of its level.

    `open_debt` is the expected debt of open pages: without it the price would rise while their
    clicks are pending, and overshoot when they arrive.
    """
    promised = queues.least[floor] * (rounds[queues.levels[floor]] + 1.0)
    correction = (queues.lengths[floor] + open_debt) / (queues.patience * math.sqrt(promised))
    return max(0.0, expected + max(1.0, math.sqrt(expected)) * correction)


@inner
def expect_price(
    value: Floats, brought: Floats, n_slots: int, least: float, most: float, search: Search
) -> float:
    """Return the price at which the best pages just reach `least`, at most `most`.

    `value` is each link's value without this floor, `brought` its contribution to it. The search is
    that of `slotwise.selection.price_search` without ties: a page with too little and one with
    enough are two lines, and the next price is where they intersect.
    """
    entries = Entries(value, brought, len(value))
    few_value, few = top_page(entries, n_slots, Objective(1.0, 0.0), search)
    if few >= least:
        return 0.0
    many_value, many = top_page(entries, n_slots, Objective(1.0, most), search)
    if many < least:
        return most
    price = most
    for _ in range(MAX_STEPS):
        price = (few_value - many_value) / (many - few)
        page_value, page = top_page(entries, n_slots, Objective(1.0, price), search)
        gain = page_value + price * page - few_value - price * few
        if gain <= 1e-12 * few_value:
            break
        if page >= least:
            many_value, many = page_value, page
        else:
            few_value, few = page_value, page
    return min(price, most)


#     Q_s <- the paced queue above, over page views of visitors of segment s
#     price of a click for visitor x = price of the floor for all + sum of prices of x's segments
#
# A floor on the average page view may leave a small segment without clicks; its own floor cannot be
# met by clicks of other visitors.


OF_SEGMENTS = ("segment_queue", "segment_owed", "segment_rounds")
"""Names of the saved state of the floors of segments."""


class SegmentFloors(NamedTuple):
    """A queue for each floor, the feature value it belongs to, and that value's settled pages."""

    queues: Queues
    places: Links
    rounds: Floats


def new_segment_floors(problem: Problem, patience: float) -> SegmentFloors:
    """Return empty queues, one for each floor of a segment."""
    floors = problem.segment_floor_places
    queues = new_queues(problem, patience=patience)._replace(
        lengths=np.zeros(len(floors)),
        owed=np.zeros(len(floors)),
        levels=np.zeros(len(floors), np.int64),
        least=np.array([least for _, least in floors], np.float64),
        rates=np.zeros(len(floors)),
    )
    places = np.array([place for place, _ in floors], np.int64)
    return SegmentFloors(queues, places, np.zeros(len(floors)))


def segment_knowledge(floors: SegmentFloors) -> dict[str, Floats]:
    """Return the state of the floors, by the names under which it is saved."""
    arrays = (floors.queues.lengths, floors.queues.owed, floors.rounds)
    return dict(zip(OF_SEGMENTS, arrays, strict=True))


def moved_segment_floors(before: SegmentFloors, problem: Problem, patience: float) -> SegmentFloors:
    """Return the queues of a changed problem; a value that still has a floor keeps its queue."""
    after = new_segment_floors(problem, patience)
    for new, place in enumerate(after.places.tolist()):
        for old in np.flatnonzero(before.places == place).tolist():
            after.queues.lengths[new] = before.queues.lengths[old]
            after.queues.owed[new] = before.queues.owed[old]
            after.rounds[new] = before.rounds[old]
    return after


@hot
def _belongs(visitor: Visitor, place: int) -> bool:
    found = False
    for k in range(len(visitor)):
        found |= visitor[k] == place
    return found


@hot
def queue_clicks(floors: SegmentFloors, visitor: Visitor, views: Floats, outcomes: Floats) -> None:
    """Add what is owed to the queues of a visitor's segments and subtract the clicks."""
    if len(floors.places) == 0:
        return
    n_views = 0.0
    clicks = 0.0
    for k in range(len(views)):
        n_views += views[k]
        clicks += outcomes[k]
    pages = n_views / floors.queues.n_slots
    if pages <= 0.0:
        return
    for floor in range(len(floors.places)):
        if _belongs(visitor, floors.places[floor]):
            floors.rounds[floor] += pages
            missing = floors.queues.least[floor] * pages - clicks
            floors.queues.lengths[floor] = paced_length(
                floors.queues, floor, missing, pages, floors.rounds[floor]
            )


@hot
def floor_price(floors: SegmentFloors, floor: int) -> float:
    """Return the price of a click of a visitor of its segment for one floor."""
    promised = floors.queues.least[floor] * (floors.rounds[floor] + 1.0)
    return floors.queues.lengths[floor] / (floors.queues.patience * math.sqrt(promised))


@hot
def price_clicks(floors: SegmentFloors, visitor: Visitor) -> float:
    """Return the total price of a click for the floors of a visitor's segments."""
    price = 0.0
    for floor in range(len(floors.places)):
        if _belongs(visitor, floors.places[floor]):
            price += floor_price(floors, floor)
    return price
