"""The program `slotwise`: find the commands, run one, and print an error in one sentence.

Exit codes: 0 success, 1 an unexpected error (with its traceback), 2 a `SlotwiseError` or wrong
usage, 130 stopped with Ctrl-C. Used by `__main__`.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.errors import MissingPackage, SlotwiseError
from slotwise.extras import missing_package
from slotwise.version import __version__

if TYPE_CHECKING:
    import typer


HEADINGS = {
    "Serving": {
        "serve": "serving",
        "demo": "demo",
        "keys": "store_keys",
        "import": "importing",
        "plan": "needed_traffic",
        "warm-up": "warm_up",
    },
    "Store maintenance": dict.fromkeys(
        ("backup", "restore", "export", "move-store", "purge", "forget", "set-back", "verify"),
        "store_upkeep",
    ),
    "Experiments": {
        "reproduce": "experiments",
        "simulate": "experiments",
        "draw": "experiments",
        "merge": "experiments",
        "datasets": "catalogue",
        "policies": "catalogue",
    },
    "Logs and floors": {"evaluate": "evaluating", "frontier": "floor_frontier"},
}
"""The commands under the headings of `slotwise --help`, each with its module in this folder.

The function or group of a command is called `<name>_command`; its docstring is the help text.
"""

PACKAGES = {
    "Serving": ("service", "uvicorn"),
    "Store maintenance": ("service", "sqlalchemy"),
    "Experiments": ("experiments", "polars"),
    "Logs and floors": ("experiments", "polars"),
}
"""The extra that brings the commands under a heading, and one of its packages."""
OF_BOTH = ("catalogue", "warm_up")
"""Modules whose commands work with either extra."""
COMPLETING = "_SLOTWISE_COMPLETE"
"""The variable with which a shell requests completions of a command."""
OF_SERVICE = frozenset({*HEADINGS["Serving"], *HEADINGS["Store maintenance"]} - {"plan", "warm-up"})
"""Commands that the extra `service` brings; the others belong to `experiments`."""


INTERRUPTED = "slotwise: interrupted"
FORMAT_WARNING = warnings.formatwarning


def main(args: Sequence[str] | None = None) -> int:
    """Run `slotwise` with `args`, by default those of the process, and return the exit code."""
    args = sys.argv[1:] if args is None else list(args)
    if args == ["--version"]:  # also where the packages of the commands are missing
        print(f"slotwise {__version__}")
        return 0
    try:
        # Slow to import, and a command may be stopped meanwhile.
        from slotwise.compile import announce_compiling
        from slotwise.plugins import look_for_modules_in

        announce_compiling(False)  # commands show their own progress
        warnings.formatwarning = _in_one_line  # type: ignore[assignment]
        app = build_app(args)
        if not OF_SERVICE.intersection(args[:1]):
            look_for_modules_in("")  # the current folder, for policies named "module:Class"
        app(args, prog_name="slotwise")
    except SystemExit as stop:
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
            print(INTERRUPTED, file=sys.stderr)  # typer exits with 130 and says nothing
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except SlotwiseError as error:
        print(f"slotwise: {error}", file=sys.stderr)
        return 2
    except PermissionError as error:  # any command may meet a file of somebody else
        print(f"slotwise: {error.filename} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    return 0


def _in_one_line(message: Any, category: type[Warning], *place: Any) -> str:
    """Format a warning of slotwise like an error: the line of code would be one of its own."""
    is_own = category.__module__.startswith("slotwise.")
    return f"slotwise: {message}\n" if is_own else FORMAT_WARNING(message, category, *place)


def command_names() -> list[str]:
    """Return the names of all commands, in the order of their headings."""
    return [name for commands in HEADINGS.values() for name in commands]


def build_app(args: Sequence[str]) -> typer.Typer:
    """Return the program with the command that `args` start with, or with the list of all.

    Only the packages of the requested command are imported, so that it starts quickly, and none
    for the list.
    """
    try:
        import typer
    except ModuleNotFoundError as error:
        raise _missing_extra(args, error) from error

    app = typer.Typer(
        cls=plain_help(typer.core.TyperGroup),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Choose which links go on a page: the most revenue that keeps a click floor.",
    )

    def print_version(wanted: bool) -> None:
        if wanted:
            print(f"slotwise {__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False,
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ) -> None:
        pass

    names = command_names()
    if args and args[0] in names:
        add_command(app, args[0])
    elif COMPLETING in os.environ:  # the shell needs the options of commands, too
        for name in names:
            add_command(app, name)
    else:
        for heading, commands in HEADINGS.items():
            extra, package = PACKAGES[heading]
            has_package = importlib.util.find_spec(package) is not None
            install = "" if has_package else rf" (pip install 'slotwise\[{extra}]')"
            for name, module in commands.items():
                text = first_line(name, module) + ("" if module in OF_BOTH else install)
                app.command(name, help=text, rich_help_panel=heading)(lambda: None)
    return app


def plain_help(kind: Any) -> Any:
    """Return a class of typer whose help is wrapped to the terminal and names no type of flags."""

    class Plain(kind):  # type: ignore[misc]
        help: str

        def get_params(self, context: object) -> object:
            parameters = super().get_params(context)
            for parameter in parameters:
                if getattr(parameter, "is_flag", False):
                    parameter.metavar = ""
            paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
            self.help = "\n\n".join(  # an example is indented and has its own line
                one if one.startswith(" ") else one.replace("\n", " ") for one in paragraphs
            )
            return parameters

    return Plain


def first_line(name: str, module: str) -> str:
    """Return the first line of a command's help from the text of its module, not imported."""
    import ast  # here and below: only for the list of commands

    spec = importlib.util.find_spec(f"slotwise.cli.{module}")
    assert spec is not None
    assert spec.origin is not None
    wanted = f"{name.replace('-', '_')}_command"
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == wanted:
            assert isinstance(node.value, ast.Call)  # a group: typer.Typer(help="...")
            text = next(one.value for one in node.value.keywords if one.arg == "help")
            return str(ast.literal_eval(text)).partition("\n")[0]
    raise LookupError(f"{spec.origin} has no {wanted}")


