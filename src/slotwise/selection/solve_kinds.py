"""The best mix where visitors, slots or floors differ, as one linear program for HiGHS.

    maximise    sum_m share_m value_m . x_m
    subject to  sum over a floor's kinds m of share_m clicks_m . x_m  >=  its floor * its share

x_m says how often each link is shown to visitors of kind m. All floors are on clicks, so the best
pages of a kind lie on its frontier of value against clicks, a chain of pieces whose prices rise.
The variables of the program are the clicks added on each piece; the total of a kind is a mix of the
two pages between which it ends. Where slots differ, pages have the links with the largest scores in
the slots with the largest weights; nothing else changes. Rules hold for every kind, and the best
page at some scores is then the greedy one within them (`slotwise.selection.rules`). It has the most
links of every beginning of the order by scores, so it is best for any slot weights.

A floor that even the most clicked pages miss is infeasible: its kinds get those pages, and the
others are solved under the remaining floors. It is used for optima of experiments and mixes fitted
to logs. `solve` is for one kind, needs no scipy and is much faster. Used by `evaluation` and
`simulation`.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.extras import naming_extra
from slotwise.selection.frontier import corners_of, slot_weight_of
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.rules import SlotRule, settle_rules
from slotwise.selection.solve import STATUSES, check_floor, check_kinds
from slotwise.selection.top_page import TIE

Floor = tuple[NDArray[np.bool_], float]
"""The kinds of visitors of a floor, and the clicks per page view that it requires."""

EXACT = {
    "primal_feasibility_tolerance": 1e-10,  # the least that HiGHS accepts
    "dual_feasibility_tolerance": 1e-10,
    "presolve": False,  # it compares every piece with every other one
}
KEPT = 1e-11
"""A floor that misses less than this share of its clicks counts as kept."""


class KindsSolution(NamedTuple):
    """The best mix of every kind, and the price of each floor with the clicks of its page views.

    `shadow_prices[j]` is the value of an average page view given up for one more click of an
    average page view, at floor j; it is infinite where the floor is infeasible.
    """

    probabilities: Floats
    shadow_prices: Floats
    status: str
    value: float
    clicks: Floats


class _Corner(NamedTuple):
    clicks: float
    value: float
    links: Links
    parts: Floats
    """The inclusion probabilities of the links."""


def solve_kinds(
    value: ArrayLike,
    clicks: ArrayLike,
    shares: ArrayLike,
    slot_weights: ArrayLike,
    floors: Sequence[Floor],
    rules: Sequence[SlotRule] = (),
) -> KindsSolution:
    """Return the best mix for visitors of several kinds, with a row of rates for each kind.

    `shares` has each kind's share of the page views, and `slot_weights` a number for each slot of
    the page, all 1 where slots are alike. Where pages have different sizes, `slot_weights` has a
    row for each kind, with 0 for slots that its pages lack. The mix of every kind is within
    `rules`, which are relaxed on pages that are too small for them.

    >>> everybody, second = np.array([True, True]), np.array([False, True])
    >>> best = solve_kinds([[0.9, 0.1], [0.9, 0.1]], [[0.1, 0.5], [0.1, 0.5]], [0.8, 0.2],
    ...                    slot_weights=[1.0], floors=[(everybody, 0.1), (second, 0.3)])
    >>> best.probabilities.round(6).tolist(), best.shadow_prices.round(6).tolist()
    ([[1.0, 0.0], [0.5, 0.5]], [0.0, 2.0])
    """
    weights = -np.sort(-np.asarray(slot_weights, np.float64))
    rows, click_rows, parts = check_kinds(value, clicks, weights.shape[-1], shares)
    if weights.ndim == 1:
        of_kinds = [weights] * len(rows)
    elif len(weights) == len(rows):
        of_kinds = [of_kind[of_kind > 0.0] for of_kind in weights]
    else:
        raise InvalidInput.of("slot_weights", f"a row for each kind ({len(rows)})", len(weights))
    sizes = {len(of_kind) for of_kind in of_kinds}
    within: dict[int, PageRules | None] = dict.fromkeys(sizes)
    if rules:
        within = {size: settle_rules(rules, rows.shape[1], size).rules for size in sizes}
    for of_kind in of_kinds:
        ruled = within[len(of_kind)]
        if ruled is not None and len(ruled.crossing.x) and of_kind[0] > of_kind[-1]:
            rule = "about groups that do not cross where slots differ"
            raise InvalidInput.of("rules", rule, "some")
    chains = [
        _corners(v, c, of_kind, within[len(of_kind)])
        for v, c, of_kind in zip(rows, click_rows, of_kinds, strict=True)
    ]
    counted = np.array([np.where(kinds, parts, 0.0) for kinds, _ in floors])
    share_of = counted.sum(axis=1)
    if not share_of.all():
        raise InvalidInput.of("floors", "of kinds that have page views", share_of.tolist())
    least = share_of * [check_floor(floor) for _, floor in floors]
    most = counted @ [pages[-1].clicks for pages in chains]
    is_missed = most < least - KEPT * least
    for pages, is_bound in zip(chains, (counted[is_missed] > 0.0).any(axis=0), strict=True):
        if is_bound:
            del pages[:-1]
    wanted = np.array([pages[0].clicks for pages in chains])
    missing = least - counted @ wanted
    missing[is_missed | (missing <= KEPT * least)] = 0.0
    prices = np.where(is_missed, np.inf, 0.0)
    if missing.any():
        bought, prices[missing > 0.0] = _buy_clicks(chains, parts, counted, missing)
        wanted += bought
    probabilities, brought = np.zeros(rows.shape), np.zeros((2, len(parts)))
    for kind, pages in enumerate(chains):
        few, many, part = _around(pages, wanted[kind])
        fewer, more = np.zeros((2, rows.shape[1]))
        fewer[few.links], more[many.links] = few.parts, many.parts
        mixed = (1.0 - part) * fewer + part * more
        probabilities[kind] = np.where(fewer == more, fewer, mixed)
        brought[0, kind] = (1.0 - part) * few.value + part * many.value
        brought[1, kind] = (1.0 - part) * few.clicks + part * many.clicks
    status = 2 if is_missed.any() else int(missing.any())
    return KindsSolution(
        probabilities=probabilities,
        shadow_prices=prices,
        status=STATUSES[status],
        value=float(parts @ brought[0]),
        clicks=counted @ brought[1] / share_of,
    )


def _corners(
    value: Floats, clicks: Floats, weights: Floats, rules: PageRules | None
) -> list[_Corner]:
    """Return the pages at the corners of the frontier of one kind, fewest clicks first."""

    def page(value_weight: float, click_weight: float) -> _Corner:
        score = value_weight * value + click_weight * clicks
        second = clicks if value_weight > 0.0 else value
        links, weight, parts = np.lexsort((-second, -score)), weights, np.ones(len(weights))
        if rules is not None:
            switching(best_within)(rules, score, second)
            links = links[rules.probabilities[links] > 0.0]
            parts = rules.probabilities[links]
            weight = slot_weight_of(parts, weights)
        links = links[: len(weight)]
        return _Corner(float(weight @ clicks[links]), float(weight @ value[links]), links, parts)

    return corners_of(page)[0]


def _around(pages: list[_Corner], wanted: float) -> tuple[_Corner, _Corner, float]:
    """Return the corners around a number of clicks, and the part of the second in the mix."""
    after = min(bisect(pages, wanted, key=attrgetter("clicks")), len(pages) - 1)
    few, many = pages[max(after - 1, 0)], pages[after]
    part = 1.0 if few is many else (wanted - few.clicks) / (many.clicks - few.clicks)
    # A kind that ends at a corner does so up to rounding.
    is_whole = abs(part - round(part)) < TIE
    return few, many, float(min(round(part) if is_whole else part, 1.0))


def _buy_clicks(
    chains: list[list[_Corner]], shares: Floats, counted: Floats, missing: Floats
) -> tuple[Floats, Floats]:
    """Return the clicks added for each kind's page view, and the prices of floors that miss some.

    The pages at the start of each chain miss `missing` clicks of an average page view.
    """
    with naming_extra("the best mix for visitors that differ"):
        from scipy.optimize import linprog

    pieces = [
        (kind, many.clicks - few.clicks, few.value - many.value)
        for kind, pages in enumerate(chains)
        for few, many in pairwise(pages)
        if shares[kind] > 0.0
    ]
    kind, length, cost = (np.array(column) for column in zip(*pieces, strict=True))
    # The tolerances of HiGHS are absolute, and it drops coefficients below 1e-9: clicks are counted
    # in parts of the largest floor's, each floor's own in parts of itself, and cost in parts of the
    # value.
    unit, units = float(missing.max()), missing[missing > 0.0]
    value = float(shares @ [pages[0].value for pages in chains]) or 1.0
    most = shares[kind] * length / unit
    rows = np.where(counted[missing > 0.0][:, kind] > 0.0, unit / units[:, None], 0.0)
    found = linprog(
        np.maximum(cost / length, 0.0) * (unit / value),
        A_ub=-rows,
        b_ub=-np.minimum(rows @ most, 1.0),
        bounds=np.stack([np.zeros(len(kind)), most], axis=1),
        method="highs-ds",
        options=EXACT,
    )
    if found.status != 0:
        raise ArithmeticError(f"HiGHS found no best mix: {found.message}")
    bought = np.zeros(len(chains))
    np.add.at(bought, kind, found.x * unit / shares[kind])
    return bought, np.maximum(-found.ineqlin.marginals, 0.0) * value / units
