"""The promise to earn at least a part of what the page of today would have earned.

A view shows the own page, a page that the policy chose, or a random page. The group is drawn with
probabilities that are known before the view (`Shares`). B_t and C_t are the expected revenue of the
own and of the chosen page of view t. The promise at view n is

    balance = sum of (expected revenue of the page shown - keep B_t) over t <= n   >=   0

With X the revenue of the view and p the probability of the own page,

    Z = X - keep X [own] / p        has the expected value of one term of the balance,

whatever the rates do and however the shares change. `PromiseEvidence` has the sums that are needed
for a lower bound on the balance that holds at all times at once (`mean_interval.least_sum`). Large
weights 1 / p need their own bound, so the sums are separate for a few ranges of p. They are
additive: the evidence of two servers, or of two days, is the sum of both.

`compare` returns the lift of chosen pages over the own page, *on the views that got chosen pages*,

    lift = sum of X [chosen]  /  sum of X [own] p_chosen / p   -   1

and its ends are the ratios r at which the bounds for the sum of X [chosen] - r X [own] p_chosen / p
are 0. The lower end plus 1 is rho, which there is also while the own page has earned nothing and
the lift is unknown. The share of chosen pages is then

    min(1 - least_own - random,  MARGIN (1 - keep) / (1 - rho)),   the first where rho >= keep

and 0 where one more chosen page that earns nothing could break the promise. Two certificates say
how many more such pages there may be (`certify`); the larger number counts.

- By counts: 0.95 (1 - keep) n_all - n_other. It needs no evidence, because pages that earn nothing
  keep the promise while they are few enough, if B_t does not change.
- By evidence: the lower bound on the balance, in units of the upper bound of B. Open views of
  other pages count as if they earned nothing, until they are settled.

Both use realised counts of groups. `next_share` decides for the views until it is called again.
Revenue must be in [0, most]. Used by `player`, `selector`, `service` and
`simulation`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.selection.mean_interval import (
    FAILURE_PROBABILITY,
    least_sum,
    least_sums,
    mean_interval,
)

Group = Literal["chosen", "own", "random"]
GROUPS: tuple[Group, ...] = ("chosen", "own", "random")
CHOSEN, OWN, RANDOM = range(3)

MARGIN = 0.9
"""The part of the allowance that the share uses."""

COUNTED = 0.95
"""The part of the allowance by counts that realised counts may use: rates may drift."""

LEAST_OWN = 0.05
"""The share of own pages that stays for comparison unless another one is given."""

RANGES: tuple[float, ...] = (0.9, 0.6, 0.3, 0.1, 0.05, 0.01)
"""The lower ends of the ranges of p. Views with a smaller probability of the own page count for no
evidence."""

N_OWN, N_CHOSEN, N_RANDOM, P_OTHER = range(4)
OWN_SUM, OWN_SQUARES, CHOSEN_SUM, CHOSEN_SQUARES, RANDOM_SUM, RANDOM_SQUARES = range(4, 10)
LIKE_SUM, LIKE_SQUARES, ALL_SUM, ALL_SQUARES, ALL_TIMES_OWN = range(10, 15)
N_SUMS = 15

RATE_FAILURE = 0.01
"""The part of the failure probability for the bounds on the revenue of the own page."""

LIFT_FAILURE = 0.5 * (FAILURE_PROBABILITY - RATE_FAILURE)
"""The failure probability of each end of the lift's interval, the bounds above left out."""

ENTRY = 2.0
"""The balance that a range of p needs before it is used, in units of its entry cost."""

RESERVE = 0.1
"""The balance at which a share that was reached is given up, in the same units."""

LARGEST_RATIO = 1e6
"""A ratio above this is reported as this."""

GROWTH = 0.9
"""The part of the allowance up to which the share grows; it falls when all of it is used up."""

N_DEVIATIONS = 4.0
"""Standard deviations of a realised count that a share leaves room for."""


