"""The figure of an experiment: every metric over the rounds, with a table of final values.

Used by `paper_report`, `result_figures` and `several_floors_figure`.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise import metrics
from slotwise.figures import style
from slotwise.figures.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.panels import PANELS, draw_panel
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

SIZE_INCHES = (13.6, 8.3)
COLUMNS = {panel.metric: panel.metric for panel in PANELS}
MAX_ROWS = 11


def draw_experiment(results: Results) -> Figure:
    """Draw Figure 1, 2 or 3 of the paper from a results file.

    The panels are regret, violation, compound reward and their ratio as in the paper, then the
    shortfall of the theorem and a table of the final values. The line of the oracle is in every
    panel, because the violation of the best mix grows as well.
    """
    setting = Setting.of(results)
    with house_style():
        figure = ShownFigure(figsize=SIZE_INCHES)
        grid = figure.add_gridspec(
            2, 3, left=0.0404, right=0.898, top=0.832, bottom=0.088, wspace=0.56, hspace=0.46
        )
        for place, panel in enumerate(PANELS):
            draw_panel(figure.add_subplot(grid[divmod(place, 3)]), panel, results)
        note = (
            "The theorem's bound on regret and shortfall is "
            f"{style.readable(setting.theorem_bound)};\n"
            f"no policy can exceed L·T = {style.readable(setting.trivial_bound)}."
        )
        draw_finals(figure.add_subplot(grid[1, 2]), results, COLUMNS, "means over the runs", note)
        write_frame(figure, setting, setting.figure_title)
    return figure


def draw_finals(
    axes: Axes, results: Results, columns: Mapping[str, str], meaning: str, note: str
) -> None:
    """Draw a table of the final values of every policy; `columns` names its metrics."""
    setting = Setting.of(results)
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    right = 1.42
    style.write_heading(axes, f"After {style.readable(results.n_rounds)} rounds", meaning)
    step = (right - 0.66) / (len(columns) - 1)
    places = [0.66 + step * column for column in range(len(columns))]
    for name, place in zip(columns.values(), places, strict=True):
        style.write(
            axes, (place, 0.97), name, fontsize=8, color=style.MUTED, ha="right", va="center"
        )
    look = style.strokes(results.labels)
    labels = results.labels[:MAX_ROWS]
    height = min(0.095, 0.72 / max(len(labels), 1))
    for row, label in enumerate(labels):
        level = 0.97 - (row + 1) * height
        axes.plot(
            [0, right], [level + height / 2] * 2, color=style.GRID, linewidth=0.8, clip_on=False
        )
        stroke = look[label]
        (line,) = axes.plot([0, 0.075], [level] * 2, color=stroke.colour, linewidth=2.2)
        style.dash(line, stroke, scale=0.6)
        name = setting.dagger_name(label, longest=18)
        style.write(axes, (0.1, level), name, fontsize=8.5, va="center")
        for metric, place in zip(columns, places, strict=True):
            mean = float(metrics.mean_interval(results.final(label, metric)).mean)
            style.write(axes, (place, level), style.measured(mean), ha="right", va="center")
    bottom = 0.97 - (len(labels) + 0.5) * height
    axes.plot([0, right], [bottom] * 2, color=style.GRID, linewidth=0.8, clip_on=False)
    if dagger := setting.dagger_note(labels):
        note = f"{dagger}\n{note}"
    if len(results.labels) > MAX_ROWS:
        note = f"… and {len(results.labels) - MAX_ROWS} more policies in the file.\n{note}"
    style.write(
        axes, (0, bottom - 0.05), note, fontsize=8, color=style.MUTED, va="top", linespacing=1.5
    )
