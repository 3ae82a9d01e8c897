"""A figure of chosen panels, in the width of a page or of a column of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise.errors import InvalidInput
from slotwise.figures.look.canvas import ShownFigure, house_style
from slotwise.figures.look.style import INK, MUTED
from slotwise.figures.results.panels import PANELS, Panel, draw_panel
from slotwise.figures.results.setting import Setting
from slotwise.simulation.results import Results

__all__ = ["AXES", "WIDTHS", "Layout", "draw_panels"]

WIDTHS = {"column": 3.5, "text": 7.2, "wide": 13.6}
"""Widths in inches: one column of a journal, both columns, and a screen."""

AXES = ("none", "x", "y", "both")
"""Which axes are logarithmic."""

PANEL_HEIGHT, LABEL_WIDTH = 2.6, 1.05
LABEL_MARGIN = 0.04
SMALLEST_PANEL = 2.2


MARGIN = 0.12
LETTER_WIDTH = 0.62
"""Of a bold letter, on average, as a share of its size."""


@dataclass(frozen=True)
class Layout:
    """How chosen panels are drawn: title, width and logarithmic axes.

    Without a title they have that of the experiment; an empty one leaves it out.
    """

    title: str | None = None
    width: str = "wide"
    log: str = "none"

    def __post_init__(self) -> None:
        if self.width not in WIDTHS:
            raise InvalidInput.of("width", f"one of {', '.join(WIDTHS)}", self.width)
        if self.log not in AXES:
            raise InvalidInput.of("log", f"one of {', '.join(AXES)}", self.log)


def draw_panels(
    results: Results, metrics: Sequence[str] = (), layout: Layout | None = None
) -> Figure:
    """Draw one panel for each metric, as many in a row as the width has room for.

    Without metrics: regret and shortfall.
    """
    layout = layout or Layout()
    panels = [_panel(metric, results) for metric in metrics or ("regret", "shortfall")]
    width = WIDTHS[layout.width]
    n_columns = min(len(panels), max(1, int(width / (SMALLEST_PANEL + LABEL_WIDTH))))
    n_rows = -(-len(panels) // n_columns)
    setting = Setting.of(results)
    title = setting.figure_title if layout.title is None else layout.title
    title_height = 0.2 if title else 0.0
    height = PANEL_HEIGHT * n_rows + title_height
    with house_style():
        figure = ShownFigure(figsize=(width, height))
        cell = width / n_columns
        for place, panel in enumerate(panels):
            row, column = divmod(place, n_columns)
            axes = figure.add_axes(
                (
                    (cell * column + 0.55) / width,
                    (PANEL_HEIGHT * (n_rows - 1 - row) + 0.65) / height,
                    (cell - 0.55 - LABEL_WIDTH) / width,
                    (PANEL_HEIGHT - 1.2) / height,
                )
            )
            draw_panel(axes, panel, results, layout.log)
            _make_room_for_labels(axes, cell * (column + 1))
        if note := setting.dagger_note(results.labels):
            right, bottom = 1 - 0.12 / width, 0.08 / height
            figure.text(right, bottom, note, fontsize=7.5, color=MUTED, ha="right")
        if title:
            longest = width - 2 * MARGIN
            figure.text(
                MARGIN / width,
                1 - MARGIN / height,
                title,
                fontsize=min(11.0, max(6.0, 72 * longest / (LETTER_WIDTH * len(title)))),
                fontweight="bold",
                color=INK,
                va="top",
                parse_math=False,
            )
    return figure


def _make_room_for_labels(axes: Axes, right: float) -> None:
    """Narrow a panel until the labels beside it end before `right`, in inches."""
    figure: Any = axes.get_figure(root=True)
    box = axes.get_position()
    ends = [text.get_window_extent() for text in axes.texts if text.get_position()[0] > 1]
    overhang = max((end.x1 / figure.dpi for end in ends), default=0.0) - right + LABEL_MARGIN
    if overhang > 0:
        # A label starts at a share of the panel's width, so it moves by more than the panel's edge.
        narrower = overhang / max(text.get_position()[0] for text in axes.texts)
        width = box.width - narrower / figure.get_size_inches()[0]
        axes.set_position((box.x0, box.y0, width, box.height))


def _panel(metric: str, results: Results) -> Panel:
    """Return the panel of a metric, of the figures or plain."""
    if metric not in results.metrics:
        rule = f"one of {', '.join(results.metrics)}"
        raise InvalidInput.of("panels", rule, metric)
    Setting.of(results)
    for panel in PANELS:
        if panel.metric == metric:
            return replace(panel, meaning="")
    return Panel(metric, metric.capitalize(), "")