class Shares(NamedTuple):
    """The probabilities of the groups of a view; they sum to 1.

    >>> Shares.of(chosen=0.25, random=0.05)
    Shares(chosen=0.25, own=0.7, random=0.05)
    """

    chosen: float
    own: float
    random: float

    @classmethod
    def of(cls, chosen: float, random: float = 0.0) -> Shares:
        """Return the shares where own pages get the rest."""
        return cls(chosen, max(0.0, 1.0 - chosen - random), random)

    def group(self, number: float) -> Group:
        """Return the group of a number in [0, 1).

        Monotone: as the share of chosen pages grows, a number moves from own to chosen once.

        >>> [Shares.of(0.25, 0.05).group(number) for number in (0.2, 0.3, 0.96)]
        ['chosen', 'own', 'random']
        """
        if number < self.chosen:
            return "chosen"
        return "random" if number >= self.chosen + self.own and self.random else "own"


class PromiseEvidence:
    """Sums over settled views of a page with a promise: a row for each range of p.

    >>> evidence = PromiseEvidence()
    >>> evidence.note("own", Shares.of(0.5), 1.0)
    >>> evidence.note("chosen", Shares.of(0.5), 3.0)
    >>> (evidence + evidence).n_views
    4.0
    >>> PromiseEvidence.restore(evidence.plain()) == evidence
    True
    """

    __slots__ = ("sums",)

    def __init__(self, sums: Floats | None = None) -> None:
        self.sums = np.zeros((len(RANGES), N_SUMS)) if sums is None else sums

    def note(self, group: Group, shares: Shares, revenue: float) -> None:
        """Count a settled view; the shares are those with which its group was drawn."""
        p = shares.own
        if p < RANGES[-1] * (1.0 - 1e-9):
            return
        row = self.sums[_range_of(p)]
        row[P_OTHER] += 1.0 - p
        if group == "own":
            row[N_OWN] += 1.0
            if revenue:
                like, everything = revenue * shares.chosen / p, revenue / p
                row[OWN_SUM:CHOSEN_SUM] += revenue, revenue * revenue
                row[LIKE_SUM:] += (
                    *(like, like * like, everything, everything * everything),
                    everything * revenue,
                )
        elif group == "chosen":
            row[N_CHOSEN] += 1.0
            row[CHOSEN_SUM:RANDOM_SUM] += revenue, revenue * revenue
        else:
            row[N_RANDOM] += 1.0
            row[RANDOM_SUM:LIKE_SUM] += revenue, revenue * revenue

    def note_many(
        self, group: Group, shares: Shares, n_views: float, sums: Sequence[float]
    ) -> None:
        """Count settled views of one group and shares; `sums` are of revenue and its squares."""
        p = shares.own
        if p < RANGES[-1] * (1.0 - 1e-9):
            return
        row, (total, squares) = self.sums[_range_of(p)], sums
        row[P_OTHER] += (1.0 - p) * n_views
        if group == "own":
            like, everything = shares.chosen / p, 1.0 / p
            row[N_OWN] += n_views
            row[OWN_SUM:CHOSEN_SUM] += total, squares
            row[LIKE_SUM:] += (
                *(like * total, like * like * squares),
                *(everything * total, everything * everything * squares, everything * squares),
            )
            return
        count, first = (N_CHOSEN, CHOSEN_SUM) if group == "chosen" else (N_RANDOM, RANDOM_SUM)
        row[count] += n_views
        row[first : first + 2] += total, squares

    def __add__(self, other: PromiseEvidence) -> PromiseEvidence:
        return PromiseEvidence(self.sums + other.sums)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromiseEvidence) and bool((self.sums == other.sums).all())

    __hash__ = None  # type: ignore[assignment]

    @property
    def n_views(self) -> float:
        """Settled views of all groups."""
        return float(self.sums[:, : N_RANDOM + 1].sum())

    @property
    def n_own(self) -> float:
        """Settled views of the own page."""
        return float(self.sums[:, N_OWN].sum())

    @property
    def n_other(self) -> float:
        """Settled views of chosen and of random pages."""
        return float(self.sums[:, [N_CHOSEN, N_RANDOM]].sum())

    def plain(self) -> dict[str, Any]:
        """Return the sums for a JSON file."""
        return {"format": 1, "sums": self.sums.tolist()}

    @classmethod
    def restore(cls, plain: object) -> PromiseEvidence:
        """Return the evidence that `plain` or `sums` were made of; raises `ValueError`."""
        if isinstance(plain, dict):
            if plain.get("format") != 1:
                raise ValueError(f"evidence of format {plain.get('format')!r} is not known")
            plain = plain["sums"]
        sums = np.array(plain, np.float64)
        if sums.shape != (len(RANGES), N_SUMS) or not (np.isfinite(sums) & (sums >= 0)).all():
            raise ValueError(f"evidence must be finite sums of shape {len(RANGES), N_SUMS}")
        return cls(sums)


