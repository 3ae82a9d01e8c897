"""How every figure looks: colours, fonts, and numbers that people can read.

Used by most of `figures`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from slotwise.arrays import Floats

INK, MUTED, GRID, BACKGROUND = "#1c2530", "#66727f", "#e4e8ec", "#ffffff"

BLUE, VERMILION = "#0072b2", "#d55e00"
"""The first two colours of a figure whose lines are not policies."""

RC: Mapping[str, object] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": BACKGROUND,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "figure.facecolor": BACKGROUND,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same on every machine
    "font.size": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "pdf.fonttype": 42,  # TrueType: publishers refuse the Type 3 fonts of matplotlib's default
    "svg.fonttype": "path",
    "svg.hashsalt": "slotwise",  # fixes the ids of elements, so that files are reproducible
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.color": MUTED,
    "ytick.labelsize": 8,
    "ytick.major.size": 0,
}


class Stroke(NamedTuple):
    """The colour and the dashes of a line; None is a solid line."""

    colour: str
    dashes: tuple[float, ...] | None = None


def readable(value: float, digits: int = 3) -> str:
    """Return a number in a short, readable form without trailing zeros.

    >>> [readable(value) for value in (50_000, 1_234_567, 0.0746, 12.0, -1500, 0)]
    ['50k', '1.23M', '0.0746', '12', '−1.5k', '0']
    """
    return _with_unit(value, lambda scaled: f"{scaled:.{digits}g}")


def measured(value: float) -> str:
    """Return a measured number with three significant digits, including zeros.

    >>> [measured(value) for value in (79_000, 39.2, 0.53, 999_600, 0)]
    ['79.0k', '39.2', '0.530', '1.00M', '0']
    """
    return _with_unit(value, lambda scaled: f"{scaled:#.3g}".rstrip(".") if scaled else "0")


def _with_unit(value: float, written: Callable[[float], str]) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 999.5e12 or 0 < size < 1e-4:
        return f"{value:.2e}".replace("-", "−")
    # From 999.5 on, three digits round up to the next unit.
    units = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
    unit, name = next((pair for pair in units if size >= 0.9995 * pair[0]), (1.0, ""))
    return f"{written(value / unit)}{name}".replace("-", "−")


def scale_name(scale: float) -> str:
    """Return a `gamma_scale` as a fraction.

    >>> [scale_name(scale) for scale in (1.0, 1 / 72, 0.25, 2.0, 0.3333)]
    ['1', '1/72', '1/4', '2', '0.333']
    """
    fraction = Fraction(scale).limit_denominator(100_000)
    near = math.isclose(float(fraction), scale, rel_tol=1e-6)
    if near and (fraction.numerator == 1 or fraction.denominator == 1):
        return str(fraction)
    return readable(scale)


def on_dark(colour: str) -> str:
    """Return the colour that replaces `colour` on a dark page.

    >>> on_dark(INK), on_dark("#0072b2")
    ('#e8edf2', '#57a2cc')
    """
    known = {INK: "#e8edf2", MUTED: "#9aa6b2", GRID: "#2c343d", BACKGROUND: "#14191f"}
    if colour in known:
        return known[colour]
    red, green, blue = (part + 0.34 * (1 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


def write(axes: Axes, place: tuple[float, float], text: str, **look: Any) -> None:
    """Write `text` at a position in fractions of the axes, with matplotlib's text properties."""
    axes.text(*place, text, transform=axes.transAxes, parse_math=False, **look)


def write_heading(axes: Axes, title: str, meaning: str) -> None:
    """Write the title of a panel and its explanation above it; without one it is close above."""
    height = 1.125 if meaning else 1.045
    write(axes, (0, height), title, fontsize=11, fontweight="bold", va="bottom")
    write(axes, (0, 1.055), meaning, fontsize=8.5, color=MUTED, va="bottom")


def dash(line: Line2D, stroke: Stroke, scale: float = 1.0) -> None:
    """Give a line the dashes of its stroke."""
    if stroke.dashes is not None:
        line.set_dashes(tuple(dash * scale for dash in stroke.dashes))
        line.set_dash_capstyle("butt")


def readable_ticks() -> FuncFormatter:
    """Return what writes the numbers of an axis."""
    return FuncFormatter(lambda value, _: readable(value))


