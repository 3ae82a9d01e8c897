"""A progress bar with the time left, for commands that run experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["progress_bar"]

SPEED_PERIOD = 120.0
"""Seconds over which the speed is averaged, because experiments differ in speed."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on the error stream; yield a function that takes the share done."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=SPEED_PERIOD,
    )
    with bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
