"""What a selector adds up with every update: pages delivered, money that was cut, unknown words.

Used by `report`, `report_text` and `selector`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.arrays import Floats, Places
from slotwise.compile import switching
from slotwise.features import Features
from slotwise.policies.policy import Counts
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection.confidence import kl_lower, kl_upper
from slotwise.selection.floor_status import (
    click_estimates,
    clicks_delivered,
    floor_status,
    most_clicks,
)
from slotwise.selection.mean_interval import mean_interval
from slotwise.selection.rules import SlotRule, solve_rules
from slotwise.selector.arguments import checked_money


@dataclass(frozen=True)
class Rate:
    """An estimated rate per view, 0 before any view, with a 95 % interval around it.

    The interval covers the true rate at least that often for a number of views that was fixed
    beforehand, not at a moment chosen by looking at it.
    """

    estimate: float
    low: float
    high: float


def rate_of(total: float, n_views: float, scale: float = 1.0) -> Rate:
    """Return a rate with its 95 % Chernoff interval, valid for any outcomes in [0, 1].

    >>> rate_of(0.0, 0.0)
    Rate(estimate=0.0, low=0.0, high=1.0)
    """
    if n_views <= 0:
        return Rate(0.0, 0.0, scale)
    width = math.log(2 / 0.05)
    mean = min(1.0, total / n_views)
    low = min(mean, switching(kl_lower)(float(total), float(n_views), width))
    high = max(mean, switching(kl_upper)(float(total), float(n_views), width))
    return Rate(float(mean * scale), float(low * scale), float(high * scale))


@dataclass(frozen=True)
class AnytimeRate:
    """An estimated mean, with a 95 % interval that holds at all times at once.

    You may look as often as you like and stop at any moment; `Rate` is narrower and does not allow
    that.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class DeliveredReport:
    """Clicks and revenue per page view since the floor was last set, with 95 % intervals.

    The intervals hold at all times at once. `status` compares the
    delivered clicks with the click floor (`slotwise.selection.floor_status`): `met` if their
    interval is above the floor, or contains it and is known to within 10 % of the floor;
    `infeasible` if no page of these links reaches the floor; otherwise `learning`.
    """

    page_views: int
    clicks: AnytimeRate
    revenue: AnytimeRate
    click_floor: float
    status: str


class DeliveredTotals:
    """Settled pages, their outcomes and the squares, of the first and of the last level."""

    def __init__(self) -> None:
        self._totals = [0.0] * 6

    @property
    def totals(self) -> Floats:
        """Pages, outcomes and their squares: a row for the first level, one for the last."""
        return np.array(self._totals).reshape(2, 3)

    def note(
        self, level: int, n_levels: int, n_pages: float, brought: float, squares: float
    ) -> None:
        """Count settled pages of a level; levels between the first and the last do not matter.

        `squares` is the sum of the squared outcomes of the pages, or an upper bound of it where
        single pages are not known.
        """
        if level == 0:
            row = 0
        elif level == n_levels - 1:
            row = 3
        else:
            return
        self._totals[row] += n_pages
        self._totals[row + 1] += brought
        self._totals[row + 2] += squares

    def start_again(self) -> None:
        """Forget what was delivered under another floor."""
        self._totals = [0.0] * 6

    def restore(self, totals: Floats, n_slots: int) -> None:
        """Restore the totals from a file; files of the first format have no squares."""
        if totals.shape == (2, 2):  # no page brings more than `n_slots`
            totals = np.column_stack([totals, n_slots * totals[:, 1]])
        if totals.shape != (2, 3) or not (np.isfinite(totals) & (totals >= 0)).all():
            raise ValueError("array delivered must be counts of shape (2, 3)")
        self._totals = totals.astype(np.float64).ravel().tolist()

    def report(
        self,
        problem: Problem,
        max_revenue: float,
        counts: Counts,
        rules: Sequence[SlotRule] = (),
    ) -> DeliveredReport:
        """Return rates per page view and the status of the floor; `counts` are those of links."""
        n_pages, clicks, squares, n_settled, revenue, revenue_squares = self._totals
        floor, n_slots = problem.click_floor, problem.n_slots
        interval = clicks_delivered(n_pages, clicks, squares, n_slots, floor)
        rates, variances = click_estimates(counts.views[0], counts.sums[0])
        page = solve_rules(rates, rates, n_slots, 0.0, rules).probabilities if rules else None
        _, most = most_clicks(rates, variances, n_slots, page)
        low, high = mean_interval(n_settled, revenue, revenue_squares, float(n_slots))
        earned = revenue / n_settled * max_revenue if n_settled else 0.0
        return DeliveredReport(
            page_views=round(n_pages),
            clicks=AnytimeRate(clicks / n_pages if n_pages else 0.0, *interval),
            revenue=AnytimeRate(earned, low * max_revenue, high * max_revenue),
            click_floor=floor,
            status=floor_status(floor, interval, most),
        )


