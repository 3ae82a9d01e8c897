"""How every figure looks: inks, series colours, lettering and numbers people can read."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import matplotlib as mpl

__all__ = [
    "BACKGROUND",
    "GRID",
    "INK",
    "MUTED",
    "RC",
    "Stroke",
    "display_name",
    "measured",
    "on_dark",
    "readable",
    "scale_name",
    "strokes",
]

INK, MUTED, GRID, BACKGROUND = "#1c2530", "#66727f", "#e4e8ec", "#ffffff"

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
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
    "font.size": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "slotwise",  # element ids, and so whole files, come out the same every time
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.color": MUTED,
    "ytick.labelsize": 8,
    "ytick.major.size": 0,
}


class Stroke(NamedTuple):
    """The colour and the dashes (None: solid) that stand for one policy."""

    colour: str
    dashes: tuple[float, ...] | None = None


# Okabe and Ito's and Tol's colour-blind safe sets. The best fixed mix is grey and dashed: a mark to
# measure the others by.
FIXED_STROKES: Mapping[str, Stroke] = {
    "oracle": Stroke("#4a5560", (4, 2)),
    "con-ucb": Stroke("#0072b2"),
    "con-ucb/72": Stroke("#2b9fe0", (7, 1.6)),
    "lexp": Stroke("#d55e00"),
    "cucb": Stroke("#e69f00"),
    "exp3-m": Stroke("#009e73"),
    "uniform": Stroke("#999999", (1.5, 1.5)),
    "kl-con-ucb": Stroke("#332288"),
    "anytime-con-ucb": Stroke("#117733"),
    "con-ts": Stroke("#882255"),
    "queue-ts": Stroke("#cc79a7"),
    "queue-kl": Stroke("#aa4499"),
    "safe-con-ucb": Stroke("#999933"),
}
OTHER_COLOURS = ("#cc79a7", "#332288", "#117733", "#882255", "#999933", "#44aa99", "#661100")
SCALED_COLOURS = ("#7b8fe0", "#00507d", "#2b9fe0")
SCALED_DASHES = ((2.5, 1.2), (9, 1.5, 2, 1.5), (4, 1, 1, 1))
OTHER_DASHES = (None, (3, 1.2), (6, 1.5, 1.5, 1.5), (1.5, 1))

DISPLAY_NAMES: Mapping[str, str] = {
    "con-ucb": "Con-UCB",
    "lexp": "LExp",
    "cucb": "CUCB",
    "exp3-m": "Exp3.M",
    "oracle": "oracle x*",
}


def strokes(labels: Iterable[str]) -> dict[str, Stroke]:
    """Return a stroke for every label, all different.

    Well-known labels look the same in every figure. Another label starts from a place of its own
    (a checksum of its name) and moves on only when that stroke is taken in this figure, in
    alphabetic order: so neither the order of the labels nor the day changes it.

    >>> strokes(["lexp", "mine"])["lexp"].colour
    '#d55e00'
    >>> strokes(["mine", "lexp"])["mine"] == strokes(["mine"])["mine"]
    True
    """
    wanted = list(labels)
    chosen = {label: FIXED_STROKES[label] for label in wanted if label in FIXED_STROKES}
    taken = set(chosen.values())
    for label in sorted(set(wanted) - chosen.keys()):
        # Con-UCB keeps its hue, whatever its γ.
        is_scaled = label.startswith("con-ucb/")
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
    """Return how a policy is called in a figure.

    >>> display_name("con-ucb/72"), display_name("exp3-m"), display_name("mine")
    ('Con-UCB γ/72', 'Exp3.M', 'mine')
    """
    family, slash, divisor = label.partition("/")
    name = DISPLAY_NAMES.get(label, label)
    if slash and family in DISPLAY_NAMES and divisor.isdecimal():
        name = f"{DISPLAY_NAMES[family]} γ/{divisor}"
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def readable(value: float, digits: int = 3) -> str:
    """Return a number as people say it, without trailing zeros.

    >>> [readable(value) for value in (50_000, 1_234_567, 0.0746, 12.0, -1500, 0)]
    ['50k', '1.23M', '0.0746', '12', '−1.5k', '0']
    """
    return _with_unit(value, lambda scaled: f"{scaled:.{digits}g}")


def measured(value: float) -> str:
    """Return a measured number with three digits that count, zeros among them.

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
    """Return a `gamma_scale` as the fraction it was meant as.

    >>> [scale_name(scale) for scale in (1.0, 1 / 72, 0.25, 2.0, 0.3333)]
    ['1', '1/72', '1/4', '2', '0.333']
    """
    fraction = Fraction(scale).limit_denominator(100_000)
    near = math.isclose(float(fraction), scale, rel_tol=1e-6)
    if near and (fraction.numerator == 1 or fraction.denominator == 1):
        return str(fraction)
    return readable(scale)


def on_dark(colour: str) -> str:
    """Return the colour that stands for `colour` on a dark page.

    >>> on_dark(INK), on_dark("#0072b2")
    ('#e8edf2', '#57a2cc')
    """
    known = {INK: "#e8edf2", MUTED: "#9aa6b2", GRID: "#2c343d", BACKGROUND: "#14191f"}
    if colour in known:
        return known[colour]
    red, green, blue = (part + 0.34 * (1 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))
