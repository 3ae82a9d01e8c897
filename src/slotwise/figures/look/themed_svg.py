"""SVG figures inside a page that follow the light or dark setting of the reader."""

from __future__ import annotations

import re

from slotwise.figures.look.style import on_dark

__all__ = ["ThemedSvg", "dark_rules"]

STYLE = re.compile(r'style="[^"]*"')
COLOUR = re.compile(r"#[0-9a-f]{6}\b")


class ThemedSvg(str):
    """The `<svg>` element of a figure, its colours named by CSS variables.

    Ids get a prefix, so that one page can contain several figures.
    """

    @classmethod
    def of(cls, svg: str, prefix: str) -> ThemedSvg:
        """Read the text of an SVG file; `prefix` must be a valid id, unique in the page."""
        text = svg[svg.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
        text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
        text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
        return cls(STYLE.sub(lambda style: COLOUR.sub(_variable, style[0]), text))

    @property
    def colours(self) -> set[str]:
        """The colours of the light page that the figure uses."""
        return set(re.findall(r"var\(--c-[0-9a-f]{6}, (#[0-9a-f]{6})\)", self))


def dark_rules(colours: set[str]) -> str:
    """Return the CSS variables that replace `colours` on a dark page.

    >>> dark_rules({"#ffffff"})
    '--c-ffffff: #14191f;'
    """
    return " ".join(f"--c-{colour[1:]}: {on_dark(colour)};" for colour in sorted(colours))


def _variable(match: re.Match[str]) -> str:
    return f"var(--c-{match[0][1:]}, {match[0]})"
