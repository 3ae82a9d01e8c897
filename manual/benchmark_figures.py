"""Figures of the benchmarks, from the numbers that their commands wrote into `docs/`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise.errors import InvalidInput
from slotwise.figures.canvas import house_style
from slotwise.figures.style import INK, MUTED

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"
OWN = "#0072b2"
NUMBER = re.compile(r"[\d,]+(?:\.\d+)?")
PAGE_VIEW = "a page view"
PLAYER_COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00")
KEYS = ("peer", "shop")


class MeasuredRow(NamedTuple):
    """One row of the table of the page, as text."""

    name: str
    measured: str
    result: str


def measured_rows(text: str) -> list[MeasuredRow]:
    r"""Return the rows of the table between the page's two marks.

    >>> page = START + "\n| a | b | c |\n| --- | --- | --- |\n" + END
    >>> measured_rows(page)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `page` must be one with measured rows between its marks, got ...
    """
    inside = text.partition(START)[2].partition(END)[0]
    lines = [line for line in inside.splitlines() if line.startswith("|")]
    rows = [
        MeasuredRow(*(part.strip() for part in line.strip("|").split("|"))) for line in lines[2:]
    ]
    if not rows:
        rule = "one with measured rows between its marks"
        raise InvalidInput.of("page", rule, text[:40])
    return rows


def measured_with(text: str) -> str:
    """Return the sentence of the page about the machine and versions of the measurement."""
    found = re.search(r"^Measured with .*$", text, re.MULTILINE)
    return found[0] if found else ""


def draw_alternatives(path: Path = PAGE) -> Figure:
    """Draw what a page view costs with slotwise and with other packages."""
    text = path.read_text(encoding="utf-8")
    rows = [row for row in measured_rows(text) if row.measured.endswith(PAGE_VIEW)]
    with house_style():
        figure, axes = _bars_figure(
            "A page view of 15 of 271 links, in microseconds", measured_with(text), len(rows)
        )
        for place, row in enumerate(rows):
            colour = OWN if row.name.startswith("slotwise") else MUTED
            axes.barh(place, _number(row.measured), height=0.55, color=colour, zorder=2)
            said = f" {row.measured.removesuffix(PAGE_VIEW).strip()}"
            axes.text(_number(row.measured), place, said, va="center", fontsize=8.5, color=INK)
        _name_rows(axes, [row.name for row in rows])
        axes.set_xlim(0, 1.14 * max(_number(row.measured) for row in rows))
        axes.set_xlabel("µs per page view, select and update", loc="right")
    return figure


def draw_peers(path: Path = DOCS / "peers.json") -> Figure:
    """Draw the revenue and the time of slotwise and other packages in simulated shops."""
    found = json.loads(path.read_text(encoding="utf-8"))
    players, shops = (list(dict.fromkeys(row[name] for row in found["rows"])) for name in KEYS)
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    with house_style():
        title = "Revenue in simulated shops, and processor time of a page view"
        subtitle = f"{found['runs']} runs of {found['views']:,} page views; {versions}"
        figure, axes = _bars_figure(title, subtitle, 3 * len(shops))
        axes.set_position((0.17, 0.18, 0.40, 0.66))
        times = figure.add_axes((0.63, 0.18, 0.34, 0.66))
        for row in found["rows"]:
            number, shop = players.index(row["peer"]), shops.index(row["shop"])
            mean, spread = (100 * one for one in row["revenue"])
            place, colour = shop + 0.12 * (number - 2.5), PLAYER_COLOURS[number]
            style: dict[str, Any] = {"fmt": "o", "markersize": 5, "color": colour, "zorder": 3}
            label = row["peer"] if shop == 0 else None
            axes.errorbar(mean, place, xerr=spread, label=label, **style)
            axes.plot([100 * row["blind"]] * 2, [shop - 0.38, shop + 0.38], color=INK, linewidth=1)
            times.plot(row["micros"][0], place, "o", markersize=5, color=colour, zorder=3)
        _name_rows(axes, shops)
        _name_rows(times, [""] * len(shops))
        axes.set_xlabel("% of the best page of each visitor; line: best page for all", loc="right")
        times.set_xscale("log")
        times.set_xlabel("µs per page view, choose and learn", loc="right")
        figure.legend(loc="lower center", ncols=len(players), fontsize=8, frameon=False)
    return figure


def _bars_figure(title: str, subtitle: str, n_rows: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(10.2, 0.3 * n_rows + 1.6))
    height = figure.get_size_inches()[1]
    axes = figure.add_axes((0.33, 0.55 / height, 0.63, 1 - 1.4 / height))
    figure.text(0.015, 1 - 0.18 / height, title, fontsize=14, fontweight="bold", va="top")
    figure.text(0.015, 1 - 0.5 / height, subtitle, fontsize=8.5, color=MUTED, va="top")
    return figure, axes


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelsize=8.5, labelcolor=INK)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def _number(text: str) -> float:
    found = NUMBER.search(text)
    if found is None:
        raise InvalidInput.of("row", "one with a number in it", text)
    return float(found[0].replace(",", ""))
