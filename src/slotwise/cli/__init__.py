"""The command line: one file a command, found by `slotwise.cli.main` under its own name.

A file `slotwise/cli/<name>.py` is the command `slotwise <name>` (an underscore is a dash). It
has one function, `register(app: typer.Typer) -> None`, that adds the command of that name, or
a group of subcommands, to `app`. A command parses, calls one function of the package, prints.
"""
