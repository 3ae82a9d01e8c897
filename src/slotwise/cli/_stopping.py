"""Ctrl-C in a command that runs experiments: print what is kept and exit with 130."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from slotwise.simulation.series import Planned, kept_runs

__all__ = ["say_what_is_kept"]


@contextmanager
def say_what_is_kept(plan: Sequence[Planned], parts: Path) -> Iterator[None]:
    """Turn Ctrl-C into one sentence about the finished runs of `plan` and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        n_kept, n_runs = kept_runs(plan, parts), sum(planned.n_runs for planned in plan)
        sentence = f"{n_kept:,} of {n_runs:,} runs are kept; the same command continues from there"
        typer.echo(f"stopped: {sentence}", err=True)
        raise typer.Exit(130) from None
