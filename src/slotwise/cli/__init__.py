"""The command line: one file per command, found by `slotwise.cli.main` under its name.

A file `slotwise/cli/<name>.py` is the command `slotwise <name>` (an underscore becomes a dash). It
has one function, `register(app: typer.Typer) -> None`, that adds the command, or a group of
subcommands, to `app`. A command parses, calls one function of the package and prints.
"""
