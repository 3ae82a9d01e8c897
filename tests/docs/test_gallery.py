"""Every figure of the gallery stands below the commands that make it."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, blocks_of, read_page

PAGE = read_page("docs/gallery.md")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
PICTURE = re.compile(r"!\[[^\]]+\]\((images/[^)]+)\)|<!-- generated: figure (\w+) -->")


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_a_figure_has_its_commands(section: str) -> None:
    assert PICTURE.search(section)
    commands = [line for block in blocks_of(section) for line in block.code.splitlines()]
    assert commands
    assert all(
        line.startswith(("slotwise ", "make ", "python -m benchmarks.")) for line in commands
    )


def test_every_picture_of_the_gallery_is_shown() -> None:
    kept = {path.name for path in (ROOT / "docs" / "images" / "gallery").iterdir()}
    shown = {match[1].rpartition("/")[2] for match in PICTURE.finditer(PAGE) if match[1]}
    assert kept <= shown
