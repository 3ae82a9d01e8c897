"""The figure of visitors that differ: what every policy earns from each, beside the best."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from slotwise.figures.look.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.look.known_policies import display_name, strokes
from slotwise.figures.look.style import GRID, INK, MUTED
from slotwise.figures.results.setting import Setting
from slotwise.simulation.results import Results

__all__ = ["draw_for_whom", "knows_for_whom"]

WIDTH_INCHES, ROW_INCHES, FRAME_INCHES = 9.0, 0.42, 2.3
MOST_VALUES = 40
"""Rows of the figure; the results file has all values."""


def knows_for_whom(results: Results) -> bool:
    """Return whether results say what visitors with each feature value brought."""
    return bool(results.config["optimum"].get("by_value"))


def draw_for_whom(results: Results) -> Figure:
    """Draw for each feature value what its visitors bring a page view, as a gain in percent.

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
    look = strokes(results.labels)
    with house_style():
        height = FRAME_INCHES + ROW_INCHES * len(values)
        figure = ShownFigure(figsize=(WIDTH_INCHES, height))
        axes = figure.add_axes((0.2, 0.75 / height, 0.55, (height - 1.75) / height))
        for row in range(len(values)):
            axes.axhline(row, color=GRID, linewidth=0.8, zorder=0)
        axes.plot(
            [100 * (best[value][0] / best[value][1] - 1.0) for value in values],
            range(len(values)),
            "|",
            color=INK,
            markersize=16,
            label="best, knows visitors",
        )
        for place, label in enumerate(results.labels):
            gains = np.array([_gain(results, label, value, best[value][1]) for value in values])
            spread = 2.0 * gains.std(axis=1) / np.sqrt(gains.shape[1])
            offset = 0.5 * ((place + 0.5) / len(results.labels) - 0.5)
            axes.errorbar(
                gains.mean(axis=1),
                np.arange(len(values)) + offset,
                xerr=spread,
                fmt="o",
                markersize=4,
                color=look[label].colour,
                label=display_name(label),
            )
        axes.axvline(0.0, color=MUTED, linewidth=1.0)
        axes.set_yticks(range(len(values)), values)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.set_xlabel("% more revenue than the best mix that does not know the visitors")
        figure.legend(loc="center left", bbox_to_anchor=(0.77, 0.5), frameon=False, fontsize=8.5)
        setting = Setting.of(results)
        write_frame(figure, setting, f"For whom: {setting.figure_title}")
    return figure


def _gain(results: Results, label: str, value: str, blind: float) -> np.ndarray:
    totals = results.totals[label]
    earned = totals[f"reward:{value}"][:, -1] / totals[f"rounds:{value}"][:, -1]
    gain: np.ndarray = 100.0 * (earned / blind - 1.0)
    return gain
