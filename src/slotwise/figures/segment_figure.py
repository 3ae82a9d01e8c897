"""The figure of segments: what each policy brings for visitors with each value of a feature.

Used by `result_figures`.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from slotwise.figures import style
from slotwise.figures.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

WIDTH_INCHES, ROW_INCHES, FRAME_INCHES = 9.0, 0.42, 2.3

MOST_VALUES = 40
"""Rows of the figure; the results file has all values."""


def knows_segments(results: Results) -> bool:
    """Return whether results have the revenue of visitors with each feature value."""
    return bool(results.config["optimum"].get("by_value"))


def draw_segments(results: Results) -> Figure:
    """Draw the revenue per page view of visitors with each feature value, as a gain in percent.

    The gain is over the best mix that does not know the visitors. A black mark is the best mix that
    knows them; a line is two standard errors over the runs on either side.
    """
    best = results.config["optimum"]["by_value"]
    first = next(iter(results.totals.values()))
    values = [
        value
        for value, (_, blind) in best.items()
        if blind > 0.0 and (first[f"rounds:{value}"][:, -1] > 0.0).all()
    ][:MOST_VALUES]
    look = style.strokes(results.labels)
    with house_style():
        height = FRAME_INCHES + ROW_INCHES * len(values)
        figure = ShownFigure(figsize=(WIDTH_INCHES, height))
        axes = figure.add_axes((0.2, 0.75 / height, 0.55, (height - 1.75) / height))
        for row in range(len(values)):
            axes.axhline(row, color=style.GRID, linewidth=0.8, zorder=0)
        axes.plot(
            [100 * (best[value][0] / best[value][1] - 1.0) for value in values],
            range(len(values)),
            "|",
            color=style.INK,
            markersize=16,
            label="best, knows visitors",
        )
        for place, label in enumerate(results.labels):
            totals = results.totals[label]
            earned = np.array(
                [totals[f"reward:{v}"][:, -1] / totals[f"rounds:{v}"][:, -1] for v in values]
            )
            gains = 100.0 * (earned / np.array([[best[value][1]] for value in values]) - 1.0)
            spread = 2.0 * gains.std(axis=1) / np.sqrt(gains.shape[1])
            offset = 0.5 * ((place + 0.5) / len(results.labels) - 0.5)
            axes.errorbar(
                gains.mean(axis=1),
                np.arange(len(values)) + offset,
                xerr=spread,
                fmt="o",
                markersize=4,
                color=look[label].colour,
                label=style.display_name(label),
            )
        axes.axvline(0.0, color=style.MUTED, linewidth=1.0)
        axes.set_yticks(range(len(values)), values)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.set_xlabel("% more revenue than the best mix that does not know the visitors")
        figure.legend(loc="center left", bbox_to_anchor=(0.77, 0.5), frameon=False, fontsize=8.5)
        setting = Setting.of(results)
        write_frame(figure, setting, f"Segments: {setting.figure_title}")
    return figure
