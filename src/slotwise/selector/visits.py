"""The visitors of a selector: how they are written, and what each feature value has brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.features import NOT_KNOWN, Features, Visitor
from slotwise.policies import NOBODY
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selector.report import VisitorReport, rate_of

Floats = NDArray[np.float64]

N_TOP_LINKS = 3
"""Links that a report names for each value."""

PAGES, OUTCOMES = range(2)


class Visits:
    """Declared features, and settled pages and outcomes by level and feature value."""

    def __init__(self, features: Features, n_levels: int) -> None:
        self.features = features
        self.counts = np.zeros((n_levels, 2, sum(features.sizes)))

    def restore(self, features: Features, counts: Floats) -> None:
        """Take over what a file holds."""
        self.features = features
        if counts.shape != self.counts.shape or not (np.isfinite(counts) & (counts >= 0)).all():
            raise ValueError(f"array visits must be counts of shape {self.counts.shape}")
        self.counts[:] = counts

    def encode(self, visitor: Mapping[str, Any] | None) -> Visitor:
        """Return the visitor as places of feature values."""
        if visitor is None and not self.features.features:
            return NOBODY
        return self.features.encode(visitor)

    def logged(self, visitor: Visitor) -> dict[str, str | None]:
        """Return the visitor as a log has it: a label for each feature, None if not known."""
        known = self.features.describe(visitor)
        return {name: None if label == NOT_KNOWN else label for name, label in known.items()}

    def note(self, visitor: Visitor, level: int, outcomes: Floats, n_pages: float = 1.0) -> None:
        """Count a page whose level is settled with these outcomes of its links.

        `n_pages` is 0 for outcomes that are added to those of a page counted before.
        """
        if not len(visitor):
            return
        outcome = float(outcomes.sum())
        for place in visitor.tolist():
            self.counts[level, PAGES, place] += n_pages
            self.counts[level, OUTCOMES, place] += outcome

    def report(
        self,
        problem: Problem,
        max_revenue: float,
        links: Sequence[Link],
        page_for: Callable[[Visitor], Floats],
    ) -> tuple[VisitorReport, ...]:
        """Return a row for every value seen; `page_for` gives the probabilities for a visitor."""
        rows = []
        n_slots, floors = problem.n_slots, dict(problem.value_floors)
        for place in np.flatnonzero(self.counts[0, PAGES] > 0.0).tolist():
            name, label = self.features.label(place)
            visitor = self.features.encode()
            visitor[[feature.name for feature in self.features.features].index(name)] = place
            likeliest = np.argsort(-page_for(visitor), kind="stable")[: min(N_TOP_LINKS, n_slots)]
            n_pages, clicks = self.counts[0, :, place]
            n_settled, revenue = self.counts[-1, :, place]
            rows.append(
                VisitorReport(
                    feature=name,
                    value=label,
                    page_views=round(n_pages),
                    # a page brings up to n_slots clicks: the interval is for the mean of a slot
                    clicks=rate_of(clicks / n_slots, n_pages, n_slots),
                    revenue=rate_of(revenue / n_slots, n_settled, n_slots * max_revenue),
                    top_links=tuple(links[k] for k in likeliest.tolist()),
                    click_floor=floors.get(place),
                )
            )
        return tuple(rows)