def _missing_extra(args: Sequence[str], error: ModuleNotFoundError) -> MissingPackage:
    """Return what to install for the command that `args` start with, in one sentence."""
    if not args or args[0] not in command_names():
        return missing_package("`slotwise`", error)
    extra = "service" if args[0] in OF_SERVICE else "experiments"
    problem = f"`slotwise {args[0]}` needs the package {error.name}, which is not installed"
    install = f"install it with: pip install 'slotwise[{extra}]'"
    return MissingPackage(f"{problem}; {install}", name=error.name)


def add_command(app: typer.Typer, name: str) -> None:
    """Add the command `name`, or a replacement that names its missing packages."""
    heading = next(heading for heading, commands in HEADINGS.items() if name in commands)
    try:
        module = importlib.import_module(f"slotwise.cli.{HEADINGS[heading][name]}")
    except ModuleNotFoundError as error:
        add_stand_in(app, name, missing_package(f"`slotwise {name}`", error))
    else:
        command = getattr(module, f"{name.replace('-', '_')}_command")
        kind = app.info.cls
        if isinstance(command, type(app)):
            app.add_typer(command, name=name, cls=kind)
        else:
            import typer

            app.command(name, cls=plain_help(typer.core.TyperCommand))(command)
    for registered in (app.registered_commands, app.registered_groups):
        if registered and registered[-1].name == name:
            registered[-1].rich_help_panel = heading


def add_stand_in(app: typer.Typer, name: str, problem: SlotwiseError) -> None:
    """Add a command that takes any arguments and raises `problem`."""

    # Without its own --help option, `--help` is answered with the missing packages as well.
    @app.command(
        name,
        help=f"Not installed: {problem}".replace("[", r"\["),  # rich treats a bracket as markup
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def stand_in() -> None:
        raise problem


if __name__ == "__main__":
    sys.exit(main())