def _range_of(p: float) -> int:
    for k, least in enumerate(RANGES):
        if p >= least * (1.0 - 1e-9):
            return k
    raise ValueError(f"no range has the probability {p}")


class AnytimeInterval(NamedTuple):
    """An estimate with an interval that holds at all times at once.

    An estimate that is impossible by the interval is moved to its end.
    """

    estimate: float
    low: float
    high: float


class OwnPageComparison(NamedTuple):
    """Chosen pages against the own page, on the views that got chosen pages.

    `lift` is the revenue of chosen pages over that of the own page, less 1; None while the own page
    has earned nothing. `gained` is what chosen pages earned more than own pages would have earned
    there, in the unit of revenue, and `given_up` what own pages would have earned more as chosen
    pages, at the estimated lift. `own` and `chosen` are the mean revenue of views of each group.
    `rho` is the lower bound on the ratio of chosen to own revenue; it needs no sale of own pages.
    """

    lift: AnytimeInterval | None
    gained: AnytimeInterval
    given_up: float
    own: AnytimeInterval
    chosen: AnytimeInterval
    rho: float

    @property
    def is_worse(self) -> bool:
        """Whether chosen pages are certainly worse than the own page."""
        return self.lift is not None and self.lift.high < 0.0


def compare(evidence: PromiseEvidence, most: float) -> OwnPageComparison:
    """Compare chosen pages with the own page; `most` is the largest revenue of a view.

    >>> evidence = PromiseEvidence()
    >>> evidence.note_many("own", Shares.of(0.5), 20_000, (400.0, 400.0))
    >>> evidence.note_many("chosen", Shares.of(0.5), 20_000, (600.0, 600.0))
    >>> [round(end, 2) for end in compare(evidence, 1.0).lift]
    [0.5, 0.1, 0.95]
    """
    totals = evidence.sums.sum(axis=0)
    like, earned = float(totals[LIKE_SUM]), float(totals[CHOSEN_SUM])
    least, at_most = least_gain(evidence, most), most_gain(evidence, most)
    rho, lift = least_ratio(evidence, most), None
    if like > 0.0:
        ratio = _ratio(earned, like)
        lift = AnytimeInterval(ratio - 1.0, rho - 1.0, _root(at_most, ratio, up=True) - 1.0)
    gain = least(1.0), at_most(1.0)
    return OwnPageComparison(
        lift=lift,
        gained=AnytimeInterval(min(max(earned - like, gain[0]), gain[1]), *gain),
        given_up=max(0.0, lift.estimate) * float(totals[OWN_SUM]) if lift else 0.0,
        own=_mean(totals, N_OWN, OWN_SUM, most, FAILURE_PROBABILITY),
        chosen=_mean(totals, N_CHOSEN, CHOSEN_SUM, most, FAILURE_PROBABILITY),
        rho=rho,
    )


def least_ratio(evidence: PromiseEvidence, most: float) -> float:
    """Return rho, the lower bound on chosen over own revenue; 0 where there is no evidence.

    While the own page has earned nothing, the estimate of the ratio is infinite; rho is not.
    """
    totals = evidence.sums.sum(axis=0)
    earned, like = float(totals[CHOSEN_SUM]), float(totals[LIKE_SUM])
    return _root(least_gain(evidence, most), _ratio(earned, like) if like else None, up=False)


