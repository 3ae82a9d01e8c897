"""The figures of the manual, drawn from committed numbers whenever the site is built.

`python -m manual.figures FOLDER` writes them as files.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from manual.benchmark_figures import draw_alternatives, draw_peers
from manual.frontier_figure import draw_coupon_frontier
from manual.leaderboard_figure import draw_leaderboard
from slotwise.errors import UnknownName
from slotwise.figures.canvas import house_style
from slotwise.figures.style import on_dark

COLOUR = re.compile(r"#[0-9a-f]{6}\b")
METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)


class ManualFigure(NamedTuple):
    """The function that draws a figure, and its description."""

    draw: Callable[[], Figure]
    words: str


FIGURES: Mapping[str, ManualFigure] = {
    "leaderboard": ManualFigure(
        draw_leaderboard,
        "The ratio of every policy to the best one of each case, one row per policy",
    ),
    "alternatives": ManualFigure(
        draw_alternatives, "Microseconds for a page view, slotwise beside other packages"
    ),
    "peers": ManualFigure(
        draw_peers, "Revenue and processor time of slotwise and other packages in five shops"
    ),
    "frontier": ManualFigure(
        draw_coupon_frontier,
        "Best revenue and shadow price against the click floor, on a look-alike of Coupon-Purchase",
    ),
}


def draw_themed(name: str) -> dict[str, str]:
    """Return the SVG of a figure for light and for dark pages, by path in the site."""
    if name not in FIGURES:
        raise UnknownName(f"no figure is called {name!r}; known: {', '.join(FIGURES)}")
    stream = io.StringIO()
    figure = FIGURES[name].draw()
    with house_style():
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    light = METADATA.sub("", stream.getvalue())
    dark = COLOUR.sub(lambda match: on_dark(match[0]), light)
    return {f"images/{name}-light.svg": light, f"images/{name}-dark.svg": dark}


def figure_reference(name: str, folder: str = "") -> str:
    """Return the Markdown that shows a figure in the colours of the page.

    `folder` leads from the page to the root of the manual: "../" from a page one folder down.
    """
    words = FIGURES[name].words
    return "\n".join(
        f"![{words}]({folder}images/{name}-{scheme}.svg#only-{scheme})"
        for scheme in ("light", "dark")
    )


def main(folder: Path) -> None:
    """Write every figure below `folder`."""
    for name in FIGURES:
        for place, svg in draw_themed(name).items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
