"""Text in figures, without formulas: a dollar sign in a label stays a dollar sign."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from slotwise.figures.look.style import MUTED

__all__ = ["write", "write_heading"]


def write(axes: Axes, place: tuple[float, float], text: str, **look: Any) -> None:
    """Write `text` at a position in fractions of the axes, with matplotlib's text properties."""
    axes.text(*place, text, transform=axes.transAxes, parse_math=False, **look)


def write_heading(axes: Axes, title: str, meaning: str) -> None:
    """Write the title of a panel and its explanation above it."""
    write(axes, (0, 1.125), title, fontsize=11, fontweight="bold", va="bottom")
    write(axes, (0, 1.055), meaning, fontsize=8.5, color=MUTED, va="bottom")
