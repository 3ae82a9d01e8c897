"""Revenue in units of the most that a click can bring."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping

import numpy as np
from numpy.typing import NDArray

from slotwise.rounds import Link
from slotwise.selector.arguments import checked_money

__all__ = ["Money", "RevenueClipped"]

Floats = NDArray[np.float64]


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

    def scaled_page(self, earned: Mapping[Link, float], pool: Container[Link]) -> dict[Link, float]:
        """Return what the links of one page earned in units of `max_revenue`, clipped at 1.

        What is clipped is counted for the links of the pool.
        """
        most = self.max_revenue
        if earned and max(earned.values()) / most > 1.0:
            over = [earned[link] for link in earned if earned[link] / most > 1.0 and link in pool]
            self._count_clipped(over)
            return {link: min(amount / most, 1.0) for link, amount in earned.items()}
        return {link: amount / most for link, amount in earned.items()}

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
                "and counts as that; `report().n_clipped` counts such amounts",
                RevenueClipped,
                stacklevel=4,
            )
