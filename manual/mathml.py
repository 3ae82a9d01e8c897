"""Convert LaTeX to MathML while the site is built, so that pages need no script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves in a page with `generic: true`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
NAMED_FUNCTION = re.compile(r"(<mi>(?:ln|exp|log)</mi>)(?!<mo[^>]*>&#x00028;)")
THIN_SPACE = '<mspace width="0.17em" />'
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def with_mathml(page: str) -> str:
    """Return the HTML of a page with its formulas as MathML."""
    page = BLOCK.sub(lambda match: _block(match[1]), page)
    return INLINE.sub(lambda match: _formula(match[1], "inline"), page)


def _block(latex: str) -> str:
    # A wide formula scrolls in its own box, so that the page does not scroll on a phone.
    return f'<div class="formula" tabindex="0">{_formula(latex.strip(), "block")}</div>'


def _formula(latex: str, display: str) -> str:
    """Return a formula as MathML, with the thin spaces that the converter omits."""
    return NAMED_FUNCTION.sub(
        rf"{THIN_SPACE}\1{THIN_SPACE}", convert(html.unescape(latex), display=display)
    )
