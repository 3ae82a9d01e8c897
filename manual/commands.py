"""Reference of all commands with their options, generated from the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import typer

from manual.markdown import code, fence, table
from slotwise.cli.main import add_command, build_app, command_names
from slotwise.errors import UnknownName

MAX_OPEN_ROWS = 14
"""A table of options with more rows starts closed."""


class CommandPage(NamedTuple):
    """The words of a command, and its typer object."""

    words: tuple[str, ...]
    command: Any

    @property
    def name(self) -> str:
        """The whole command, such as "slotwise keys make"."""
        return " ".join(("slotwise", *self.words))

    @property
    def options(self) -> list[Any]:
        """The arguments and options of the command, except --help."""
        return [parameter for parameter in self.command.params if not parameter.hidden]


@cache
def program() -> Any:
    """Return the whole program as typer's group of commands, with all arguments and options."""
    app = build_app([])
    app.registered_commands.clear()  # without arguments the program has a list of names only
    for name in command_names():
        add_command(app, name)
    return typer.main.get_command(app)


def commands() -> list[CommandPage]:
    """Return every command, including those of groups, sorted by name."""
    return sorted(_walk((), program()), key=lambda page: page.words)


def _walk(words: tuple[str, ...], command: Any) -> Iterator[CommandPage]:
    if not words or hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _walk((*words, name), inner)
    else:
        yield CommandPage(words, command)


def commands_reference() -> str:
    """Return a section for each command: what it does, examples, arguments and options."""
    group_help = {
        name: command.help
        for name, command in program().commands.items()
        if hasattr(command, "commands")
    }
    parts = []
    for page in commands():
        group = group_help.pop(page.words[0], None)
        if group is not None:
            parts.append(f"## `slotwise {page.words[0]}`")
            parts.append(_words_and_examples(group))
        parts.append(f"## `{page.name}`")
        parts.append(_words_and_examples(page.command.help or ""))
        if page.options:
            rows = [_row(parameter) for parameter in page.options]
            listed = table(["argument or option", "default", "meaning"], rows)
            parts.append(listed if len(rows) <= MAX_OPEN_ROWS else _closed(listed, len(rows)))
        else:
            parts.append("It has no arguments or options except `--help`.")
    return "\n\n".join(parts)


def _closed(listed: str, n_rows: int) -> str:
    """Return a long table in a part that the reader opens."""
    summary = f"<summary>{n_rows} arguments and options</summary>"
    return f"<details markdown>\n{summary}\n\n{listed}\n\n</details>"


def _words_and_examples(text: str) -> str:
    """Return a help text as Markdown, with its examples as a block of code."""
    words, _, examples = text.partition("Examples:")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    shown = words.strip()
    return f"{shown}\n\n{fence(chr(10).join(lines), 'sh')}" if lines else shown


def _row(parameter: Any) -> list[str]:
    return [_spelling(parameter), _default(parameter), _meaning(parameter)]


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name.upper()).strip("[]")
        more = " ..." if parameter.nargs == -1 else ""
        return code(f"{name}{more}" if parameter.required else f"[{name}]{more}")
    return ", ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if getattr(parameter, "is_flag", False) and not parameter.secondary_opts:
        return "off"
    if parameter.default is None:
        # Some help texts end in the default: "Port; 0 takes a free one [8460]".
        said = re.search(r"\[([^\]]+)\]$", parameter.help or "")
        return said[1] if said else "none"
    if getattr(parameter, "is_flag", False):
        return code(parameter.opts[0] if parameter.default else parameter.secondary_opts[0])
    return code(str(parameter.default)) or "empty"


def _meaning(parameter: Any) -> str:
    parts = [re.sub(r" \[[^\]]+\]$", "", parameter.help or "")]
    if getattr(parameter, "multiple", False):
        parts.append("may be given several times")
    if parameter.envvar:
        parts.append(f"also the variable `{parameter.envvar}`")
    return "; ".join(part.rstrip(".") for part in parts if part)


def parse_command_line(words: list[str]) -> None:
    """Parse the words after `slotwise` as the program does, without running anything.

    Raises the error of typer for an unknown command, argument or option. Options of the program
    itself are only looked up, because parsing them would execute them, and one of them writes into
    the home directory.
    """
    command, name, context = program(), "slotwise", None
    if words and words[0].startswith("-"):
        known = {spelling for option in command.params for spelling in option.opts} | {"--help"}
        if unknown := set(words) - known:
            raise UnknownName(f"slotwise has no options {', '.join(sorted(unknown))}")
        return
    while hasattr(command, "commands"):
        # A group has no arguments of its own; the next word names one of its commands.
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
        if not words:
            raise UnknownName(f"{name} is a group; say which of its commands")
        context.resilient_parsing = False
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, list(words), parent=context)
