"""The commands that pages show exist: `slotwise ...` is parsed by the program itself."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._click.exceptions import BadOptionUsage, MissingParameter, UsageError

from benchmarks.leaderboard.__main__ import app
from manual.commands import parse_command_line
from manual.make_targets import make_targets
from slotwise.errors import UnknownName
from tests.docs.pages import PAGES, blocks_of, command_lines, read_page

LEADERBOARD = "python -m benchmarks.leaderboard"
INLINE = re.compile(rf"`((?:slotwise|make|{re.escape(LEADERBOARD)}) [^`\n]+)`")
COMMANDS = ("slotwise ", "make ", LEADERBOARD)


@cache
def leaderboard() -> Any:
    return typer.main.get_command(app)


def check_command(line: str, *, is_whole: bool) -> None:
    """Refuse a command that does not exist; in prose it may lack its arguments."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        unknown = {word for word in words[1:] if "=" not in word} - make_targets().keys()
        assert not unknown, f"{line}: no target {unknown}"
        return
    try:
        if line.startswith(LEADERBOARD):
            leaderboard().make_context("leaderboard", words[3:])
        else:
            parse_command_line(words[1:])
    except (MissingParameter, BadOptionUsage) as error:
        if is_whole:
            raise AssertionError(f"{line}: {error.message}") from error
    except UsageError as error:
        raise AssertionError(f"{line}: {error.message}") from error
    except UnknownName as error:
        if is_whole or "is a group" not in str(error):
            raise AssertionError(f"{line}: {error}") from error


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_blocks_are_whole_and_exist(page: str) -> None:
    for block in blocks_of(read_page(page)):
        if block.is_shell:
            for line in command_lines(block.code):
                if line.startswith(COMMANDS):
                    check_command(line, is_whole=True)


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", read_page(page), flags=re.MULTILINE | re.DOTALL)
    for line in INLINE.findall(prose):
        check_command(line, is_whole=False)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("slotwise simulat figure-1-coupon", "No such command"),
        ("slotwise simulate figure-1-coupon --run 20", "No such option"),
        ("slotwise simulate", "Missing argument|slotwise simulate: "),
        ("slotwise --colour", "slotwise has no options --colour"),
        ("slotwise keys", "slotwise keys: .* is a group"),
        ("slotwise keys make admin --label x --colour red", "No such option"),
        ("slotwise serve --port many", "valid integer"),
        ("make tests", "no target"),
        ("python -m benchmarks.leaderboard --case few-links", "No such option"),
    ],
)
def test_a_wrong_command_is_noticed(line: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_command(line, is_whole=True)


def test_options_of_the_program_are_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    check_command("slotwise --install-completion", is_whole=True)
    assert not list(tmp_path.iterdir())


def test_commands_over_several_lines_are_one() -> None:
    code = "slotwise datasets table \\\n    -o views=shows\n\n# a remark\nslotwise serve   # here\n"
    assert command_lines(code) == [
        "slotwise datasets table -o views=shows",
        "# a remark",
        "slotwise serve   # here",
    ]
    check_command("slotwise serve   # here", is_whole=True)
