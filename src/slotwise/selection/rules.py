"""The floor program under rules: how many slots a link or a group of links may and must have.

    maximise value . x   subject to   clicks . x >= floor,   sum of x = n_slots,
                                      least <= x <= most     for every link,
                                      least <= sum of x over G <= most     for disjoint groups G

For any scores the best page is greedy: start at the least of every link, raise links in order of
their scores until every group has its least, then raise links in order of their scores, within
what links and groups may have, until the page is full. With scores value + price * clicks it takes
the place of "the n_slots largest scores" in the search for the price of the floor: two pages whose
lines enclose the floor are mixed. A mix of pages within the rules is within the rules.

The compiled search is in `slotwise.selection.page_within_rules`.

Groups that cross, such as brands and categories, are not greedy. Then all rules are rows of the
program of several floors (`slotwise.selection.several_floors`): a cap on a group is a floor on the
rest of the page.

Rules that contradict each other are settled before: pins first, then links that are excluded, caps,
guarantees, and the floor last. Among caps, and among guarantees, the rule listed first wins. Used
by `frontier`, `solve_kinds`, `player`, `selector` and `simulation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.selection.page_rules import Bounds, PageRules, new_page_rules
from slotwise.selection.page_search import INFEASIBLE, NOTHING
from slotwise.selection.page_within_rules import solve_within
from slotwise.selection.several_floors import (
    FloorsProgram,
    new_floors_program,
    solve_floors_program,
)
from slotwise.selection.solve import STATUSES, check_floor, check_page, check_rates


class SlotRule(NamedTuple):
    """How many slots of a page some links have together, at least and at most, on average."""

    links: Links
    least: float
    most: float


# Settle what contradicts


class Settled(NamedTuple):
    """Rules that can be kept together, and the bounds granted to each rule."""

    rules: PageRules
    granted: tuple[SlotRule, ...]


def settle_rules(
    rules: Sequence[SlotRule],
    n_links: int,
    n_slots: int,
    pinned: ArrayLike = (),
    excluded: ArrayLike = (),
) -> Settled:
    """Return the rules for one kind of page, with bounds relaxed where they contradict.

    Pins win over exclusions, exclusions over caps, caps over guarantees, and a rule over those of
    its kind that follow it in the list. At least `n_slots` links must not be excluded.
    """
    pins = np.unique(np.asarray(pinned, np.int64))
    gone = np.setdiff1d(np.asarray(excluded, np.int64), pins)
    if n_links - len(gone) < n_slots:
        rule = f"few enough links to leave {n_slots} for the page"
        raise InvalidInput.of("exclude", rule, len(gone))
    groups, places = _disjoint_groups(rules, n_links)
    if places is None:
        return _settle_crossing(rules, n_links, n_slots, pins, gone)
    draft = _Draft.of(groups, n_links, n_slots, pins, gone)
    placed = list(zip(rules, places, strict=True))
    for one, place in placed:
        draft.cap(one, place)
    for one, place in placed:
        draft.guarantee(one, place)
    granted = [SlotRule(one.links, *draft.granted(one, place)) for one, place in placed]
    return Settled(new_page_rules(draft, None), tuple(granted))


def _disjoint_groups(
    rules: Sequence[SlotRule], n_links: int
) -> tuple[list[Links], list[int] | None]:
    """Return the groups, and which one each rule is about (-1: one link); None if groups cross."""
    groups: dict[bytes, Links] = {}
    places: list[int] = []
    is_in_group = np.zeros(n_links, bool)
    place_of: dict[bytes, int] = {}
    for rule in rules:
        links = np.unique(rule.links)
        if len(links) == 1:
            places.append(-1)
            continue
        key = links.tobytes()
        if key not in groups:
            if is_in_group[links].any():
                return list(groups.values()), None
            is_in_group[links] = True
            groups[key], place_of[key] = links, len(groups)
        places.append(place_of[key])
    return list(groups.values()), places


class _Draft(Bounds):
    """Bounds while they are settled."""

    @classmethod
    def of(
        cls, groups: list[Links], n_links: int, n_slots: int, pinned: Links, excluded: Links
    ) -> _Draft:
        least, most = np.zeros(n_links), np.ones(n_links)
        most[excluded] = 0.0
        least[pinned] = most[pinned] = 1.0
        group = np.full(n_links, len(groups), np.int64)
        for place, links in enumerate(groups):
            group[links] = place
        sizes = np.bincount(group, minlength=len(groups) + 1).astype(np.float64)
        return cls(n_slots, least, most, group, np.zeros(len(groups) + 1), sizes)

    def cap(self, rule: SlotRule, place: int) -> None:
        """Lower a maximum as far as pins and the filling of the page allow."""
        of_links, link = self.sums(self.most), rule.links[0]
        group = place if place >= 0 else self.group[link]
        room = np.minimum(self.group_most, of_links)
        fewest = self.n_slots - float(room.sum() - room[group])
        if place >= 0:
            fewest = max(fewest, float(self.sums(self.least)[group]))
            self.group_most[group] = max(fewest, min(self.group_most[group], rule.most))
        else:
            fewest = max(fewest - float(of_links[group] - self.most[link]), self.least[link])
            self.most[link] = max(fewest, min(self.most[link], rule.most))

    def guarantee(self, rule: SlotRule, place: int) -> None:
        """Raise a minimum as far as everything settled before allows."""
        sums = self.sums(self.least)
        owed = np.maximum(self.group_least, sums)
        left = self.n_slots - float(owed.sum())
        if place >= 0:
            fits = min(self.group_most[place], self.sums(self.most)[place], owed[place] + left)
            self.group_least[place] = max(self.group_least[place], min(rule.least, fits))
            return
        link = rule.links[0]
        of_group = self.group[link]
        room = min(self.group_most[of_group], owed[of_group] + left) - sums[of_group]
        fits = min(self.most[link], self.least[link] + max(0.0, room))
        self.least[link] = max(self.least[link], min(rule.least, fits))

    def granted(self, rule: SlotRule, place: int) -> tuple[float, float]:
        """Return the bounds that hold for the links of a rule."""
        if place < 0:
            least, most = self.least[rule.links[0]], self.most[rule.links[0]]
        else:
            least = max(self.group_least[place], self.sums(self.least)[place])
            most = self.group_most[place]
        kept_most = rule.most if most <= rule.most + NOTHING else most
        return float(min(rule.least, least)), float(kept_most)


# Groups that cross


def _row(links: Links, n_links: int) -> Floats:
    row = np.zeros(n_links)
    row[links] = 1.0
    return row


class _Rows(NamedTuple):
    """Rows of the program of several floors; each bounds the slots of some links."""

    n_links: int
    n_slots: int
    rows: list[Floats]
    least: list[float]

    def add(self, links: Links, least: float, most: float) -> None:
        row = _row(links, self.n_links)
        if least > NOTHING:
            self.rows.append(row)
            self.least.append(least)
        if most < min(len(links), self.n_slots) - NOTHING:
            self.rows.append(1.0 - row)  # a cap on a group is a floor on the rest of the page
            self.least.append(self.n_slots - most)

    def program(self) -> FloorsProgram:
        """Return a program whose first row, for the clicks, requires nothing."""
        rows = np.array([np.zeros(self.n_links), *self.rows])
        return new_floors_program(np.zeros(self.n_links), rows, np.array([0.0, *self.least]))

    def most_of(self, links: Links, sign: float) -> float:
        """Return how many slots links can have at most, or at least where `sign` is -1."""
        program = self.program()
        program.simplex.value[:] = sign * _row(links, self.n_links)
        switching(solve_floors_program)(program, self.n_slots)
        return float(program.x[links].sum())


def _settle_crossing(
    rules: Sequence[SlotRule], n_links: int, n_slots: int, pinned: Links, excluded: Links
) -> Settled:
    """Settle rules one after the other, each as far as those before it allow."""
    rows = _Rows(n_links, n_slots, [], [])
    if len(excluded):
        rows.add(excluded, 0.0, 0.0)
    if len(pinned):
        rows.add(pinned, float(len(pinned)), np.inf)
    most, least = [], []
    for rule in rules:
        fewest = rows.most_of(rule.links, -1.0)
        most.append(rule.most if fewest <= rule.most + NOTHING else fewest)
        rows.add(rule.links, 0.0, most[-1])
    for rule in rules:
        fits = rows.most_of(rule.links, 1.0) if rule.least > 0.0 else 0.0
        least.append(rule.least if fits >= rule.least - 1e-9 else fits)
        rows.add(rule.links, min(least[-1], fits), np.inf)
    granted = tuple(
        SlotRule(rule.links, low, high) for rule, low, high in zip(rules, least, most, strict=True)
    )
    groups: list[Links] = []  # pages are drawn group by group for those that do not cross
    for rule in rules:
        if len(rule.links) > 1 and not any(np.isin(rule.links, one).any() for one in groups):
            groups.append(rule.links)
    draft = _Draft.of(groups, n_links, n_slots, pinned, excluded)
    return Settled(new_page_rules(draft, rows.program()), granted)


# From Python


class RuledSolution(NamedTuple):
    """The best page mix under a click floor and rules.

    `prices[r]` is the revenue a page view would gain if rule r were a slot looser, at the margin:
    the score of the best link that it leaves out less that of the worst link that it lets in.
    `granted[r]` is the rule as it is kept; it differs from the given rule where rules
    contradict each other. The rest is that of `slotwise.selection.Solution`.
    """

    probabilities: Floats
    shadow_price: float
    status: str
    value: float
    clicks: float
    prices: Floats
    granted: tuple[SlotRule, ...]


def solve_rules(
    value: ArrayLike,
    clicks: ArrayLike,
    n_slots: int,
    floor: float,
    rules: Sequence[SlotRule],
) -> RuledSolution:
    """Return the mix of links with the most value within the rules that keeps the floor.

    Rules come before the floor: where both cannot be kept, the mix has the most clicks within the
    rules and the status is "infeasible".

    >>> at_most_one = SlotRule(np.array([0, 1]), least=0.0, most=1.0)
    >>> best = solve_rules([0.9, 0.8, 0.3, 0.1], [0.1, 0.1, 0.1, 0.9], 2, 0.0, [at_most_one])
    >>> best.probabilities.tolist(), best.prices.round(6).tolist()
    ([1.0, 0.0, 1.0, 0.0], [0.5])
    """
    value, clicks = check_rates("value", value), check_rates("clicks", clicks)
    check_page(value, clicks, n_slots)
    floor = check_floor(floor)
    settled = settle_rules(rules, len(value), n_slots)
    found = switching(solve_within)(settled.rules, value, clicks, floor)
    page = settled.rules.probabilities.copy()
    weights = (0.0, 1.0) if found.status == INFEASIBLE else (1.0, found.price)
    score = weights[0] * value + weights[1] * clicks
    prices = rule_prices(page, score, settled)
    if found.status == INFEASIBLE:  # scores are clicks there: rules have no price in revenue
        prices[:] = 0.0
    return RuledSolution(
        page,
        found.price,
        STATUSES[found.status],
        found.value,
        found.clicks,
        prices,
        settled.granted,
    )


def rule_prices(page: Floats, score: Floats, settled: Settled) -> Floats:
    """Return what each rule costs at the margin, a slot, on the best page at these scores."""
    rules = settled.rules
    sums = np.array([page[rule.links].sum() for rule in settled.granted])
    prices = np.zeros(len(sums))
    least, most = np.empty(len(page)), np.empty(len(page))
    least[rules.links], most[rules.links] = rules.least, rules.most
    may_rise, may_fall = page < most - 1e-9, page > least + 1e-9
    for place, rule in enumerate(settled.granted):
        is_inside = np.zeros(len(page), bool)
        is_inside[rule.links] = True
        if rule.most < len(rule.links) and sums[place] >= rule.most - 1e-9:
            out, lets_in = is_inside & (page < 1.0 - 1e-9), ~is_inside & may_fall
        elif rule.least > 0.0 and sums[place] <= rule.least + 1e-9:
            out, lets_in = ~is_inside & may_rise, is_inside & (page > 1e-9)
        else:
            continue
        for other, granted in enumerate(settled.granted):
            if other != place and not np.array_equal(granted.links, rule.links):
                if sums[other] >= granted.most - 1e-9:
                    out[np.setdiff1d(granted.links, rule.links)] = False
                if granted.least > 0.0 and sums[other] <= granted.least + 1e-9:
                    lets_in[np.setdiff1d(granted.links, rule.links)] = False
        if out.any() and lets_in.any():
            prices[place] = max(0.0, float(score[out].max() - score[lets_in].min()))
    return prices
