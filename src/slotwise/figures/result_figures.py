"""Figures of results: metrics over time, final values, segments, several floors and sweeps."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from slotwise import metrics
from slotwise.arrays import Floats
from slotwise.errors import InvalidInput
from slotwise.figures import style
from slotwise.figures.canvas import (
    TEXT,
    USUAL_FORMATS,
    ShownFigure,
    house_style,
    save_figure,
    write_frame,
)
from slotwise.figures.conclusion import common_range, judge
from slotwise.figures.panels import (
    PANELS,
    Panel,
    Setting,
    draw_panel,
    labels_of,
    meaning_of,
    panel_of,
)
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


PANEL_INCHES = 4.5
HEIGHT_INCHES = 11.6
MAX_COLUMNS = 4
"""With more floors than this the table would not fit; the results file has them all."""


def has_several_floors(results: Results) -> bool:
    """Return whether an experiment has floors beyond a click floor."""
    return bool(Setting.of(results).floor_names)


def draw_several_floors(results: Results) -> Figure:
    """Draw regret and reward, then for each floor its violation and its shortfall."""
    setting = Setting.of(results)
    names = setting.floor_names[:MAX_COLUMNS]
    n_columns = max(3, len(names))
    with house_style():
        figure = ShownFigure(figsize=(PANEL_INCHES * n_columns, HEIGHT_INCHES))
        grid = figure.add_gridspec(
            3, n_columns, left=0.0404, right=0.898, top=0.88, bottom=0.064, wspace=0.56, hspace=0.46
        )
        for place, metric in enumerate(("regret", "reward")):
            draw_panel(figure.add_subplot(grid[0, place]), panel_of(metric), results)
        in_two_lines = {f"shortfall:{name}": name.replace("/", "/\n") for name in names}
        columns = {"regret": "regret", **in_two_lines}
        meaning = "regret, and the shortfall of each floor"
        hidden = len(setting.floor_names) - MAX_COLUMNS
        note = "The oracle is the best fixed mix under all floors."
        if hidden > 0:
            note = f"{hidden} more floors are in the file."
        draw_finals(figure.add_subplot(grid[0, 2]), results, columns, meaning, note)
        for place, name in enumerate(names):
            for row, panel in enumerate(_floor_panels(name, setting), start=1):
                draw_panel(figure.add_subplot(grid[row, place]), panel, results)
        write_frame(figure, setting, setting.figure_title)
    return figure


def _floor_panels(name: str, setting: Setting) -> tuple[Panel, Panel]:
    """Return the violation and the shortfall of one floor."""
    asked = setting.floor_in_words(name).removeprefix(name).strip()
    level, _, before = name.partition("/")
    missing = f"{level} below {asked} of {before}" if before else f"{level} below {asked}"
    return (
        Panel(f"violation:{name}", f"Violation: {name}", f"{missing}, summed over rounds"),
        Panel(f"shortfall:{name}", f"Shortfall: {name}", f"{missing}, in total"),
    )


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


WIDTHS = {"column": 3.5, "text": 7.2, "wide": 13.6}
"""Widths in inches: one column of a journal, both columns, and a screen."""

AXES = ("none", "x", "y", "both")
"""Which axes are logarithmic."""

USUAL_PANELS = tuple(name for name, one in metrics.METRICS.items() if one.is_bounded)

PLOT_HEIGHT, LABEL_WIDTH = 1.72, 1.05
ABOVE_PLOT, BELOW_PLOT, NOTE_HEIGHT = 0.32, 0.46, 0.16
"""Inches of a row of panels: the plot, what is above and below it, and a note below the axis."""
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


def draw_results(
    results: Results,
    directory: str | Path,
    name: str,
    formats: Sequence[str] = USUAL_FORMATS,
    *,
    panels: Sequence[str] = (),
    layout: Layout | None = None,
) -> list[Path]:
    """Draw `results` into `directory` as `name` with each format's ending; return the files.

    With `panels` or `layout` the figure has the panels of these metrics only. Otherwise:

    Con-UCB at four scales of γ or more is drawn as a sweep, more floors than a click floor with
    panels for each of them, anything else as an experiment. Where visitors differ, a second figure,
    `name`-segments, shows the revenue of each of them.
    """
    if panels or layout is not None:
        figure = draw_panels(results, panels, layout)
    elif is_sweep(results):
        figure = draw_sweep(results)
    elif has_several_floors(results):
        figure = draw_several_floors(results)
    else:
        figure = draw_experiment(results)
    written = save_figure(figure, Path(directory), name, formats)
    if not panels and layout is None and knows_segments(results):
        further = draw_segments(results)
        written += save_figure(further, Path(directory), f"{name}-segments", formats)
    return written
