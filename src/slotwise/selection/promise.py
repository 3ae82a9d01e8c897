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
are 0. The lower end plus 1 is rho. The share of chosen pages is then

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
from slotwise.selection.mean_interval import FAILURE_PROBABILITY, least_sum, mean_interval

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

ENTRY = 2.0
"""The balance that a range of p needs before it is used, in units of its entry cost."""

RESERVE = 0.1
"""The balance at which a share that was reached is given up, in the same units."""

LARGEST_RATIO = 1e6
"""A ratio above this is reported as this."""

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
    def restore(cls, plain: Any) -> PromiseEvidence:
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
    """

    lift: AnytimeInterval | None
    gained: AnytimeInterval
    given_up: float
    own: AnytimeInterval
    chosen: AnytimeInterval

    @property
    def rho(self) -> float:
        """The lower bound on the ratio of chosen to own revenue."""
        return 0.0 if self.lift is None else 1.0 + self.lift.low

    @property
    def is_worse(self) -> bool:
        """Whether chosen pages are certainly worse than the own page."""
        return self.lift is not None and self.lift.high < 0.0


def compare(
    evidence: PromiseEvidence, most: float, *, failure: float = FAILURE_PROBABILITY
) -> OwnPageComparison:
    """Compare chosen pages with the own page; `most` is the largest revenue of a view.

    >>> evidence = PromiseEvidence()
    >>> evidence.note_many("own", Shares.of(0.5), 20_000, (400.0, 400.0))
    >>> evidence.note_many("chosen", Shares.of(0.5), 20_000, (600.0, 600.0))
    >>> [round(end, 2) for end in compare(evidence, 1.0).lift]
    [0.5, 0.12, 1.01]
    """
    alpha = failure / 2.0
    totals = evidence.sums.sum(axis=0)
    like, earned = float(totals[LIKE_SUM]), float(totals[CHOSEN_SUM])
    lift = None
    if like > 0.0:
        ratio = earned / like
        low = least_ratio(evidence, most, failure=failure)
        high = _root(lambda r: _most_gain(evidence, r, most, alpha), ratio, up=True)
        lift = AnytimeInterval(ratio - 1.0, low - 1.0, high - 1.0)
    gain = _least_gain(evidence, 1.0, most, alpha), _most_gain(evidence, 1.0, most, alpha)
    return OwnPageComparison(
        lift=lift,
        gained=AnytimeInterval(min(max(earned - like, gain[0]), gain[1]), *gain),
        given_up=max(0.0, lift.estimate) * float(totals[OWN_SUM]) if lift else 0.0,
        own=_mean(totals, N_OWN, OWN_SUM, most, failure),
        chosen=_mean(totals, N_CHOSEN, CHOSEN_SUM, most, failure),
    )


def least_ratio(
    evidence: PromiseEvidence, most: float, *, failure: float = FAILURE_PROBABILITY
) -> float:
    """Return rho, the lower bound on chosen over own revenue; 0 where there is no evidence."""
    totals = evidence.sums.sum(axis=0)
    if totals[LIKE_SUM] <= 0.0:
        return 0.0
    ratio, alpha = float(totals[CHOSEN_SUM] / totals[LIKE_SUM]), failure / 2.0
    return _root(lambda r: _least_gain(evidence, r, most, alpha), ratio, up=False)


def _mean(totals: Floats, count: int, first: int, most: float, failure: float) -> AnytimeInterval:
    n_views, total, squares = (float(totals[k]) for k in (count, first, first + 1))
    ends = mean_interval(n_views, total, squares, most, failure_probability=failure)
    return AnytimeInterval(total / n_views if n_views else 0.0, *ends)


def _least_gain(evidence: PromiseEvidence, ratio: float, most: float, alpha: float) -> float:
    """Return a lower bound on the sum of C_t - ratio B_t over chosen views."""
    total = 0.0
    own_at_most = _own_rate(evidence, most)[1]
    for row, least_own in zip(evidence.sums, RANGES, strict=True):
        if row[N_OWN] + row[N_CHOSEN]:
            above = float(row[CHOSEN_SUM] - ratio * row[LIKE_SUM])
            spread = float(row[CHOSEN_SQUARES] + ratio * ratio * row[LIKE_SQUARES])
            reach = ratio * most * (1.0 - least_own) / least_own
            least = least_sum(above, spread, reach, most, alpha / len(RANGES))
            total += max(least, -ratio * own_at_most * float(row[N_CHOSEN]))
    return total


def _own_rate(evidence: PromiseEvidence, most: float) -> tuple[float, float]:
    """Return bounds on the mean revenue of the own page; both ever miss with `RATE_FAILURE`."""
    totals = evidence.sums.sum(axis=0)
    own = _mean(totals, N_OWN, OWN_SUM, most, RATE_FAILURE)
    return own.low, own.high


def _most_gain(evidence: PromiseEvidence, ratio: float, most: float, alpha: float) -> float:
    """Return an upper bound on the sum of C_t - ratio B_t over chosen views."""
    total = 0.0
    for row in evidence.sums:
        if row[N_OWN] + row[N_CHOSEN]:
            below = float(ratio * row[LIKE_SUM] - row[CHOSEN_SUM])
            spread = float(row[CHOSEN_SQUARES] + ratio * ratio * row[LIKE_SQUARES])
            total -= least_sum(below, spread, most, most, alpha / len(RANGES))
    return total


def _root(bound: Callable[[float], float], start: float, *, up: bool) -> float:
    """Return the ratio at which a bound that falls with it is 0, on one side of the estimate.

    The end that is returned errs on the safe side by at most 0.01 % of the ratio.
    """
    if up:
        low, high = start, max(2.0 * start, 1e-6)
        at_low, at_high = bound(low), bound(high)
        while at_high > 0.0:
            low, high, at_low = high, 2.0 * high, at_high
            if high > LARGEST_RATIO:
                return LARGEST_RATIO
            at_high = bound(high)
    else:
        low, high = 0.0, start
        at_low = bound(low)
        if at_low <= 0.0:
            return 0.0
        at_high = bound(high)
        if at_high > 0.0:
            return high
    for _ in range(60):  # the Illinois method: secants that also move the end that stays
        if high - low <= max(1e-4 * high, 1e-9):
            break
        middle = low + (high - low) * at_low / (at_low - at_high)
        middle = min(max(middle, low + 2e-5 * high), high * (1.0 - 2e-5))
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


class _RangeBalance(NamedTuple):
    """The balance over the views of one range of p, with what it costs to use the range at all."""

    estimate: float
    low: float
    high: float
    entry_cost: float


def _balances(evidence: PromiseEvidence, terms: Terms) -> list[_RangeBalance]:
    """Return the balance of every range.

    A lower bound by evidence starts at minus `entry_cost`, because a single sale on an own page
    counts 1 / p times. While that is less, the views of other pages count as if they earned
    nothing.
    """
    keep, most = terms.keep, terms.most
    alpha = (FAILURE_PROBABILITY - RATE_FAILURE) / len(RANGES)
    own_low, own_high = _own_rate(evidence, most)
    found = []
    for row, least_own in zip(evidence.sums, RANGES, strict=True):
        reach = most * max(0.0, keep / least_own - 1.0)
        cost = -least_sum(0.0, 0.0, reach, most, alpha)
        if not row[: N_RANDOM + 1].any():
            found.append(_RangeBalance(0.0, 0.0, 0.0, cost))
            continue
        total = float(row[OWN_SUM] + row[CHOSEN_SUM] + row[RANDOM_SUM] - keep * row[ALL_SUM])
        spread = float(
            row[OWN_SQUARES]
            + row[CHOSEN_SQUARES]
            + row[RANDOM_SQUARES]
            + keep * keep * row[ALL_SQUARES]
            - 2.0 * keep * row[ALL_TIMES_OWN]
        )
        spread = max(spread, 0.0)
        low = least_sum(total, spread, reach, most, alpha)
        n_own, n_other = float(row[N_OWN]), float(row[N_CHOSEN] + row[N_RANDOM])
        low = max(low, (1.0 - keep) * own_low * n_own - keep * own_high * n_other)
        high = -least_sum(-total, spread, most, most, alpha)
        found.append(_RangeBalance(total, low, high, cost))
    return found


def balance(evidence: PromiseEvidence, terms: Terms) -> AnytimeInterval:
    """Return revenue so far less what is promised, over settled views, in the unit of revenue.

    The lower end holds with the failure probability of the promise; the upper end likewise.
    """
    ranges = _balances(evidence, terms)
    estimate, low, high = (float(sum(one[k] for one in ranges)) for k in range(3))
    return AnytimeInterval(min(max(estimate, low), high), low, high)


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
    ranges = _balances(evidence, terms)
    # more other pages than expected: each of them may have lost what the own page earns
    excess = max(0.0, evidence.n_other - float(evidence.sums[:, P_OTHER].sum()))
    least = sum(one.low for one in ranges) - excess * high
    in_views = least / high if least >= 0.0 else least / max(low, 1e-300)
    in_views += (1.0 - keep) * low / high * open_views.own - keep * open_views.other
    money, largest = in_views * high, 1.0 - RANGES[0]
    held = sum(money >= RESERVE * one.entry_cost for one in ranges)
    held_share = 1.0 - RANGES[held - 1] if held and money > 0.0 else 0.0
    for one, least_own in zip(ranges[1:], RANGES[1:], strict=True):
        is_paid_for = one.low >= 0.0 and one.high > 0.0
        if not is_paid_for and money - min(0.0, one.low) < ENTRY * one.entry_cost:
            break
        largest = 1.0 - least_own
    return Certificate(max(by_counts, in_views), largest, held_share)


class Share(NamedTuple):
    """The share of chosen pages until the next decision, and why.

    `max_other` is how many chosen and random pages there may be before the next decision; a caller
    that counts them stops there. `rho` is the lower bound on chosen over own revenue. `reason` is
    "all" (chosen pages certainly keep the promise), "evidence" (the share follows rho), "start"
    (there is no evidence yet) or "stopped" (the next pages must be own pages).
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
    `previous` is the share so far: it stays while the balance is large enough, because rho falls
    for a while whenever the share enters another range of p.

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
    wanted = max(wanted, min(previous, largest, certificate.held_share - terms.random))
    max_other = spare / keep if keep else math.inf
    n_open = open_views.own + open_views.other
    if n_open:  # a share that can stay until the open views are settled
        wanted = min(wanted, (max_other + open_views.other) / (n_open + (n_ahead or 0.0)))
    if n_ahead is not None:
        half = 0.5 * N_DEVIATIONS  # n s + 4 sqrt(n s) <= max_other
        most_views = (math.sqrt(half * half + max_other) - half) ** 2
        wanted = min(wanted, max(0.0, most_views / max(n_ahead, 1.0) - terms.random))
    if max_other < 1.0 or wanted <= 0.0:
        return Share(0.0, max_other, rho, "stopped")
    if wanted >= largest - 1e-12:
        return Share(largest, max_other, rho, "all")
    return Share(wanted, max_other, rho, "evidence" if rho > 0.0 else "start")


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
    is as large as it gets; None where that takes more views than were asked about.
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
