"""The frontier of a log: what the best mix at each of several floors would have earned.

The command line and `figures` use it, through `slotwise.evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.evaluation.answers import NEEDED_BY, Evaluation
from slotwise.evaluation.candidates import BestMix
from slotwise.evaluation.evaluate import DEFAULT, EvaluationSettings, evaluate_all
from slotwise.evaluation.fitted_links import fit_links
from slotwise.evaluation.log_files import Source
from slotwise.extras import imported
from slotwise.selection import Frontier, frontier

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

N_FLOORS = 11


@dataclass(frozen=True)
class LogFrontier:
    """The best mix at each of `floors`; every point's intervals hold by themselves."""

    floors: tuple[float, ...]
    points: tuple[Evaluation, ...]

    def frame(self) -> polars.DataFrame:
        """Return a table with a row for each floor."""
        rows = [
            {
                "floor": floor,
                **{
                    f"{level}_{end}": getattr(getattr(point, level), end)
                    for level in ("revenue", "clicks")
                    for end in ("value", "low", "high")
                },
                "effective_sample_size": point.effective_sample_size,
                "uncovered": point.uncovered,
            }
            for floor, point in zip(self.floors, self.points, strict=True)
        ]
        table: polars.DataFrame = imported("polars", NEEDED_BY).DataFrame(rows)
        return table

    def curve(self, end: str = "value") -> Frontier:
        """Return revenue against floor as a curve to draw: of the "value", "low" or "high"."""
        values = np.array([getattr(point.revenue, end) for point in self.points])
        floors = np.array(self.floors)
        return Frontier(floors, values, np.maximum(0.0, -np.diff(values) / np.diff(floors)))

    def plot(self, title: str = "The price of the floor") -> Figure:
        """Draw revenue and shadow price against the floor, with the band of the intervals."""
        from slotwise.figures import draw_log_frontier  # a layer above, and only here

        return draw_log_frontier(self, title)


def frontier_of_log(
    log: Source,
    floors: Sequence[float] | None = None,
    settings: EvaluationSettings = DEFAULT,
    features: Sequence[str] = (),
    n_slots: int | None = None,
) -> LogFrontier:
    """Return what the best mix would have earned at each floor.

    Without `floors`, eleven from the last that costs nothing to the most clicks that a page can
    have, by the rates of the whole log. Reads the log twice, so it must be a file or a folder.
    Each page has as many links as in the log, or `n_slots`.
    """
    if floors is None:
        links = fit_links(log, settings.max_revenue)
        sizes = links.pages_of_size if n_slots is None else {n_slots: links.n_pages}
        ends = np.zeros(2)
        for size, n_pages in sizes.items():
            curve = frontier(links.revenue_rates, links.click_rates, size)
            ends += n_pages / links.n_pages * curve.floors[[0, -1]]
        floors = np.linspace(ends[0], ends[1], N_FLOORS).tolist()
    wanted = sorted({float(floor) for floor in floors})
    if not wanted:
        raise InvalidInput.of("floors", "at least one floor", wanted)
    candidates = {f"floor {floor:.4g} ({k})": floor for k, floor in enumerate(wanted)}
    answers = evaluate_all(
        log,
        {name: BestMix(floor, n_slots, features) for name, floor in candidates.items()},
        settings,
    )
    return LogFrontier(tuple(wanted), tuple(answers.values()))
