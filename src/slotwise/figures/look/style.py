"""How every figure looks: colours, fonts, and numbers that people can read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

import matplotlib as mpl

__all__ = [
    "BACKGROUND",
    "BLUE",
    "GRID",
    "INK",
    "MUTED",
    "RC",
    "VERMILION",
    "Stroke",
    "measured",
    "on_dark",
    "readable",
    "scale_name",
]

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
    """Return a `gamma_scale` as the fraction that it stands for.

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
