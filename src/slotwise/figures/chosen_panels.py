"""Panels of chosen metrics in the size of a paper's column or page.

Used by `result_figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise import metrics
from slotwise.errors import InvalidInput
from slotwise.figures import style
from slotwise.figures.canvas import ShownFigure, house_style
from slotwise.figures.panels import Panel, draw_panel, labels_of, panel_of
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

PLOT_HEIGHT, LABEL_WIDTH = 1.72, 1.05
ABOVE_PLOT, BELOW_PLOT, NOTE_HEIGHT = 0.32, 0.46, 0.16
"""Inches of a row of panels: the plot, what is above and below it, and a note below the axis."""

WIDTHS = {"column": 3.5, "text": 7.2, "wide": 13.6}
"""Widths in inches: one column of a journal, both columns, and a screen."""

AXES = ("none", "x", "y", "both")
"""Which axes are logarithmic."""

USUAL_PANELS = tuple(name for name, one in metrics.METRICS.items() if one.is_bounded)

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
    results: Results, chosen: Sequence[str] = (), layout: Layout | None = None
) -> Figure:
    """Draw one panel for each metric, as many in a row as fit the width.

    Without chosen metrics: those that the theorem bounds, regret and shortfall.
    """
    layout = layout or Layout()
    panels = [_chosen_panel(name, results) for name in chosen or USUAL_PANELS]
    width = WIDTHS[layout.width]
    n_columns = min(len(panels), max(1, int(width / (SMALLEST_PANEL + LABEL_WIDTH))))
    setting = Setting.of(results)
    title = setting.figure_title if layout.title is None else layout.title
    rows = [panels[first : first + n_columns] for first in range(0, len(panels), n_columns)]
    below = [
        BELOW_PLOT + NOTE_HEIGHT * any(labels_of(panel, results)[1] for panel in row)
        for row in rows
    ]
    heights = [ABOVE_PLOT + PLOT_HEIGHT + margin for margin in below]
    height = sum(heights) + (0.3 if title else 0.0)
    with house_style():
        figure = ShownFigure(figsize=(width, height))
        cell = width / n_columns
        for place, panel in enumerate(panels):
            row, column = divmod(place, n_columns)
            axes = figure.add_axes(
                (
                    (cell * column + 0.55) / width,
                    (sum(heights[row + 1 :]) + below[row]) / height,
                    (cell - 0.55 - LABEL_WIDTH) / width,
                    PLOT_HEIGHT / height,
                )
            )
            draw_panel(axes, panel, results, layout.log)
            _make_room_for_labels(axes, cell * (column + 1))
        if note := setting.dagger_note(results.labels):
            right, bottom = 1 - 0.12 / width, 0.08 / height
            figure.text(right, bottom, note, fontsize=7.5, color=style.MUTED, ha="right")
        if title:
            longest = width - 2 * MARGIN
            figure.text(
                MARGIN / width,
                1 - MARGIN / height,
                title,
                fontsize=min(11.0, max(6.0, 72 * longest / (LETTER_WIDTH * len(title)))),
                fontweight="bold",
                color=style.INK,
                va="top",
                parse_math=False,
            )
    return figure


def _make_room_for_labels(axes: Axes, right: float) -> None:
    """Narrow a panel until the labels next to it end before `right`, in inches."""
    figure: Any = axes.get_figure(root=True)
    box = axes.get_position()
    ends = [text.get_window_extent() for text in axes.texts if text.get_position()[0] > 1]
    overhang = max((end.x1 / figure.dpi for end in ends), default=0.0) - right + LABEL_MARGIN
    if overhang > 0:
        # A label starts at a share of the panel's width, so it moves by more than the panel's edge.
        narrower = overhang / max(text.get_position()[0] for text in axes.texts)
        width = box.width - narrower / figure.get_size_inches()[0]
        axes.set_position((box.x0, box.y0, width, box.height))


def _chosen_panel(metric: str, results: Results) -> Panel:
    """Return the panel of a metric, of the figures or plain."""
    if metric not in results.metrics:
        rule = f"one of {', '.join(results.metrics)}"
        raise InvalidInput.of("panels", rule, metric)
    return replace(panel_of(metric), meaning="")
