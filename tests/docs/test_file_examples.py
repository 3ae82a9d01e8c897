"""The files that pages show are read by what reads such files: TOML by slotwise, JSON as JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from slotwise.errors import SlotwiseError
from slotwise.service.settings import load_settings
from slotwise.simulation import load_experiment
from tests.docs.pages import PAGES, Block, blocks_of, read_page

LINKS = "page,shows,hits,euros\nhome,1000,100,50\nnews,400,0,0\nhelp,50,25,100\n"


def check_toml(code: str, folder: Path) -> None:
    """Read a file as an experiment where it names policies, else as settings of the service."""
    file = folder / "shown.toml"
    file.write_text(code, encoding="utf-8")
    keys = tomllib.loads(code)
    if "policies" in keys:
        links = folder / "links.csv"
        links.write_text(LINKS, encoding="utf-8")
        load_experiment(file).experiment(links if keys.get("dataset") == "table" else None)
    else:
        load_settings(file, {}, {})


def shown(language: str) -> list[tuple[str, Block]]:
    return [
        (page, block)
        for page in PAGES
        for block in blocks_of(read_page(page))
        if block.language == language
    ]


@pytest.mark.parametrize(("page", "block"), shown("toml"))
def test_toml_is_read_by_slotwise(page: str, block: Block, tmp_path: Path) -> None:
    check_toml(block.code, tmp_path)


@pytest.mark.parametrize(("page", "block"), shown("json"))
def test_json_is_json(page: str, block: Block) -> None:
    json.loads(block.code)


def test_there_are_files_to_read() -> None:
    assert len(shown("toml")) >= 3
    assert shown("json")


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("colour = 'red'\n", "colour: no such setting"),
        ("dataset = 'coupon-like'\nn_rounds = 1\n[[policies]]\nname = 'x'\n", "shown.toml"),
    ],
)
def test_a_wrong_file_is_noticed(code: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(SlotwiseError, match=complaint):
        check_toml(code, tmp_path)
