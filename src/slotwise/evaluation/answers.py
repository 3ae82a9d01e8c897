"""What an evaluation says: estimates with intervals, and how far the log can be trusted.

Used by `evaluate` and `log_frontier`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from slotwise.extras import imported

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure


NEEDED_BY = "a frame of an evaluation"
"""What needs polars; the service and the command line evaluate without it."""
MIN_SAMPLE = 30
"""Fewer effective page views than this say nothing."""
MAX_UNCOVERED = 0.2
MAX_RELATIVE_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value a page view, and the interval that holds it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What a candidate would have earned per page view.

    Both intervals hold together with probability `confidence`, at every length of the log at once.
    `logged_revenue` and `logged_clicks` are those of the pages of the log itself.
    `uncovered` is the share of the candidate's page that the log could not show; the estimates
    count it as the models predict (a link never shown as nothing), the intervals as anything
    possible. `n_fitted` pages only served to fit the candidate, `n_unsettled` were left out.
    """

    candidate: str
    estimator: str
    confidence: float
    revenue: Estimate
    clicks: Estimate
    logged_revenue: Estimate
    logged_clicks: Estimate
    effective_sample_size: float
    max_weight: float
    uncovered: float
    n_pages: int
    n_fitted: int
    n_unsettled: int
    n_clipped: int
    currency: str | None
    click_floor: float | None = None
    bootstrap: dict[str, tuple[float, float]] = field(default_factory=dict)
    mix: dict[str, float] = field(default_factory=dict)
    """The candidate's page on the last pages of the log, averaged over segments."""
    notes: tuple[str, ...] = ()

    @property
    def floor_is_kept(self) -> bool | None:
        """Whether the clicks keep the floor; None where the interval allows both."""
        if self.click_floor is None:
            return None
        if self.clicks.low >= self.click_floor:
            return True
        return False if self.clicks.high < self.click_floor else None

    @property
    def cannot_tell(self) -> str:
        """Why the log cannot tell, in a sentence; empty where it can."""
        if self.effective_sample_size < MIN_SAMPLE:
            size = f"{self.effective_sample_size:.2g}"
            return f"The log cannot tell: it is worth {size} page views of this candidate."
        if self.uncovered > MAX_UNCOVERED:
            share = f"{self.uncovered:.0%}"
            return f"The log cannot tell: it could not show {share} of this candidate's page."
        for name, estimate in (("revenue", self.revenue), ("clicks", self.clicks)):
            if estimate.high - estimate.low > MAX_RELATIVE_WIDTH * max(estimate.value, 1e-12):
                ends = f"{estimate.low:.4g} to {estimate.high:.4g}"
                money = f" {self.currency}" if name == "revenue" and self.currency else ""
                return f"The log cannot tell: {name} a page view may be from {ends}{money}."
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        names = (
            *("effective_sample_size", "max_weight", "uncovered", "estimator", "confidence"),
            *("n_pages", "n_fitted", "n_unsettled", "n_clipped", "currency", "click_floor"),
            *("floor_is_kept", "cannot_tell"),
        )
        logged = {"revenue": self.logged_revenue, "clicks": self.logged_clicks}
        return {
            "candidate": self.candidate,
            "revenue": asdict(self.revenue),
            "clicks": asdict(self.clicks),
            "logged": {level: asdict(estimate) for level, estimate in logged.items()},
            **{name: getattr(self, name) for name in names},
            "bootstrap": {name: list(ends) for name, ends in self.bootstrap.items()},
            "notes": list(self.notes),
        }

    def frame(self) -> polars.DataFrame:
        """Return a table with a row for revenue and one for clicks."""
        rows = {"revenue": self.revenue, "clicks": self.clicks}
        table: polars.DataFrame = imported("polars", NEEDED_BY).DataFrame(
            [
                {"candidate": self.candidate, "level": level, **asdict(estimate)}
                for level, estimate in rows.items()
            ]
        )
        return table

    def plot(self, title: str = "What if?") -> Figure:
        """Draw both estimates with their intervals, next to those of the log itself."""
        from slotwise.figures import draw_answers  # a layer above, and only here

        return draw_answers({self.candidate: self}, title)
