"""Mathematics without a script: LaTeX becomes MathML while the site is built."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

__all__ = ["with_mathml"]

# What pymdownx.arithmatex leaves in a page with `generic: true`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def with_mathml(page: str) -> str:
    """Return the HTML of a page with its formulas as MathML, which browsers draw by themselves."""
    page = BLOCK.sub(lambda match: _block(match[1]), page)
    return INLINE.sub(lambda match: convert(html.unescape(match[1])), page)


def _block(latex: str) -> str:
    formula = convert(html.unescape(latex.strip()), display="block")
    # Wide formulas scroll by themselves, so that a phone's page does not.
    return f'<div class="formula" tabindex="0">{formula}</div>'
