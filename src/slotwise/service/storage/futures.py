"""Futures that follow other futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

__all__ = ["after", "then"]

Result = TypeVar("Result")


def then(first: Future[list[object]], function: Callable[[list[object]], Result]) -> Future[Result]:
    """Return a future with what `function` makes of the first one's result."""
    second: Future[Result] = Future()

    def finish(done: Future[list[object]]) -> None:
        # What was committed is taken over even when the caller no longer waits.
        result, error = None, done.exception()
        if error is None:
            try:
                result = function(done.result())
            except Exception as failure:
                error = failure
        if not second.set_running_or_notify_cancel():
            return
        if error is not None:
            second.set_exception(error)
        else:
            second.set_result(cast("Result", result))

    first.add_done_callback(finish)
    return second


def after(first: Future[None], second: Future[Result]) -> Future[Result]:
    """Return a future with the second one's result, set when both are done."""
    both: Future[Result] = Future()

    def finish(_: Future[None]) -> None:
        second.add_done_callback(lambda done: _copy_result(done, both))

    first.add_done_callback(finish)
    return both


def _copy_result(done: Future[Result], copy: Future[Result]) -> None:
    if copy.set_running_or_notify_cancel():
        error = done.exception()
        if error is not None:
            copy.set_exception(error)
        else:
            copy.set_result(done.result())
