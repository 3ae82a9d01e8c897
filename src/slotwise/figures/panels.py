"""One panel: a metric over time, with a line and a band for every policy.

Used by `chosen_panels`, `experiment_figure`, `report_contents`, `several_floors_figure` and
`sweep_figure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from slotwise import metrics
from slotwise.figures import style
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Curve, Results

NARROW_INCHES = 2.6
"""Below this width a note and the label of the axis do not fit on one line."""


@dataclass(frozen=True)
class Panel:
    """The metric of a panel, its title and its explanation."""

    metric: str
    title: str
    meaning: str
    left_out: tuple[str, ...] = ()
    """Names of policies with another optimum, which the paper leaves out."""
    has_optimal_line: bool = False
    first_share: float = 0.0
    """The share of the rounds, from the start, that is left out because the metric is noise."""


PARTICULARS: Mapping[str, Mapping[str, Any]] = {
    "regret": {"left_out": style.FLOORLESS},
    "reward": {"has_optimal_line": True},
    "ratio": {"first_share": 0.02},
}
"""What is special about the panels of some metrics."""

PANELS = tuple(
    Panel(name, one.title, one.meaning, **PARTICULARS.get(name, {}))
    for name, one in metrics.METRICS.items()
    if one.has_panel
)
"""The panels of the figure of an experiment: the paper's four, then the shortfall."""


def panel_of(metric: str) -> Panel:
    """Return the panel of a metric; a plain one where the figures have none."""
    plain = Panel(metric, metric.capitalize(), "")
    return next((panel for panel in PANELS if panel.metric == metric), plain)


def labels_of(panel: Panel, results: Results) -> tuple[list[str], list[str]]:
    """Return the labels a panel shows and those it leaves out."""
    setting = Setting.of(results)
    left_out = [label for label in results.labels if setting.policy_name(label) in panel.left_out]
    shown = [label for label in results.labels if label not in left_out]
    return (shown, left_out) if shown else (left_out, [])


def meaning_of(panel: Panel, setting: Setting) -> str:
    """Return the explanation of a panel; regret depends on whether the floor can be kept."""
    if panel.metric == "regret" and setting.is_floor_infeasible:
        return "revenue missed relative to the most clicked page"
    return panel.meaning


def draw_panel(axes: Axes, panel: Panel, results: Results, log: str = "none") -> None:
    """Draw one metric of `results`, with labels at the ends of the lines.

    `log` names the logarithmic axes: "none", "x", "y" or "both".
    """
    setting = Setting.of(results)
    shown, left_out = labels_of(panel, results)
    look = style.strokes(results.labels)
    ends, endless = [], []
    for label in shown:
        curve = _drawable(results.curve(label, panel.metric), panel.first_share)
        if not len(curve.rounds):
            endless.append(label)
            continue
        is_mark = label == style.ORACLE
        colour = look[label].colour
        axes.fill_between(*curve[:1], *curve[2:], color=colour, alpha=0.18, linewidth=0, zorder=2)
        (line,) = axes.plot(*curve[:2], color=colour, zorder=4 if is_mark else 3)
        style.dash(line, look[label])
        if is_mark:
            line.set_linewidth(1.4)
        name = setting.dagger_name(label, longest=16)
        ends.append(style.EndLabel(name, float(curve.mean[-1]), look[label]))
    if panel.has_optimal_line:
        optimal = setting.optimum * results.rounds
        axes.plot(
            results.rounds, optimal, color=style.INK, linewidth=1.1, dashes=(1, 1.6), zorder=4
        )
        ends.append(style.EndLabel("optimal", float(optimal[-1]), style.Stroke(style.INK)))
    _settle_axes(axes, panel, results)
    _scale_axes(axes, results, log)
    style.write_heading(axes, panel.title, meaning_of(panel, setting))
    if left_out:
        _write_note(axes, f"without {_listed(left_out)}, as in the paper")
    elif endless:
        _write_note(axes, f"no finite value: {_listed(endless)}")
    if ends:
        style.label_ends(axes, ends)


def _drawable(curve: Curve, first_share: float) -> Curve:
    """Return the finite part of a curve, without the first noisy rounds."""
    rounds, mean, low, high = curve
    keep = np.isfinite(mean) & np.isfinite(low) & np.isfinite(high)
    keep &= rounds >= first_share * rounds[-1]
    return Curve(rounds[keep], mean[keep], low[keep], high[keep])


def _settle_axes(axes: Axes, panel: Panel, results: Results) -> None:
    """Set limits and ticks; the vertical axis starts at zero unless regret is negative."""
    axes.set_xlim(0, results.n_rounds)
    axes.set_xlabel("rounds", loc="right", labelpad=2)
    style.number_axis(axes.xaxis, steps=(1, 2, 5, 10))
    style.number_axis(axes.yaxis)
    lowest, highest = axes.dataLim.y0, axes.dataLim.y1
    if not np.isfinite([lowest, highest]).all():
        lowest, highest = 0.0, 0.0
    bottom = min(0.0, lowest) if panel.metric == "regret" else 0.0
    top = max(0.0, highest)
    if bottom == top:
        top = 1.0
    margin = 0.06 * (top - bottom)
    axes.set_ylim(bottom - margin if bottom < 0 else 0.0, top + margin)
    if bottom < 0:
        axes.axhline(0, color=style.MUTED, linewidth=0.8, zorder=1)


def _scale_axes(axes: Axes, results: Results, log: str) -> None:
    """Make axes logarithmic; heights stay linear below 1, since regret may be negative."""
    if log in ("x", "both"):
        axes.set_xscale("log")
        axes.set_xlim(int(results.rounds[0]), max(results.n_rounds, 2))
    if log in ("y", "both"):
        axes.set_yscale("symlog", linthresh=1.0)
    if log != "none":  # a scale sets its own formatter
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(style.readable_ticks())


def _write_note(axes: Axes, note: str) -> None:
    """Write a note below the axis: on the line of its label, or below it where both do not fit."""
    figure: Any = axes.get_figure(root=True)
    is_narrow = axes.get_position().width * figure.get_size_inches()[0] < NARROW_INCHES
    axes.annotate(
        note,
        (0, 0),
        xycoords="axes fraction",
        xytext=(0, -37 if is_narrow else -25),
        textcoords="offset points",
        fontsize=7.5,
        color=style.MUTED,
        parse_math=False,
    )


def _listed(labels: Sequence[str]) -> str:
    names = [style.display_name(label, longest=16) for label in labels[:3]]
    if len(labels) > 3:
        return f"{', '.join(names[:2])} and {len(labels) - 2} more"
    return " and ".join(names) if len(names) < 3 else f"{names[0]}, {names[1]} and {names[2]}"
