"""The command line: one file a subject, found by `slotwise.cli.main`, which lists all commands.

The function of the command `slotwise <name>` is `<name>_command` (a dash becomes an underscore);
its docstring is the help. A command parses, calls functions of the package and prints.
"""
