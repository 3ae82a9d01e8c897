"""The figure of a sweep: Con-UCB with γ from the printed value down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from slotwise import metrics
from slotwise.errors import InvalidInput
from slotwise.figures.look.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.look.end_labels import EndLabel, label_ends
from slotwise.figures.look.known_policies import KNOWN, SUBJECT, display_name, strokes
from slotwise.figures.look.lettering import write_heading
from slotwise.figures.look.style import Stroke, readable, scale_name
from slotwise.figures.results.panels import PANELS, Panel, labels_of, meaning_of
from slotwise.figures.results.setting import Setting
from slotwise.simulation.results import Results

__all__ = ["draw_sweep", "is_sweep"]

SIZE_INCHES = (13.6, 4.7)
MIN_SCALES = 4
SWEPT_METRICS = ("regret", "violation", "shortfall")
CLOSEST_TICKS = 0.14
"""Tick labels closer than this share of the axis would overlap."""


Floats = NDArray[np.float64]


class Swept(NamedTuple):
    """A label of the sweep and its scale of γ."""

    label: str
    scale: float


def is_sweep(results: Results) -> bool:
    """Return whether a results file holds Con-UCB at enough scales of γ to draw a curve."""
    return len({swept.scale for swept in _swept(results)}) >= MIN_SCALES


def draw_sweep(results: Results) -> Figure:
    """Draw final regret, violation and shortfall of Con-UCB against `gamma_scale`.

    The printed γ is on the left of a log axis and smaller values are to the right, with 95 %
    intervals. Policies without γ are horizontal lines.
    """
    swept = _swept(results)
    if len({each.scale for each in swept}) < 2:
        rule = "results of Con-UCB with two or more values of `gamma_scale`"
        raise InvalidInput.of("results", rule, list(results.labels))
    setting = Setting.of(results)
    panels = [panel for panel in PANELS if panel.metric in SWEPT_METRICS]
    with house_style():
        figure = ShownFigure(figsize=SIZE_INCHES)
        grid = figure.add_gridspec(
            1, 3, left=0.0404, right=0.92, top=0.7, bottom=0.185, wspace=0.46
        )
        for place, panel in enumerate(panels):
            _draw_panel(figure.add_subplot(grid[0, place]), panel, results, swept)
        write_frame(figure, setting, setting.figure_title)
    return figure


def _swept(results: Results) -> list[Swept]:
    setting = Setting.of(results)
    scales = {label: setting.gamma_scale(label) for label in results.labels}
    found = [
        Swept(label, scale)
        for label, scale in scales.items()
        if scale is not None and setting.policy_name(label) == SUBJECT
    ]
    return sorted(found, key=lambda swept: -swept.scale)


def _draw_panel(axes: Axes, panel: Panel, results: Results, swept: Sequence[Swept]) -> None:
    look = strokes([SUBJECT, *results.labels])
    main = look[SUBJECT]
    scales = np.array([each.scale for each in swept])
    axes.set_xscale("log")
    axes.set_xlim(scales.max() * 1.12, scales.min() / 1.12)  # printed γ on the left
    ends = _draw_others(axes, panel, results, {each.label for each in swept}, look)
    finals = [metrics.mean_interval(results.final(each.label, panel.metric)) for each in swept]
    mean, low, high = (np.array([float(final[part]) for final in finals]) for part in range(3))
    axes.fill_between(scales, low, high, color=main.colour, alpha=0.18, linewidth=0, zorder=2)
    axes.errorbar(
        scales,
        mean,
        yerr=[mean - low, high - mean],
        color=main.colour,
        marker="o",
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.8,
        elinewidth=1.2,
        capsize=2.5,
        zorder=5,
    )
    ends.append(EndLabel(KNOWN[SUBJECT].display_name, float(mean[-1]), main))
    _dress(axes, scales, float(min(0.0, *low)))
    meaning = meaning_of(panel, Setting.of(results))
    write_heading(axes, f"Final {panel.metric}", meaning)
    label_ends(axes, ends)


def _draw_others(
    axes: Axes,
    panel: Panel,
    results: Results,
    swept: set[str],
    look: dict[str, Stroke],
) -> list[EndLabel]:
    """Draw the policies without γ as horizontal lines with their bands."""
    ends = []
    for label in labels_of(panel, results)[0]:
        if label in swept:
            continue
        mean, low, high = map(float, metrics.mean_interval(results.final(label, panel.metric)))
        stroke = look[label]
        axes.axhspan(low, high, color=stroke.colour, alpha=0.15, linewidth=0, zorder=1)
        line = axes.axhline(mean, color=stroke.colour, linewidth=1.4, zorder=2)
        if stroke.dashes is not None:
            line.set_dashes(stroke.dashes)
        ends.append(EndLabel(display_name(label, longest=16), mean, stroke))
    return ends


def _dress(axes: Axes, scales: Floats, lowest: float) -> None:
    axes.autoscale(axis="y")
    high = axes.get_ylim()[1]
    axes.set_ylim(lowest * 1.1, high if high > lowest else lowest + 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
    axes.xaxis.set_major_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(_readable_ticks(scales))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scale_name(value)))
    axes.set_xlabel("γ relative to the printed 72 ln(8KT/δ)", loc="left", labelpad=4)


def _readable_ticks(scales: Floats) -> list[float]:
    """Return the scales that get a tick: both ends, 1/72, then those that fit."""
    distinct = np.unique(scales)[::-1]
    width = math.log(distinct[0] / distinct[-1])
    wanted = [distinct[0], distinct[-1]]
    wanted += [scale for scale in distinct if math.isclose(scale, 1 / 72)]
    wanted += list(distinct)
    chosen: list[float] = []
    for scale in wanted:
        if all(abs(math.log(scale / other)) > CLOSEST_TICKS * width for other in chosen):
            chosen.append(float(scale))
    return chosen
