"""The own page of a selector, the promise about it, and its comparison with chosen pages.

Used by `report`, `report_text`, `selector` and `selector_file`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.errors import InvalidInput
from slotwise.player.link_pool import LinkPool
from slotwise.player.own_page import OwnView, own_places, visitor_number
from slotwise.problem import Problem, is_finite_number
from slotwise.rounds import Link
from slotwise.selection.floor_status import clicks_delivered
from slotwise.selection.promise import (
    N_CHOSEN,
    N_OWN,
    RANGES,
    AnytimeInterval,
    Group,
    OpenCounts,
    PromiseEvidence,
    Share,
    Shares,
    Terms,
    balance,
    compare,
    next_share,
)
from slotwise.selector.open_pages import OpenPage

MIN_STEP = 10
"""The least number of views between two decisions about the share."""

STEP = 0.02
"""The views between two decisions, as a part of all views so far."""


def checked_holdout(holdout: Any) -> float:
    """Return the share of own pages that stays for comparison."""
    if not (is_finite_number(holdout) and RANGES[-1] <= holdout <= 1):
        raise InvalidInput.of("holdout", f"from {RANGES[-1]:g} to 1", holdout)
    return float(holdout)


def new_secret(seed: int | None) -> bytes:
    """Return a secret for the groups of visitors; the same one for the same seed."""
    if seed is None:
        return os.urandom(32)
    return hashlib.sha256(f"groups of visitors {seed}".encode()).digest()


@dataclass(frozen=True)
class ComparisonReport:
    """Chosen pages against the own page, over settled pages, with 95 % intervals.

    The intervals hold at all times at once, so you may stop at any moment. `lift` is how much more
    chosen pages earn than the own page would have earned on the same views, as a part of the
    latter; None before the own page has earned something. `gained` is the same in money, in total.
    `share_chosen` is the share of chosen pages now and `why` says in a sentence what it depends
    on. `cost` is what own pages would have earned more as chosen pages, at the estimated lift: what
    comparison and promise have cost. `balance` is the revenue so far above what is promised; None
    without a promise. `own_clicks` are clicks per own page and `own_misses_floor` says that they
    are certainly below the click floor.
    """

    lift: AnytimeInterval | None
    gained: AnytimeInterval
    share_chosen: float
    why: str
    cost: float
    keep: float | None
    balance: AnytimeInterval | None
    n_own: int
    n_chosen: int
    own_revenue: AnytimeInterval
    chosen_revenue: AnytimeInterval
    own_clicks: AnytimeInterval
    own_misses_floor: bool

    @property
    def is_worse(self) -> bool:
        """Whether chosen pages are certainly worse than the own page."""
        return self.lift is not None and self.lift.high < 0.0


class PromisedPages:
    """Which pages are own pages, and the evidence about them.

    `keep` is the promised part of the own page's revenue, or None. `holdout` is the share of own
    pages that stays for comparison.
    """

    def __init__(
        self, order: Sequence[Link], keep: float | None, holdout: float, secret: bytes
    ) -> None:
        self.order, self.keep, self.holdout, self.secret = tuple(order), keep, holdout, secret
        self.evidence = PromiseEvidence()
        self.clicks = np.zeros(3)
        """Own pages with settled clicks, their clicks and the squares."""
        self.open = {"own": 0, "other": 0}
        self.first_page = 1
        """The number of the first page since the own page was given."""
        self.share = Share(0.0 if keep else 1.0 - holdout, 0.0, 0.0, "start")
        self.n_since = self.n_other_since = 0
        """Views, and chosen pages among them, since the share was decided."""
        self._places: tuple[LinkPool, Links] | None = None

    def view(
        self, problem: Problem, pool: LinkPool, key: str | None, rng: np.random.Generator
    ) -> OwnView:
        """Return shares and group of the next view; its visitor may have a key."""
        number = rng.random() if key is None else visitor_number(self.secret, key)
        shares = self.shares(problem)
        return OwnView(self.places(pool), shares, shares.group(number))

    def places(self, pool: LinkPool) -> Links:
        """Return the places of the order in a pool."""
        if self._places is None or self._places[0] is not pool:
            self._places = pool, own_places(self.order, pool)
        return self._places[1]

    def shares(self, problem: Problem) -> Shares:
        """Return the shares of the next view; they are decided anew every few views."""
        if self.keep is None:
            return Shares.of(self.share.chosen)
        n_views = self.evidence.n_views + self.open["own"] + self.open["other"]
        if self.n_since >= max(MIN_STEP, STEP * n_views):
            self.decide(problem)
        is_allowed = self.n_other_since + 1 <= self.share.max_other
        return Shares.of(self.share.chosen if is_allowed else 0.0)

    def decide(self, problem: Problem) -> None:
        """Decide the share of the next views."""
        open_views = OpenCounts(self.open["own"], self.open["other"])
        previous, terms = self.share.chosen, self.terms(problem)
        self.share = next_share(self.evidence, open_views, terms, previous=previous)
        self.n_since = self.n_other_since = 0

    def terms(self, problem: Problem) -> Terms:
        """Return what is promised, for revenue in units of `max_revenue`."""
        return Terms(self.keep or 0.0, most_reward(problem), self.holdout)

    def issued(self, group: Group) -> None:
        """Count a page that was chosen just now."""
        kind = "own" if group == "own" else "other"
        self.open[kind] += 1
        self.n_since += 1
        self.n_other_since += kind == "other"

    def forget(self, page: OpenPage) -> None:
        """Remove a page that will get no feedback."""
        self.note_open(page, -1)

    def note_open(self, page: OpenPage, n_views: int = 1) -> None:
        """Add a page to the open ones, or with -1 remove it."""
        if page.number >= self.first_page:
            self.open["own" if page.group == "own" else "other"] += n_views

    def take(self, before: PromisedPages) -> None:
        """Continue with the evidence about the same own page."""
        self.evidence, self.clicks = before.evidence, before.clicks
        self.open, self.first_page = before.open, before.first_page

    def settle(self, page: OpenPage, totals: Sequence[float], problem: Problem) -> None:
        """Count a page whose levels are all settled; `totals` has the outcome of each level."""
        if page.number < self.first_page:
            return
        self.note_open(page, -1)
        rewards = [problem.rewards.get(name, 0.0) for name in problem.levels]
        earned = sum(weight * total for weight, total in zip(rewards, totals, strict=True))
        self.evidence.note(page.group, Shares.of(page.share), earned)
        if page.group == "own":
            self.clicks += 1.0, totals[0], totals[0] ** 2

    def report(self, problem: Problem, max_revenue: float) -> ComparisonReport:
        """Return the comparison in money."""
        most = most_reward(problem)
        found, sums = compare(self.evidence, most), self.evidence.sums

        def money(one: AnytimeInterval) -> AnytimeInterval:
            return AnytimeInterval(*(end * max_revenue for end in one))

        n_clicks, clicks, squares = self.clicks.tolist()
        floor, n_slots = problem.click_floor, problem.n_slots
        ends = clicks_delivered(n_clicks, clicks, squares, n_slots, floor)
        share = self.shares(problem)
        return ComparisonReport(
            lift=found.lift,
            gained=money(found.gained),
            share_chosen=share.chosen,
            why=self._why(share),
            cost=found.given_up * max_revenue,
            keep=self.keep,
            balance=money(balance(self.evidence, self.terms(problem))) if self.keep else None,
            n_own=round(sums[:, N_OWN].sum()),
            n_chosen=round(sums[:, N_CHOSEN].sum()),
            own_revenue=money(found.own),
            chosen_revenue=money(found.chosen),
            own_clicks=AnytimeInterval(clicks / n_clicks if n_clicks else 0.0, *ends),
            own_misses_floor=bool(n_clicks and ends[1] < floor),
        )

    def _why(self, shares: Shares) -> str:
        if self.keep is None:
            return f"{self.holdout:.0%} own pages stay for comparison; nothing is promised"
        if shares.chosen == 0.0:
            return "the next pages are own pages, because another one could break the promise"
        earns = (
            f"chosen pages certainly earn at least {min(self.share.rho, 9.99):.0%} of the own page"
        )
        if self.share.reason == "all":
            return earns
        if self.share.reason == "start":
            return "there is too little evidence; even if chosen pages earned nothing, it is kept"
        return f"{earns}; {self.keep:.0%} is promised"

    # Saving

    def plain(self) -> dict[str, Any]:
        """Return everything but the order and the arrays, for a JSON file."""
        return {
            "keep": self.keep,
            "holdout": self.holdout,
            "secret": self.secret.hex(),
            "share": list(self.share),
            "first_page": self.first_page,
            "n_since": self.n_since,
            "n_other_since": self.n_other_since,
        }

    @classmethod
    def restore(
        cls, order: Sequence[Link], plain: dict[str, Any], evidence: Floats, clicks: Floats
    ) -> PromisedPages:
        """Return what `plain` and the arrays were made of; open pages are added by the caller."""
        secret = bytes.fromhex(plain["secret"])
        pages = cls(order, plain["keep"], checked_holdout(plain["holdout"]), secret)
        pages.evidence = PromiseEvidence.restore(evidence)
        if clicks.shape != (3,) or not (np.isfinite(clicks) & (clicks >= 0)).all():
            raise ValueError("array own_clicks must be three counts")
        pages.clicks = clicks.astype(np.float64)
        pages.share = Share(*plain["share"])
        pages.first_page = int(plain["first_page"])
        pages.n_since, pages.n_other_since = int(plain["n_since"]), int(plain["n_other_since"])
        return pages


def most_reward(problem: Problem) -> float:
    """Return the largest reward of a page, where every link reaches every level in full."""
    return problem.n_slots * sum(problem.rewards.values())


def comparison_lines(found: ComparisonReport | None) -> list[str]:
    """Return the comparison in sentences."""
    if found is None:
        return []
    if found.lift is None:
        lines = ["own page: no revenue yet to compare with"]
    else:
        lift = found.lift
        ends = f"{lift.low:+.0%} to {lift.high:+.0%}"
        lines = [f"chosen pages earn {lift.estimate:+.0%} against the own page ({ends})"]
    lines.append(f"{found.share_chosen:.1%} of pages are chosen now: {found.why}")
    if found.own_misses_floor:
        clicks = found.own_clicks.estimate
        lines.append(
            f"the own page misses the click floor: it has {clicks:.4g} clicks a page, and chosen "
            "pages make up for it at the expense of revenue"
        )
    return lines