class RevenueClipped(UserWarning):
    """Revenue above `max_revenue` counts as `max_revenue`."""


class Money:
    """The scale of a selector's revenue, and how many amounts were above it."""

    def __init__(self, max_revenue: float) -> None:
        self.max_revenue = checked_money(max_revenue)
        self.n_clipped = 0
        self._first_clipped = 0.0

    def scaled(self, revenue: Floats, most: Floats) -> Floats:
        """Return revenue in units of `max_revenue`, clipped at `most`.

        What is clipped is counted.
        """
        with np.errstate(over="ignore"):
            scaled: Floats = revenue / self.max_revenue
        over = scaled > most
        if over.any():
            a_click = revenue[over] / np.maximum(most[over], 1.0)
            self._count_clipped(a_click.tolist())
            scaled[over] = most[over]
        return scaled

    def scaled_page(self, earned: Mapping[Link, float]) -> dict[Link, float]:
        """Return what the links of one page earned in units of `max_revenue`, clipped at 1."""
        most = self.max_revenue
        if earned and max(earned.values()) / most > 1.0:
            return {link: min(amount / most, 1.0) for link, amount in earned.items()}
        return {link: amount / most for link, amount in earned.items()}

    def count_clipped(self, earned: Mapping[Link, float], pool: Container[Link]) -> None:
        """Count the amounts that `scaled_page` clipped, for links of the pool."""
        most = self.max_revenue
        if earned and max(earned.values()) / most > 1.0:
            over = [earned[link] for link in earned if earned[link] / most > 1.0 and link in pool]
            self._count_clipped(over)

    def _count_clipped(self, amounts: list[float]) -> None:
        if amounts and not self.n_clipped:
            self._first_clipped = max(amounts)
        self.n_clipped += len(amounts)

    def warn(self) -> None:
        """Warn once, after everything is learned, that an amount was clipped."""
        amount, self._first_clipped = self._first_clipped, 0.0
        if amount:
            warnings.warn(
                f"revenue of {amount:g} for a click is above max_revenue ({self.max_revenue:g}) "
                "and counts as that; give the most that a click can bring as `max_revenue=`; "
                "`report().n_clipped` counts such amounts",
                RevenueClipped,
                stacklevel=4,
            )


class UnknownWord(UserWarning):
    """A word outside the closed list of a feature counts as not known."""


class UnknownWords:
    """Counts values of visitors that are in no closed list, and warns of the first one."""

    def __init__(self) -> None:
        self.n = 0

    def note(self, features: Features, visitor: Mapping[str, object], places: Places) -> None:
        """Count the unknown words of a visitor that is encoded as `places`."""
        for name, value, known in features.unknown_words(visitor, places):
            self.n += 1
            if self.n == 1:
                warnings.warn(
                    f"{value!r} is not a value of the feature {name!r} ({', '.join(known)}), so it "
                    "is taken as not known; `report().n_unknown_words` counts such values",
                    UnknownWord,
                    stacklevel=4,
                )