def _ratio(earned: float, like: float) -> float:
    """Return what chosen pages earned over what own pages would have earned there."""
    return earned / like if earned < LARGEST_RATIO * like else LARGEST_RATIO


def _mean(totals: Floats, count: int, first: int, most: float, failure: float) -> AnytimeInterval:
    n_views, total, squares = (float(totals[k]) for k in (count, first, first + 1))
    ends = mean_interval(n_views, total, squares, most, failure_probability=failure)
    return AnytimeInterval(total / n_views if n_views else 0.0, *ends)


SHARED = 0.8
"""The part of a failure probability for bounds that several ranges of p share."""

_FAILURE_PARTS: Floats = np.array([[SHARED], [1.0 - SHARED]]) / len(RANGES)
_ODDS: Floats = np.array([(1.0 - least_own) / least_own for least_own in RANGES])


class _RangeSums(NamedTuple):
    """Sums of Z and of its squares, with the largest loss of a view in each range of p.

    The first row has the sums of all ranges up to one, the second those of each range (`_nested`).
    `worst` is a lower bound on the expected sum of each range that needs no evidence.
    """

    total: Floats
    squares: Floats
    reach: Floats
    worst: Floats

    def least(self, most: float, alpha: float) -> tuple[float, Floats]:
        """Return a lower bound on the expected sum over all ranges, and one for each range.

        The bets of a range must be small where p is small. So either the ranges up to one of them
        share a bound, with the bets that the last of them allows, and each of the others has its
        own, or every range has its own. The best of these sums counts.
        """
        bounds = least_sums(self.total, self.squares, self.reach, most, alpha * _FAILURE_PARTS)
        own = np.maximum(bounds[1], self.worst)
        up_to = own.cumsum()
        return float(up_to[-1] + max(0.0, (bounds[0] - up_to).max())), own


def _nested(sums: Floats) -> Floats:
    """Return the sums up to each range and those of each range."""
    return np.stack([sums.cumsum(), sums])


def least_gain(evidence: PromiseEvidence, most: float) -> Callable[[float], float]:
    """Return the lower bound on the sum of C_t - ratio B_t over chosen views, for any ratio."""
    rows, own_at_most = evidence.sums, _own_rate(evidence, most)[1]
    earned, like, earned_squares, like_squares = (
        _nested(rows[:, k]) for k in (CHOSEN_SUM, LIKE_SUM, CHOSEN_SQUARES, LIKE_SQUARES)
    )
    reach, worst = most * _ODDS, -own_at_most * rows[:, N_CHOSEN]

    def bound(ratio: float) -> float:
        sums = earned - ratio * like, earned_squares + ratio * ratio * like_squares
        return _RangeSums(*sums, ratio * reach, ratio * worst).least(most, LIFT_FAILURE)[0]

    return bound


def _own_rate(evidence: PromiseEvidence, most: float) -> tuple[float, float]:
    """Return bounds on the mean revenue of the own page; both ever miss with `RATE_FAILURE`."""
    totals = evidence.sums.sum(axis=0)
    own = _mean(totals, N_OWN, OWN_SUM, most, RATE_FAILURE)
    return own.low, own.high


def most_gain(evidence: PromiseEvidence, most: float) -> Callable[[float], float]:
    """Return the upper bound on the sum of C_t - ratio B_t over chosen views, for any ratio.

    A view adds at most `most` to the sum, whatever p is, so one bound serves all ranges.
    """
    totals = evidence.sums.sum(axis=0)

    def bound(ratio: float) -> float:
        below = float(ratio * totals[LIKE_SUM] - totals[CHOSEN_SUM])
        squares = float(totals[CHOSEN_SQUARES] + ratio * ratio * totals[LIKE_SQUARES])
        return -least_sum(below, squares, most, most, LIFT_FAILURE) if evidence.n_views else 0.0

    return bound