def number_axis(axis: Axis, n_ticks: int = 5, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> None:
    """Give an axis at most so many ticks, at numbers that people can read."""
    axis.set_major_locator(MaxNLocator(n_ticks, steps=steps))
    axis.set_major_formatter(readable_ticks())


# A policy that is not listed here is drawn too: under its label, in a line of its own.


class KnownPolicy(NamedTuple):
    """How figures call and draw a policy, and its part in the paper."""

    display_name: str
    stroke: Stroke
    is_in_paper: bool = False
    ignores_floor: bool = False
    """Whether it seeks another optimum, so that the paper leaves its regret out."""


SUBJECT = "con-ucb"
"""The algorithm that the paper proposes and that its claims are about."""

ORACLE = "oracle"
"""The label of the best fixed mix on the true rates."""

# Okabe and Ito's and Tol's colour-blind safe sets. The best fixed mix is grey and dashed: it is
# the line that others are compared with.
KNOWN: Mapping[str, KnownPolicy] = {
    ORACLE: KnownPolicy("oracle x*", Stroke("#4a5560", (4, 2))),
    SUBJECT: KnownPolicy("Con-UCB", Stroke(BLUE), is_in_paper=True),
    "con-ucb/1440": KnownPolicy("Con-UCB γ/1440", Stroke("#2b9fe0", (7, 1.6))),
    "lexp": KnownPolicy("LExp", Stroke(VERMILION), is_in_paper=True),
    "cucb": KnownPolicy("CUCB", Stroke("#e69f00"), is_in_paper=True, ignores_floor=True),
    "exp3-m": KnownPolicy("Exp3.M", Stroke("#009e73"), is_in_paper=True, ignores_floor=True),
    "uniform": KnownPolicy("uniform", Stroke("#999999", (1.5, 1.5))),
    "paced-bayes": KnownPolicy("paced-bayes", Stroke("#882255")),
}

PAPER = tuple(name for name, known in KNOWN.items() if known.is_in_paper)
"""The four algorithms of the paper's experiments."""

BASELINES = tuple(name for name in PAPER if name != SUBJECT)
"""What the paper compares its algorithm with."""

FLOORLESS = tuple(name for name in PAPER if KNOWN[name].ignores_floor)
"""Those of them that ignore the floor."""

OTHER_COLOURS = ("#cc79a7", "#332288", "#117733", "#882255", "#999933", "#44aa99", "#661100")
OTHER_DASHES = (None, (3, 1.2), (6, 1.5, 1.5, 1.5), (1.5, 1))
SCALED_COLOURS = ("#7b8fe0", "#00507d", "#2b9fe0")
SCALED_DASHES = ((2.5, 1.2), (9, 1.5, 2, 1.5), (4, 1, 1, 1))


def strokes(labels: Iterable[str]) -> dict[str, Stroke]:
    """Return a stroke for every label, all different.

    Known labels look the same in every figure. Another label starts at a place given by a checksum
    of its name and moves on only if that stroke is taken in this figure, in alphabetical order. So
    strokes do not depend on the order of the labels.

    >>> strokes(["lexp", "mine"])["lexp"].colour
    '#d55e00'
    >>> strokes(["mine", "lexp"])["mine"] == strokes(["mine"])["mine"]
    True
    """
    wanted = list(labels)
    chosen = {label: KNOWN[label].stroke for label in wanted if label in KNOWN}
    taken = set(chosen.values())
    for label in sorted(set(wanted) - chosen.keys()):
        # The paper's algorithm has the same hue for every γ.
        is_scaled = label.startswith(f"{SUBJECT}/")
        colours, dashes = (
            (SCALED_COLOURS, SCALED_DASHES) if is_scaled else (OTHER_COLOURS, OTHER_DASHES)
        )
        start = zlib.crc32(label.encode()) % len(colours)
        rotated = [*colours[start:], *colours[:start]]
        around = [Stroke(colour, pattern) for pattern in dashes for colour in rotated]
        chosen[label] = next((stroke for stroke in around if stroke not in taken), around[0])
        taken.add(chosen[label])
    return {label: chosen[label] for label in wanted}


def display_name(label: str, longest: int = 22) -> str:
    """Return the name of a policy in a figure.

    >>> display_name("con-ucb/720"), display_name("exp3-m"), display_name("mine")
    ('Con-UCB γ/720', 'Exp3.M', 'mine')
    """
    family, slash, divisor = label.partition("/")
    name = KNOWN[label].display_name if label in KNOWN else label
    if slash and family == SUBJECT and divisor.isdecimal():
        name = f"{KNOWN[SUBJECT].display_name} γ/{divisor}"
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


GAP_POINTS = 11.5


class EndLabel(NamedTuple):
    """A name, the height at which its line ends, and the line's stroke."""

    text: str
    height: float
    stroke: Stroke


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> Floats:
    """Return the closest heights that are at least `gap` apart and in the same order.

    This is least squares under an order constraint: with i · gap subtracted from the i-th height it
    is isotonic regression, solved by pooling adjacent violators. The heights lie within [low, high]
    if there is room.

    >>> spread([5.0, 5.0, 9.0], gap=1.0, low=0.0, high=10.0).tolist()
    [4.5, 5.5, 9.0]
    """
    wanted = np.asarray(heights, np.float64)
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(len(wanted))
    pools: list[tuple[float, int]] = []
    for height in wanted[order] - offsets:
        mean, count = float(height), 1
        while pools and pools[-1][0] > mean:
            other, n_other = pools.pop()
            mean = (mean * count + other * n_other) / (count + n_other)
            count += n_other
        pools.append((mean, count))
    relaxed = np.concatenate([np.full(count, mean) for mean, count in pools] or [np.zeros(0)])
    room = max(low, high - gap * max(len(wanted) - 1, 0))
    placed = np.empty(len(wanted))
    placed[order] = np.clip(relaxed, low, room) + offsets
    return placed


def label_ends(axes: Axes, labels: Sequence[EndLabel]) -> None:
    """Write each label to the right of the axes; call it after the limits are set."""
    pixels = axes.get_window_extent()
    points_high = pixels.height * 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    ends = axes.transData.transform([(0.0, label.height) for label in labels])[:, 1]
    fractions = (ends - pixels.y0) / pixels.height
    gap = GAP_POINTS / points_high
    for label, end, place in zip(
        labels, fractions, spread(list(fractions), gap, 0.0, 1.0), strict=True
    ):
        axes.plot(
            [1.0, 1.025, 1.045],
            [end, place, place],
            transform=axes.transAxes,
            color=label.stroke.colour,
            linewidth=0.8,
            clip_on=False,
        )
        look = {"color": label.stroke.colour, "fontsize": 8, "fontweight": "bold"}
        write(axes, (1.055, place), label.text, va="center_baseline", **look)
