"""The price of the floor, from rates or from a log.

`slotwise frontier` and the frontiers of `evaluation` are drawn with it, through `slotwise.figures`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise.arrays import Floats
from slotwise.evaluation import LogFrontier
from slotwise.figures.canvas import ShownFigure, house_style, write_titles
from slotwise.figures.style import (
    BLUE,
    INK,
    VERMILION,
    number_axis,
    readable,
    write,
    write_heading,
)
from slotwise.selection import Frontier

SIZE_INCHES = (11.2, 4.7)


@dataclass(frozen=True)
class FrontierPicture:
    """The contents of a frontier figure: the curve, the present floor, and a band if there is one.

    `band` holds the curves of the lower and of the upper bounds.
    """

    title: str
    subtitle: str
    curve: Frontier
    floor: float | None = None
    band: tuple[Frontier, Frontier] | None = None
    revenue_word: str = "revenue per page view"
    bound: str = "floor"
    """The quantity on the axis: the click floor, or the guarantee of a rule."""
    axis: str = "click floor, in expected clicks per page view"
    unit: str = "click per page view"


def draw_frontier(picture: FrontierPicture) -> Figure:
    """Draw best revenue and shadow price against the click floor."""
    with house_style():
        figure = ShownFigure(figsize=SIZE_INCHES)
        grid = figure.add_gridspec(1, 2, left=0.062, right=0.965, top=0.7, bottom=0.125, wspace=0.2)
        _draw_revenue(figure.add_subplot(grid[0, 0]), picture)
        _draw_price(figure.add_subplot(grid[0, 1]), picture)
        write_titles(figure, picture.title, picture.subtitle, 0.69)
    return figure


def _start(picture: FrontierPicture) -> float:
    """Return the left end of the axes: a little before the first floor that costs revenue."""
    first, last = float(picture.curve.floors[0]), float(picture.curve.floors[-1])
    wanted = [first] if picture.floor is None else [first, picture.floor]
    if picture.band is not None:
        wanted += [float(curve.floors[0]) for curve in picture.band]
    reach = max(last - first, 0.05 * max(last, 1e-9))
    return max(0.0, min(wanted) - 0.15 * reach)


def _end(picture: FrontierPicture) -> float:
    ends = [float(picture.curve.floors[-1])]
    if picture.floor is not None:
        ends.append(picture.floor)
    if picture.band is not None:
        # the upper bounds of rarely shown links are too large to be useful
        ends.append(min(float(picture.band[1].floors[-1]), 1.5 * ends[0]))
    return max(ends) + 0.04 * (max(ends) - _start(picture))


def _free_then(curve: Frontier, start: float) -> tuple[Floats, Floats]:
    """Return the corners of a curve, preceded by the flat piece where the floor costs nothing."""
    floors = np.concatenate([[min(start, float(curve.floors[0]))], curve.floors])
    return floors, np.concatenate([[curve.values[0]], curve.values])


def _draw_revenue(axes: Axes, picture: FrontierPicture) -> None:
    """Draw the best revenue at every floor, with its band."""
    colour = BLUE
    start, end = _start(picture), _end(picture)
    if picture.band is not None:
        low, high = picture.band
        floors = np.linspace(start, end, 400)
        below = np.nan_to_num([low.value_at(floor) for floor in floors], nan=0.0)
        above = np.array([high.value_at(floor) for floor in floors])
        is_known = np.isfinite(above)
        axes.fill_between(
            floors[is_known],
            below[is_known],
            above[is_known],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
    axes.plot(*_free_then(picture.curve, start), color=colour, zorder=3)
    _dress(axes, start, end, picture.axis)
    top = float(picture.curve.values[0])
    if picture.band is not None:
        top = max(top, min(2.5 * top, float(picture.band[1].values.max())))
    axes.set_ylim(0.0, 1.06 * top if top > 0 else 1.0)
    _mark_floor(axes, picture, with_value=True)
    meaning = f"{picture.revenue_word}, of the best mix that keeps the {picture.bound}"
    if picture.band is not None:
        meaning += "; shaded: 95 % band"
    write_heading(axes, "Best revenue", meaning)


def _draw_price(axes: Axes, picture: FrontierPicture) -> None:
    """Draw the price of a click at every floor."""
    colour = VERMILION
    curve, start = picture.curve, _start(picture)
    edges = np.concatenate([[min(start, float(curve.floors[0]))], curve.floors])
    prices = np.concatenate([[0.0], curve.shadow_prices])
    axes.stairs(prices, edges, color=colour, linewidth=1.8, baseline=None, zorder=3)
    _dress(axes, start, _end(picture), picture.axis)
    highest = float(prices.max(initial=0.0))
    axes.set_ylim(0.0, 1.06 * highest if highest > 0 else 1.0)
    _mark_floor(axes, picture, with_value=False)
    write_heading(axes, "Shadow price", f"revenue given up for one more {picture.unit}")


def _mark_floor(axes: Axes, picture: FrontierPicture, *, with_value: bool) -> None:
    floor = picture.floor
    if floor is None:
        return
    axes.axvline(floor, color=INK, linewidth=0.9, dashes=(4, 2), zorder=2)
    curve = picture.curve
    if floor > curve.floors[-1]:
        label = f"{picture.bound} {readable(floor)}: infeasible"
    elif with_value:
        value = curve.value_at(floor)
        axes.plot([floor], [value], "o", color=INK, markersize=4.5, zorder=5)
        label = f"{picture.bound} {readable(floor)}: {readable(value)}"
    else:
        label = f"{picture.bound} {readable(floor)}: {readable(curve.shadow_price_at(floor))}"
    left, right = axes.get_xlim()
    share = (floor - left) / (right - left)
    # do not cover the curves, which change to the right
    side = "left" if share < 0.25 else "right"
    nudge = 0.012 if side == "left" else -0.012
    height = 0.06 if with_value else 0.93
    write(axes, (share + nudge, height), label, fontsize=8.5, color=INK, ha=side, va="center")


def _dress(axes: Axes, start: float, end: float, axis_label: str) -> None:
    axes.set_xlim(start, end if end > start else start + 1.0)
    axes.set_xlabel(axis_label, loc="right", labelpad=2)
    number_axis(axes.xaxis, 6)
    number_axis(axes.yaxis)


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
