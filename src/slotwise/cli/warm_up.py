"""`slotwise warm-up`: compile ahead of time what the first pages would wait for."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from slotwise.cli._compile_ahead import compile_policy, compiled_folder
from slotwise.cli._progress import progress_bar
from slotwise.policies import POLICIES, policy_class

__all__ = ["register"]

HELP = """Compile policies to machine code and keep it on disk, so that no first page waits for it.

For images and continuous integration. Without names, every policy is compiled. The machine
code is kept for this version of slotwise, of Python and of the processor; set NUMBA_CACHE_DIR to
choose the folder, and NUMBA_CPU_NAME=generic where the code runs on other processors than this one.

Examples:

  slotwise warm-up

  slotwise warm-up paced-kl con-ucb
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("warm-up", help=HELP)
    def warm_up(
        policies: Annotated[
            list[str] | None, typer.Argument(metavar="[POLICY]...", help="Policies by name.")
        ] = None,
    ) -> None:
        names = list(dict.fromkeys(policies or POLICIES))
        for name in names:
            policy_class(name)  # refuses an unknown one before any is compiled
        started = time.perf_counter()
        with progress_bar("compiling") as tell:
            for number, name in enumerate(names):
                tell(number / len(names), name)
                compile_policy(name)
        seconds = time.perf_counter() - started
        typer.echo(f"{len(names)} policies ready in {seconds:.0f} s; kept in {compiled_folder()}")
