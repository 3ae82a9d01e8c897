"""Write figures to files; the same figure always gives the same bytes.

Used by `answers_figure`, `chosen_panels`, `cli`, `experiment_figure`, `floor_price`,
`own_page_figure`, `paper_report`, `result_figures`, `segment_figure`, `several_floors_figure` and
`sweep_figure`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from slotwise.errors import InvalidInput
from slotwise.figures.setting import Setting
from slotwise.figures.style import INK, MUTED, RC, on_dark

FORMATS = ("svg", "png", "pdf")
"""The file formats of figures."""

USUAL_FORMATS = ("svg", "png")
"""The formats that are written unless others are named."""

PNG_DOTS_PER_INCH = 160

TEXT: dict[str, Any] = {"ha": "left", "va": "top", "parse_math": False}
"""How text at the edges of a figure is placed."""

UNREPRODUCIBLE = {
    "svg": ("Date", "Creator"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
"""Metadata that matplotlib would write by itself: dates and its own version."""


class ShownFigure(Figure):
    """A figure that a notebook shows when it is the last line of a cell.

    Notebooks show figures of pyplot by themselves; ours are made without it, so that drawing
    neither chooses a backend nor keeps figures in memory.
    """

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house style, independent of the user's matplotlib settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)  # type: ignore[arg-type]
        yield


def write_titles(
    figure: Figure, title: str, subtitle: str, left_inches: float, fontsize: float = 9.5
) -> None:
    """Write the title of a figure and a smaller line below it, which has this font size."""
    width, height = figure.get_size_inches()
    left, text = left_inches / width, TEXT
    figure.text(left, 1 - 0.2 / height, title, fontsize=15, fontweight="bold", color=INK, **text)
    figure.text(left, 1 - 0.53 / height, subtitle, fontsize=fontsize, color=MUTED, **text)


def write_frame(figure: Figure, setting: Setting, title: str) -> None:
    """Write the title, the settings below it, and the origin and the data set at the bottom."""
    width, height = figure.get_size_inches()
    left, text = 0.55 / width, TEXT
    sentences = (setting.size_sentence, setting.floor_sentence, setting.delay_sentence)
    write_titles(figure, title, "  ·  ".join(filter(None, sentences)), 0.55)
    figure.text(left, 0.24 / height, setting.origin_sentence, fontsize=8, color=MUTED, **text)
    right: dict[str, Any] = text | {"ha": "right"}
    data = setting.data_sentence
    figure.text(1 - 0.3 / width, 0.24 / height, data, fontsize=8, color=MUTED, **right)


def save_figure(
    figure: Figure, directory: Path, name: str, formats: Sequence[str] = USUAL_FORMATS
) -> list[Path]:
    """Write `figure` into `directory`, one file per format, and return the files."""
    for kind in formats:
        if kind not in FORMATS:
            raise InvalidInput.of("format", f"one of {', '.join(FORMATS)}", kind)
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in formats:
        path = directory / f"{name}.{kind}"
        path.write_bytes(rendered(figure, kind))
        written.append(path)
    return written


def rendered(figure: Figure, kind: str) -> bytes:
    """Return the bytes of a file with the figure in one of the formats."""
    stream = io.BytesIO()
    # A date or the name of the drawing library would make equal figures differ.
    options: dict[str, Any] = {}
    if kind in UNREPRODUCIBLE:
        options["metadata"] = dict.fromkeys(UNREPRODUCIBLE[kind])
    with house_style():
        bare = "rgba" if kind == "png" else kind
        figure.savefig(stream, format=bare, dpi=PNG_DOTS_PER_INCH, **options)
    return _with_palette(figure, stream.getvalue()) if kind == "png" else stream.getvalue()


def _with_palette(figure: Figure, pixels: bytes) -> bytes:
    """Return a PNG with a palette of 256 colours: a third of the size, with no visible change."""
    smaller = io.BytesIO()
    width, height = (int(inches * PNG_DOTS_PER_INCH) for inches in figure.get_size_inches())
    picture = Image.frombytes("RGBA", (width, height), pixels).convert("RGB")
    palette = picture.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette.save(smaller, format="png")
    return smaller.getvalue()


STYLE = re.compile(r'style="[^"]*"')
COLOUR = re.compile(r"#([0-9a-f]{6})\b")


def themed_svg(svg: str, prefix: str) -> str:
    """Return the `<svg>` element of a file's text, its colours named by CSS variables.

    Ids get the prefix, so that one page can contain several figures; it must be a valid id.
    """
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    variable = r"var(--c-\1, #\1)"
    return STYLE.sub(lambda style: COLOUR.sub(variable, style[0]), text)


def themed_colours(svg: str) -> set[str]:
    """Return the colours of the light page that a themed figure uses."""
    return set(re.findall(r"var\(--c-[0-9a-f]{6}, (#[0-9a-f]{6})\)", svg))


def dark_rules(colours: set[str]) -> str:
    """Return the CSS variables that replace `colours` on a dark page.

    >>> dark_rules({"#ffffff"})
    '--c-ffffff: #14191f;'
    """
    return " ".join(f"--c-{colour[1:]}: {on_dark(colour)};" for colour in sorted(colours))
