"""The unit files that pages show start commands that exist and set settings that exist."""

from __future__ import annotations

import re

import pytest

from slotwise.service.settings import ENVIRONMENT_PREFIX, Settings
from tests.docs.pages import PAGES, Block, blocks_of, read_page
from tests.docs.test_shell_examples import check_command

UNITS = [
    pytest.param(block, id=f"{page}:{block.line}")
    for page in PAGES
    for block in blocks_of(read_page(page))
    if block.language == "ini"
]
STARTED = re.compile(r"/bin/(slotwise [^'\n]+)")
VARIABLE = re.compile(rf"\b{ENVIRONMENT_PREFIX}(\w+)=")


def started(unit: str) -> list[str]:
    """Return the commands of slotwise that a unit file starts; `%i` is a port."""
    lines = STARTED.findall(unit)
    return [re.sub(r"\$\$\(.*?\)", "today", line).replace("%i", "8460") for line in lines]


def wrong_settings(unit: str) -> set[str]:
    return {name.lower() for name in VARIABLE.findall(unit)} - set(Settings.__struct_fields__)


@pytest.mark.parametrize("block", UNITS)
def test_units_start_commands_that_exist(block: Block) -> None:
    for line in started(block.code):
        check_command(line, is_whole=True)


@pytest.mark.parametrize("block", UNITS)
def test_units_set_settings_that_exist(block: Block) -> None:
    assert not wrong_settings(block.code)


def test_a_wrong_unit_is_noticed() -> None:
    assert len(UNITS) >= 3
    assert wrong_settings("Environment=SLOTWISE_COLOUR=red") == {"colour"}
    [line] = started("ExecStart=/srv/slotwise/bin/slotwise serve --colour red")
    with pytest.raises(AssertionError, match="No such option"):
        check_command(line, is_whole=True)