def _root(bound: Callable[[float], float], start: float | None, *, up: bool) -> float:
    """Return the ratio at which a bound that falls with it is 0, on one side of the estimate.

    The end that is returned errs on the safe side by at most 0.1 % of the ratio. Without an
    estimate the search goes up from 0.
    """
    low = start if up and start else 0.0
    at_low = bound(low)
    if not up and at_low <= 0.0:
        return 0.0
    if up or start is None:
        # the bets are halves of a largest one that falls with the ratio, so that the bound falls in
        # waves as long as one half; the lower end is the first zero, so small steps must find it
        high, step = (max(2.0 * low, 1e-6), 2.0) if up else (1e-3, 2.0**0.25)
        at_high = bound(high)
        while at_high > 0.0:
            low, high, at_low = high, step * high, at_high
            if high > LARGEST_RATIO:
                return LARGEST_RATIO if up else low
            at_high = bound(high)
    else:
        high = start
        at_high = bound(high)
        if at_high > 0.0:
            return high
    for _ in range(60):  # the Illinois method: secants that also move the end that stays
        if high - low <= max(1e-3 * high, 1e-9):
            break
        middle = low + (high - low) * at_low / (at_low - at_high)
        middle = min(max(middle, low + 2e-4 * high), high * (1.0 - 2e-4))
        value = bound(middle)
        if value > 0.0:
            low, at_low, at_high = middle, value, 0.5 * at_high
        else:
            high, at_high, at_low = middle, value, 0.5 * at_low
    return high if up else low


class OpenCounts(NamedTuple):
    """Views that are not settled yet: of the own page, and of chosen and random pages."""

    own: float = 0.0
    other: float = 0.0


class Terms(NamedTuple):
    """What is promised: revenue of at least `keep` times that of the own page.

    `random` is the share of random pages, `least_own` the smallest share of own pages and `most`
    the largest revenue of a view.
    """

    keep: float
    most: float
    least_own: float = LEAST_OWN
    random: float = 0.0

    @property
    def largest_share(self) -> float:
        """The largest share of chosen pages."""
        return max(0.0, 1.0 - self.least_own - self.random)


class _Balance(NamedTuple):
    """The balance over all views, with the lower bound and the entry cost of each range of p."""

    all: AnytimeInterval
    low: Floats
    entry_cost: Floats


def _balance(evidence: PromiseEvidence, terms: Terms) -> _Balance:
    """Return the balance over settled views.

    A lower bound by evidence starts at minus the entry cost, because a single sale on an own page
    counts 1 / p times. While that is less, the views of other pages count as if they earned
    nothing.
    """
    keep, most, rows = terms.keep, terms.most, evidence.sums
    alpha = FAILURE_PROBABILITY - RATE_FAILURE
    own_low, own_high = _own_rate(evidence, most)
    earned = rows[:, OWN_SUM] + rows[:, CHOSEN_SUM] + rows[:, RANDOM_SUM]
    squares = (
        rows[:, OWN_SQUARES]
        + rows[:, CHOSEN_SQUARES]
        + rows[:, RANDOM_SQUARES]
        + keep * keep * rows[:, ALL_SQUARES]
        - 2.0 * keep * rows[:, ALL_TIMES_OWN]
    )
    n_other = rows[:, N_CHOSEN] + rows[:, N_RANDOM]
    sums = _RangeSums(
        total=_nested(earned - keep * rows[:, ALL_SUM]),
        squares=_nested(np.maximum(squares, 0.0)),
        reach=most * np.maximum(0.0, keep / np.array(RANGES) - 1.0),
        worst=(1.0 - keep) * own_low * rows[:, N_OWN] - keep * own_high * n_other,
    )
    nothing = np.zeros(len(RANGES))
    cost = -least_sums(nothing, nothing, sums.reach, most, alpha * _FAILURE_PARTS[1])
    total, (low, lows) = float(sums.total[0, -1]), sums.least(most, alpha)
    high = 0.0
    if evidence.n_views:
        high = -least_sum(-total, float(sums.squares[0, -1]), most, most, alpha)
    return _Balance(AnytimeInterval(min(max(total, low), high), low, high), lows, cost)


def balance(evidence: PromiseEvidence, terms: Terms) -> AnytimeInterval:
    """Return revenue so far less what is promised, over settled views, in the unit of revenue.

    The lower end holds with the failure probability of the promise; the upper end likewise.
    """
    return _balance(evidence, terms).all


