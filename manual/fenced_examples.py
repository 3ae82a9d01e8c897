"""Put the examples of docstrings into blocks of code; Markdown reads `>>>` as a quotation."""

from __future__ import annotations

import textwrap
from typing import Any

import griffe


class FencedExamples(griffe.Extension):
    """Puts every example of every docstring into a block of code before it is read."""

    def on_instance(self, *, obj: griffe.Object, **_kwargs: Any) -> None:
        """Rewrite the docstring of an object that was just read."""
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)


def fence_examples(text: str) -> str:
    r"""Return a docstring with its examples, up to the next empty line, in blocks of code.

    >>> fence_examples("Add.\n\n>>> 1 + 1\n2\n\nMore.")
    'Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.'
    """
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if textwrap.dedent(paragraph).lstrip("\n").startswith(">>>"):
            paragraph = f"```pycon\n{textwrap.dedent(paragraph).strip()}\n```"
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)
