"""The figures of answers from a log: estimates with their intervals, and the price of the floor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from slotwise.errors import InvalidInput
from slotwise.evaluation import Estimate, Evaluation, LogFrontier
from slotwise.figures.floor_price.frontier import FrontierPicture, draw_frontier
from slotwise.figures.look.canvas import ShownFigure, house_style
from slotwise.figures.look.style import BLUE, INK, MUTED, VERMILION, readable

__all__ = ["draw_answers", "draw_log_frontier"]

WIDTH, ROW_HEIGHT, FRAME_HEIGHT = 9.6, 0.42, 2.1
THE_LOG = "the log itself"


class Row(NamedTuple):
    """One line of a panel: the interval and the bootstrap's, where there is one."""

    estimate: Estimate
    second_opinion: tuple[float, float] | None
    colour: str


def draw_answers(answers: Mapping[str, Evaluation], title: str = "What if?") -> Figure:
    """Draw what candidates would have brought, beside what the log's own pages brought.

    A thick line is the interval, a thin one under it the bootstrap's second opinion.
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
            logged = Row(getattr(first, f"logged_{level}"), None, MUTED)
            rows = [_row(answer, level) for answer in answers.values()]
            _draw_level(axes, [*rows, logged], names if place == 0 else [""] * len(names))
            _write_above(axes, 20, level.capitalize(), fontsize=11, fontweight="bold")
            _write_above(axes, 7, meaning, fontsize=8.5, color=MUTED)
            if level == "clicks":
                _mark_floors(axes, {answer.click_floor for answer in answers.values()})
        _write_titles(figure, title, first)
    return figure


def _row(answer: Evaluation, level: str) -> Row:
    colour = VERMILION if answer.cannot_tell else BLUE
    return Row(getattr(answer, level), answer.bootstrap.get(level), colour)


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
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))


def _write_above(axes: Axes, points: float, text: str, **look: Any) -> None:
    """Write so many points above the axes, however tall they are."""
    above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (0, 1), (0, points), parse_math=False, **above, **look)


def _mark_floors(axes: Axes, floors: set[float | None]) -> None:
    for floor in floors - {None}:
        at = float(floor or 0.0)
        axes.axvline(at, color=INK, linewidth=0.9, dashes=(4, 2), zorder=1)
        said = f" floor {readable(at)}"
        axes.annotate(said, (at, 0), xycoords=("data", "axes fraction"), va="bottom", fontsize=8)


def _write_titles(figure: Figure, title: str, answer: Evaluation) -> None:
    width, height = figure.get_size_inches()
    left = 0.3 / width
    figure.text(
        left, 1 - 0.2 / height, title, fontsize=15, fontweight="bold", va="top", parse_math=False
    )
    told = answer.cannot_tell or (
        f"{answer.n_pages:,} page views, worth {answer.effective_sample_size:,.0f} of the candidate"
    )
    said = f"{told}  ·  {answer.confidence:.0%} intervals, both together; thin: bootstrap"
    figure.text(left, 1 - 0.53 / height, said, fontsize=9, color=MUTED, va="top", parse_math=False)


def draw_log_frontier(curve: LogFrontier, title: str = "The price of the floor") -> Figure:
    """Draw the best mix at each floor, from the log alone, with its band."""
    first = curve.points[0]
    picture = FrontierPicture(
        title=title,
        subtitle=f"{first.n_pages:,} page views, cross-fitted  ·  band: {first.confidence:.0%}",
        curve=curve.curve(),
        band=(curve.curve("low"), curve.curve("high")),
    )
    return draw_frontier(picture)