class Certificate(NamedTuple):
    """How many views could earn nothing, and the shares that the evidence can pay for.

    A share up to `held_share` may stay where it was reached before.
    """

    spare_views: float
    largest_share: float
    held_share: float


def certify(evidence: PromiseEvidence, open_views: OpenCounts, terms: Terms) -> Certificate:
    """Return how many views in a row could earn nothing without breaking the promise.

    Negative where it may be broken already. A view of the own page adds 1 - keep. Shares with
    fewer own pages need a balance of `ENTRY` times the cost of their range of p.
    """
    keep, n_other = terms.keep, evidence.n_other + open_views.other
    n_all = n_other + evidence.n_own + open_views.own
    by_counts = COUNTED * (1.0 - keep) * n_all - n_other
    low, high = _own_rate(evidence, terms.most)
    if high <= 0.0:
        return Certificate(by_counts, 1.0 - RANGES[0], 0.0)
    found = _balance(evidence, terms)
    # more other pages than expected: each of them may have lost what the own page earns
    excess = max(0.0, evidence.n_other - float(evidence.sums[:, P_OTHER].sum()))
    least = found.all.low - excess * high
    in_views = least / high if least >= 0.0 else least / max(low, 1e-300)
    in_views += (1.0 - keep) * low / high * open_views.own - keep * open_views.other
    money, largest = in_views * high, 1.0 - RANGES[0]
    held = int((money >= RESERVE * found.entry_cost).sum())
    held_share = 1.0 - RANGES[held - 1] if held and money > 0.0 else 0.0
    n_views = evidence.sums[:, : N_RANDOM + 1].sum(axis=1)
    for k in range(1, len(RANGES)):
        is_paid_for = n_views[k] > 0.0 and found.low[k] >= 0.0
        if not is_paid_for and money - min(0.0, found.low[k]) < ENTRY * found.entry_cost[k]:
            break
        largest = 1.0 - RANGES[k]
    return Certificate(max(by_counts, in_views), largest, held_share)


class Share(NamedTuple):
    """The share of chosen pages until the next decision, and why.

    `max_other` is how many chosen and random pages there may be before the next decision; a caller
    that counts them stops there. `rho` is the lower bound on chosen over own revenue. `reason` is
    "all" (chosen pages certainly keep the promise), "evidence" (the share follows rho), "start"
    (rho is still 0) or "stopped" (the next pages must be own pages).
    """

    chosen: float
    max_other: float
    rho: float
    reason: Literal["all", "evidence", "start", "stopped"]


def next_share(
    evidence: PromiseEvidence,
    open_views: OpenCounts,
    terms: Terms,
    *,
    n_ahead: float | None = None,
    rho: float | None = None,
    previous: float = 0.0,
) -> Share:
    """Return the share of chosen pages.

    `n_ahead` is the number of views until the next decision, where nobody counts the groups until
    then; None where the caller stops at `max_other`. `rho` is that of `compare`, if known.
    `previous` is the share so far. A share grows only as far as a part of the allowance can pay for
    it (`GROWTH`) and stays while the allowance can, so that visitors do not change between own and
    chosen pages: rho falls for a while whenever the share enters another range of p, and the
    allowance does while chosen views are open.

    >>> next_share(PromiseEvidence(), OpenCounts(own=1_000), Terms(keep=0.95, most=1.0)).chosen
    0.045
    """
    keep, largest = terms.keep, terms.largest_share
    if rho is None:
        rho = least_ratio(evidence, terms.most)
    certificate = certify(evidence, open_views, terms)
    spare = max(0.0, certificate.spare_views)
    wanted = largest
    if rho < keep:
        wanted = min(largest, round(MARGIN * (1.0 - keep) / (1.0 - rho), 12))
    wanted = min(wanted, certificate.largest_share - terms.random)
    held = max(wanted, min(largest, certificate.held_share - terms.random))
    max_other = spare / keep if keep else math.inf
    ahead = _Ahead(max_other, open_views, n_ahead, terms.random)
    wanted = max(min(wanted, ahead.payable(GROWTH)), min(previous, held, ahead.payable(1.0)))
    if max_other < 1.0 or wanted <= 0.0:
        return Share(0.0, max_other, rho, "stopped")
    if wanted >= largest - 1e-12:
        return Share(largest, max_other, rho, "all")
    return Share(wanted, max_other, rho, "evidence" if rho > 0.0 else "start")


