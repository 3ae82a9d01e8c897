"""What candidates would have earned: intervals of the answers from a log.

The answers of `evaluation` are drawn with it, through `slotwise.figures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise.errors import InvalidInput
from slotwise.evaluation import Estimate, Evaluation
from slotwise.figures.canvas import ShownFigure, house_style, write_titles
from slotwise.figures.style import (
    BLUE,
    INK,
    MUTED,
    VERMILION,
    number_axis,
    readable,
)

WIDTH, ROW_HEIGHT, FRAME_HEIGHT = 9.6, 0.42, 2.1
THE_LOG = "the log itself"


Row = tuple[Estimate, tuple[float, float] | None, str]
"""One line of a panel: the interval, the bootstrap's where there is one, and the colour."""


def draw_answers(answers: Mapping[str, Evaluation], title: str = "What if?") -> Figure:
    """Draw the estimated outcomes of candidates, next to those of the log's own pages.

    A thick line is the interval, a thin line below it the bootstrap's interval.
    """
    if not answers:
        raise InvalidInput.of("answers", "at least one answer", {})
    first = next(iter(answers.values()))
    money = f" in {first.currency}" if first.currency else ""
    with house_style():
        height = FRAME_HEIGHT + ROW_HEIGHT * (1 + len(answers))
        figure = ShownFigure(figsize=(WIDTH, height))
        grid = figure.add_gridspec(
            1,
            2,
            left=0.17,
            right=0.97,
            top=1 - 1.35 / height,
            bottom=0.55 / height,
            wspace=0.12,
        )
        names = [*answers, THE_LOG]
        for place, (level, meaning) in enumerate(
            (("revenue", f"per page view{money}"), ("clicks", "per page view"))
        ):
            axes = figure.add_subplot(grid[0, place])
            rows: list[Row] = [
                (
                    getattr(answer, level),
                    answer.bootstrap.get(level),
                    VERMILION if answer.cannot_tell else BLUE,
                )
                for answer in answers.values()
            ]
            rows.append((getattr(first, f"logged_{level}"), None, MUTED))
            _draw_level(axes, rows, names if place == 0 else [""] * len(names))
            _write_above(axes, 20, level.capitalize(), fontsize=11, fontweight="bold")
            _write_above(axes, 7, meaning, fontsize=8.5, color=MUTED)
            if level == "clicks":
                _mark_floors(axes, {answer.click_floor for answer in answers.values()})
        worth = f"worth {first.effective_sample_size:,.0f} of the candidate"
        basis = first.cannot_tell or f"{first.n_pages:,} page views, {worth}"
        subtitle = f"{basis}  ·  {first.confidence:.0%} intervals, both together; thin: bootstrap"
        write_titles(figure, title, subtitle, 0.3, fontsize=9)
    return figure


def _draw_level(axes: Axes, rows: list[Row], names: list[str]) -> None:
    for place, (estimate, second_opinion, colour) in enumerate(rows):
        line: dict[str, Any] = {"color": colour, "solid_capstyle": "butt"}
        axes.plot([estimate.low, estimate.high], [place, place], linewidth=5, alpha=0.35, **line)
        if second_opinion is not None:
            axes.plot(second_opinion, [place + 0.25] * 2, linewidth=1.2, **line)
        axes.plot([estimate.value], [place], "o", color=colour, markersize=5)
        axes.annotate(
            readable(estimate.value),
            (estimate.value, place),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=INK,
        )
    axes.set_ylim(len(rows) - 0.5, -0.75)
    axes.set_yticks(range(len(names)), names, parse_math=False, color=INK)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.margins(x=0.08)
    number_axis(axes.xaxis)


def _write_above(axes: Axes, points: float, text: str, **look: Any) -> None:
    """Write a text `points` above the axes, independent of their height."""
    above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (0, 1), (0, points), parse_math=False, **above, **look)


def _mark_floors(axes: Axes, floors: set[float | None]) -> None:
    for floor in floors - {None}:
        at = float(floor or 0.0)
        axes.axvline(at, color=INK, linewidth=0.9, dashes=(4, 2), zorder=1)
        label = f" floor {readable(at)}"
        axes.annotate(label, (at, 0), xycoords=("data", "axes fraction"), va="bottom", fontsize=8)
