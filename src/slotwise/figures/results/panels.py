"""One panel: a metric over time, with a line and a band for every policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from slotwise.figures.look.end_labels import EndLabel, label_ends
from slotwise.figures.look.known_policies import FLOORLESS, ORACLE, display_name, strokes
from slotwise.figures.look.lettering import write_heading
from slotwise.figures.look.style import INK, MUTED, Stroke, readable
from slotwise.figures.results.setting import Setting
from slotwise.simulation.results import Curve, Results

__all__ = ["PANELS", "Panel", "draw_panel", "labels_of", "meaning_of"]


NARROW_INCHES = 2.6
"""Below this width a note and the label of the axis do not fit on one line."""


@dataclass(frozen=True)
class Panel:
    """The metric of a panel, its title and its explanation."""

    metric: str
    title: str
    meaning: str
    left_out: tuple[str, ...] = ()
    """Names of policies that seek another optimum, which the paper leaves out."""
    has_optimal_line: bool = False
    first_share: float = 0.0
    """The share of the rounds, from the start, that is left out because the metric is noise."""


PANELS = (
    Panel(
        "regret",
        "Cumulative regret",
        "revenue missed relative to the best mix that keeps the floor",
        left_out=FLOORLESS,
    ),
    Panel("violation", "Cumulative violation", "clicks below the floor, summed over rounds"),
    Panel(
        "reward",
        "Cumulative compound reward",
        "total revenue; dotted: expectation of the best mix",
        has_optimal_line=True,
    ),
    Panel(
        "ratio",
        "Reward / violation",
        "revenue per click below the floor",
        first_share=0.02,
    ),
    Panel("shortfall", "Shortfall", "clicks missing in total, which the theorem bounds"),
)


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
    look = strokes(results.labels)
    ends, endless = [], []
    for label in shown:
        curve = _drawable(results.curve(label, panel.metric), panel.first_share)
        if not len(curve.rounds):
            endless.append(label)
            continue
        _draw_line(axes, curve, look[label], is_mark=label == ORACLE)
        name = setting.dagger_name(label, longest=16)
        ends.append(EndLabel(name, float(curve.mean[-1]), look[label]))
    if panel.has_optimal_line:
        optimal = setting.optimum * results.rounds
        axes.plot(results.rounds, optimal, color=INK, linewidth=1.1, dashes=(1, 1.6), zorder=4)
        ends.append(EndLabel("optimal", float(optimal[-1]), Stroke(INK)))
    _settle_axes(axes, panel, results)
    _scale_axes(axes, results, log)
    write_heading(axes, panel.title, meaning_of(panel, setting))
    if left_out:
        _write_note(axes, f"without {_listed(left_out)}, as in the paper")
    elif endless:
        _write_note(axes, f"no finite value: {_listed(endless)}")
    if ends:
        label_ends(axes, ends)


def _drawable(curve: Curve, first_share: float) -> Curve:
    """Return the finite part of a curve, without the first noisy rounds."""
    rounds, mean, low, high = curve
    keep = np.isfinite(mean) & np.isfinite(low) & np.isfinite(high)
    keep &= rounds >= first_share * rounds[-1]
    return Curve(rounds[keep], mean[keep], low[keep], high[keep])


def _draw_line(axes: Axes, curve: Curve, stroke: Stroke, *, is_mark: bool) -> None:
    band: dict[str, Any] = {"color": stroke.colour, "alpha": 0.18, "linewidth": 0}
    axes.fill_between(curve.rounds, curve.low, curve.high, zorder=2, **band)
    (line,) = axes.plot(curve.rounds, curve.mean, color=stroke.colour, zorder=4 if is_mark else 3)
    if stroke.dashes is not None:
        line.set_dashes(stroke.dashes)
        line.set_dash_capstyle("butt")
    if is_mark:
        line.set_linewidth(1.4)


def _settle_axes(axes: Axes, panel: Panel, results: Results) -> None:
    """Set limits and ticks; the vertical axis starts at zero unless regret is negative."""
    axes.set_xlim(0, results.n_rounds)
    axes.set_xlabel("rounds", loc="right", labelpad=2)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
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
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)


def _scale_axes(axes: Axes, results: Results, log: str) -> None:
    """Make axes logarithmic; heights stay linear below 1, since regret may be negative."""
    if log in ("x", "both"):
        axes.set_xscale("log")
        axes.set_xlim(int(results.rounds[0]), max(results.n_rounds, 2))
    if log in ("y", "both"):
        axes.set_yscale("symlog", linthresh=1.0)
    if log != "none":
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))


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
        color=MUTED,
        parse_math=False,
    )


def _listed(labels: Sequence[str]) -> str:
    names = [display_name(label, longest=16) for label in labels[:3]]
    if len(labels) > 3:
        return f"{', '.join(names[:2])} and {len(labels) - 2} more"
    return " and ".join(names) if len(names) < 3 else f"{names[0]}, {names[1]} and {names[2]}"
