"""What commands that run experiments share: where they run, and what Ctrl-C leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from slotwise.errors import SlotwiseError
from slotwise.simulation.series import Planned, kept_runs

__all__ = ["SchedulerOption", "ShardOption", "ThreadsOption", "say_what_is_kept"]

ThreadsOption = Annotated[
    int | None, typer.Option("--threads", help="Threads; by default one per core.")
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", help="Run on the workers of this Dask scheduler, tcp://host:8786."),
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", help="Only a part of the runs, such as 3/16; see `slotwise merge`."),
]


@contextmanager
def say_what_is_kept(plan: Sequence[Planned], parts: Path) -> Iterator[None]:
    """Turn Ctrl-C or a full disk into one sentence about the finished runs of `plan`.

    The exit code is 130 after Ctrl-C and 1 where a file cannot be written.
    """

    def stop(reason: str, code: int) -> typer.Exit:
        n_kept, n_runs = kept_runs(plan, parts), sum(planned.n_runs for planned in plan)
        kept = f"{n_kept:,} of {n_runs:,} runs are kept; the same command continues from there"
        typer.echo(f"stopped: {reason}{kept}", err=True)
        return typer.Exit(code)

    try:
        yield
    except KeyboardInterrupt:
        raise stop("", 130) from None
    except SlotwiseError:
        raise
    except OSError as error:
        raise stop(f"a file cannot be written ({error}). ", 1) from None
