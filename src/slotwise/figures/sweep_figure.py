"""The figure of a sweep: final losses against the scale of Con-UCB's bounds.

Used by `paper_report`, `report_contents` and `result_figures`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from slotwise import metrics
from slotwise.arrays import Floats
from slotwise.errors import InvalidInput
from slotwise.figures import style
from slotwise.figures.canvas import TEXT, ShownFigure, house_style, write_frame
from slotwise.figures.conclusion import common_range, judge
from slotwise.figures.panels import PANELS, Panel, labels_of, meaning_of
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

SWEEP_SIZE_INCHES = (13.6, 4.7)
MIN_SCALES = 4
SWEPT_PANELS = tuple(panel for panel in PANELS if metrics.METRICS[panel.metric].is_loss)
EDGE = 1.12
"""The factor by which a range of γ is shaded beyond its ends, so that single points are seen."""
CLOSEST_TICKS = 0.14
"""Tick labels closer than this share of the axis would overlap."""


def is_sweep(results: Results) -> bool:
    """Return whether a results file holds Con-UCB at enough scales of γ to draw a curve."""
    return len({*_swept(results).values()}) >= MIN_SCALES


def draw_sweep(results: Results) -> Figure:
    """Draw final regret, violation and shortfall of Con-UCB against `gamma_scale`.

    The printed γ is on the left of a log axis and smaller values are to the right, with 95 %
    intervals. Policies without γ are horizontal lines. Shaded: the γ with which all of the paper's
    statements about this data set hold.
    """
    swept = _swept(results)
    if len({*swept.values()}) < 2:
        rule = "results of Con-UCB with two or more values of `gamma_scale`"
        raise InvalidInput.of("results", rule, list(results.labels))
    setting = Setting.of(results)
    with house_style():
        figure = ShownFigure(figsize=SWEEP_SIZE_INCHES)
        grid = figure.add_gridspec(
            1, 3, left=0.0404, right=0.91, top=0.7, bottom=0.185, wspace=0.46
        )
        shaded = _holding(results)
        for place, panel in enumerate(SWEPT_PANELS):
            axes = figure.add_subplot(grid[0, place])
            _draw_panel(axes, panel, results, swept)
            _shade(axes, shaded, [*swept.values()])
        write_frame(figure, setting, setting.figure_title)
        notes = ["shaded: all of the paper's statements hold"] if shaded else []
        notes += filter(None, [setting.dagger_note(results.labels)])
        width, height = figure.get_size_inches()
        look: dict[str, Any] = TEXT | {"ha": "right", "fontsize": 9.5, "color": style.MUTED}
        figure.text(1 - 0.3 / width, 1 - 0.53 / height, "  ·  ".join(notes), **look)
    return figure


def _holding(results: Results) -> tuple[float, ...]:
    """Return the scales at which all of the paper's statements about the data set hold."""
    return common_range(judge([results]))


def _shade(axes: Axes, holding: Sequence[float], scales: Sequence[float]) -> None:
    """Shade the scales where the statements hold; each reaches half-way to its neighbours."""
    ordered = sorted(scales, reverse=True)
    for place, scale in enumerate(ordered):
        if scale not in holding:
            continue
        before = ordered[place - 1] if place else scale
        after = ordered[place + 1] if place + 1 < len(ordered) else scale
        span = [math.sqrt(scale * before), math.sqrt(scale * after)]
        if before not in holding:
            span[0] = scale * EDGE
        if after not in holding or after == scale:
            span[1] = scale / EDGE
        axes.axvspan(*span, color=style.KNOWN[style.SUBJECT].stroke.colour, alpha=0.07, linewidth=0)


def _swept(results: Results) -> dict[str, float]:
    """Return the scale of γ of each Con-UCB, the largest first."""
    setting = Setting.of(results)
    ours = setting.labels_of_policy(results.labels, style.SUBJECT)
    scales = {label: setting.gamma_scale(label) for label in ours}
    found = {label: scale for label, scale in scales.items() if scale is not None}
    return dict(sorted(found.items(), key=lambda swept: -swept[1]))


def _draw_panel(axes: Axes, panel: Panel, results: Results, swept: Mapping[str, float]) -> None:
    """Draw a metric of Con-UCB over the scales, with the other policies as horizontal lines."""
    look = style.strokes([style.SUBJECT, *results.labels])
    main = look[style.SUBJECT]
    scales = np.array([*swept.values()])
    axes.set_xscale("log")
    axes.set_xlim(scales.max() * 1.12, scales.min() / 1.12)  # printed γ on the left
    ends = _draw_others(axes, panel, results, swept, look)
    finals = [metrics.mean_interval(results.final(label, panel.metric)) for label in swept]
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
    ends.append(style.EndLabel(style.KNOWN[style.SUBJECT].display_name, float(mean[-1]), main))
    _dress(axes, scales, float(min(0.0, *low)))
    meaning = meaning_of(panel, Setting.of(results))
    style.write_heading(axes, f"Final {panel.metric}", meaning)
    style.label_ends(axes, ends)


def _draw_others(
    axes: Axes,
    panel: Panel,
    results: Results,
    swept: Container[str],
    look: dict[str, style.Stroke],
) -> list[style.EndLabel]:
    """Draw the policies without γ as horizontal lines with their bands."""
    setting, ends = Setting.of(results), []
    for label in labels_of(panel, results)[0]:
        if label in swept:
            continue
        mean, low, high = map(float, metrics.mean_interval(results.final(label, panel.metric)))
        stroke = look[label]
        axes.axhspan(low, high, color=stroke.colour, alpha=0.15, linewidth=0, zorder=1)
        line = axes.axhline(mean, color=stroke.colour, linewidth=1.4, zorder=2)
        if stroke.dashes is not None:
            line.set_dashes(stroke.dashes)
        ends.append(style.EndLabel(setting.dagger_name(label, longest=16), mean, stroke))
    return ends


def _dress(axes: Axes, scales: Floats, lowest: float) -> None:
    axes.autoscale(axis="y")
    high = axes.get_ylim()[1]
    axes.set_ylim(lowest * 1.1, high if high > lowest else lowest + 1.0)
    style.number_axis(axes.yaxis)
    axes.xaxis.set_major_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(_readable_ticks(scales))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.scale_name(value)))
    axes.set_xlabel("γ relative to the printed 72 ln(8KT/δ)", loc="left", labelpad=4)


def _readable_ticks(scales: Floats) -> list[float]:
    """Return the scales that get a tick: both ends, then those that fit."""
    distinct = np.unique(scales)[::-1]
    width = math.log(distinct[0] / distinct[-1])
    wanted = [distinct[0], distinct[-1], *distinct]
    chosen: list[float] = []
    for scale in wanted:
        if all(abs(math.log(scale / other)) > CLOSEST_TICKS * width for other in chosen):
            chosen.append(float(scale))
    return chosen