class _Ahead(NamedTuple):
    """What limits the share of the views until the next decision.

    `max_other` is how many of them may be chosen or random pages.
    """

    max_other: float
    open_views: OpenCounts
    n_ahead: float | None
    random: float

    def payable(self, part: float) -> float:
        """Return the share that a part of the allowance can pay for."""
        share, n_open = 1.0, self.open_views.own + self.open_views.other
        if n_open:  # it must be able to stay until the open views are settled
            allowed = part * (self.max_other + self.open_views.other)
            share = allowed / (n_open + (self.n_ahead or 0.0))
        if self.n_ahead is not None:
            half = 0.5 * N_DEVIATIONS  # n s + 4 sqrt(n s) <= max_other
            most_views = (math.sqrt(half * half + part * self.max_other) - half) ** 2
            share = min(share, most_views / max(self.n_ahead, 1.0) - self.random)
        return max(share, 0.0)


class PageRevenue(NamedTuple):
    """The revenue of a view of one page: its mean and the mean of its square."""

    mean: float
    square: float


VIEWS_A_DECISION = 1_000.0
"""Views between two decisions about the share, as forecasts assume."""

NO_REVENUE = PageRevenue(0.0, 0.0)


class Ramp(NamedTuple):
    """The share of chosen pages as views come, at expected revenue.

    `half` and `all` are the views after which the share is at least one half, and after which it
    is as large as it gets; None where it takes more views than the forecast covers.
    """

    views: Floats
    shares: Floats
    half: float | None
    all: float | None


def expected_ramp(
    terms: Terms,
    own: PageRevenue,
    chosen: PageRevenue,
    n_views: float,
    *,
    start: PromiseEvidence | None = None,
    n_open: float = 0.0,
) -> Ramp:
    """Return how the share is expected to grow over the next views, from evidence so far.

    `n_open` is the number of views that come before a view is settled. Random pages count as if
    they earned nothing.

    >>> own, chosen = PageRevenue(0.02, 0.02), PageRevenue(0.03, 0.03)
    >>> ramp = expected_ramp(Terms(keep=0.95, most=1.0), own, chosen, 1_000_000)
    >>> 10_000 < ramp.half < ramp.all < 1_000_000
    True
    """
    evidence = PromiseEvidence() if start is None else PromiseEvidence(start.sums.copy())
    n_before, seen, half, full = evidence.n_views, 0.0, None, None
    views, shares_then = [], []
    waiting: deque[tuple[float, Shares]] = deque()  # steps that are not settled, oldest first
    share = None
    while full is None and seen <= n_views:
        while sum(n for n, _ in waiting) > n_open:
            n, shares = waiting.popleft()
            sums = [
                (n * part * one.mean, n * part * one.square)
                for part, one in zip(shares, (chosen, own, NO_REVENUE), strict=True)
            ]
            for group, part, totals in zip(GROUPS, shares, sums, strict=True):
                evidence.note_many(group, shares, n * part, totals)
        n_own = sum(n * shares.own for n, shares in waiting)
        n_other = sum(n * (1.0 - shares.own) for n, shares in waiting)
        step = max(20.0, 0.03 * (n_before + seen))
        open_views = OpenCounts(n_own, n_other)
        n_ahead, previous = min(step, VIEWS_A_DECISION), share.chosen if share else 0.0
        share = next_share(evidence, open_views, terms, n_ahead=n_ahead, previous=previous)
        views.append(seen)
        shares_then.append(share.chosen)
        half = seen if half is None and share.chosen >= 0.5 else half
        full = seen if share.chosen >= terms.largest_share - 1e-9 else None
        waiting.append((step, Shares.of(share.chosen, terms.random)))
        seen += step
    return Ramp(np.array(views), np.array(shares_then), half, full)
