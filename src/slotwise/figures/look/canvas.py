"""Write figures to files; the same figure always gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from slotwise.errors import InvalidInput
from slotwise.figures.look.style import INK, MUTED, RC
from slotwise.figures.results.setting import Setting

__all__ = [
    "FORMATS",
    "USUAL_FORMATS",
    "ShownFigure",
    "house_style",
    "rendered",
    "save_figure",
    "write_frame",
]

FORMATS = ("svg", "png", "pdf")
"""The file formats of figures."""

USUAL_FORMATS = ("svg", "png")
"""The formats that are written unless others are named."""

PNG_DOTS_PER_INCH = 160

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


def write_frame(figure: Figure, setting: Setting, title: str) -> None:
    """Write the title, the settings below it, and the origin and the data set at the bottom."""
    width, height = figure.get_size_inches()
    left = 0.55 / width
    text: dict[str, Any] = {"ha": "left", "va": "top", "parse_math": False}
    figure.text(left, 1 - 0.2 / height, title, fontsize=15, fontweight="bold", color=INK, **text)
    sentences = (setting.size_sentence, setting.floor_sentence, setting.delay_sentence)
    subtitle = "  ·  ".join(filter(None, sentences))
    figure.text(left, 1 - 0.53 / height, subtitle, fontsize=9.5, color=MUTED, **text)
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
