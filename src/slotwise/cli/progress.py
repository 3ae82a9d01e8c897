"""Progress of commands that run experiments: a bar on a terminal, lines in a pipe.

Used by `evaluating`, `experiments`, `needed_traffic`, `store_upkeep` and `warm_up`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer import Option, echo


class Tell(Protocol):
    """Takes the share of the work that is done, and the name of the experiment that is run."""

    def __call__(self, share: float, name: str = "") -> None:
        """Report progress."""


SPEED_PERIOD = 120.0
"""Seconds over which the speed is averaged, because experiments differ in speed."""


class Stages:
    """Reports when an experiment starts, and when its first run is finished.

    >>> stages = Stages()
    >>> [stages.describe(*step) for step in ((0.0, "a"), (0.1, "a"), (0.5, "b"), (0.6, "b"))]
    ['a: compiling', 'a', 'b: compiling', 'b']
    """

    def __init__(self) -> None:
        self._name, self._start = "", 0.0

    def is_new(self, name: str) -> bool:
        """Return whether this experiment has not been reported yet."""
        return bool(name) and name != self._name

    def describe(self, share: float, name: str) -> str:
        """Return what is going on: nothing is finished while loops are compiled."""
        if self.is_new(name):
            self._name, self._start = name, share
        is_compiling = bool(self._name) and share <= self._start and share < 1.0
        return f"{self._name}: compiling" if is_compiling else self._name


@contextmanager
def progress_bar(what: str) -> Iterator[Tell]:
    """Show progress on the error stream; yield a function that reports it.

    On a terminal this is a bar with the time left. In a pipe it is one line for each experiment,
    when it starts.
    """
    console = Console(stderr=True)
    stages = Stages()
    if not console.is_terminal:

        def tell_lines(share: float, name: str = "") -> None:
            if stages.is_new(name):
                described = stages.describe(share, name)
                console.print(f"{share:4.0%} {described}", highlight=False, markup=False)

        yield tell_lines
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=SPEED_PERIOD,
    )
    with bar:
        task = bar.add_task(f"{what}: compiling", total=1.0)

        def tell_bar(share: float, name: str = "") -> None:
            bar.update(task, completed=share, description=stages.describe(share, name) or what)

        yield tell_bar


@contextmanager
def answer_interrupts() -> Iterator[None]:
    """Answer Ctrl-C at once: neither a compiler nor a run can be interrupted."""
    is_main = threading.current_thread() is threading.main_thread()
    is_usual = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:  # an ignored signal stays ignored
        signal.signal(signal.SIGINT, _say_stopping)
    try:
        yield
    finally:
        if is_usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _say_stopping(*_: object) -> None:
    echo("stopping when current compilations and runs have finished", err=True)
    raise KeyboardInterrupt


ThreadsOption = Annotated[int | None, Option("--threads", help="Threads; by default one per core.")]
SchedulerOption = Annotated[
    str | None,
    Option("--scheduler", help="Run on the workers of this Dask scheduler, tcp://host:8786."),
]
ShardOption = Annotated[
    str | None,
    Option("--shard", help="Run only one of several equal parts, such as 3/16; merge them later."),
]
