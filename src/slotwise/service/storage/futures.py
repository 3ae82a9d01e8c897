"""Futures that follow other futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

__all__ = ["then"]

First = TypeVar("First")
Second = TypeVar("Second")


def then(
    first: Future[First], function: Callable[[First], Second | Future[Second]]
) -> Future[Second]:
    """Return a future with what `function` makes of the first one's result.

    Where that is a future itself, its result is waited for.
    """
    second: Future[Second] = Future()

    def finish(done: Future[First]) -> None:
        # What was committed is taken over even when the caller no longer waits.
        result, error = None, done.exception()
        if error is None:
            try:
                result = function(done.result())
            except Exception as failure:
                error = failure
        if isinstance(result, Future):
            result.add_done_callback(answer)
        else:
            _set(second, cast("Second", result), error)

    def answer(done: Future[Second]) -> None:
        error = done.exception()
        _set(second, done.result() if error is None else None, error)

    first.add_done_callback(finish)
    return second


def _set(future: Future[Second], result: Second | None, error: BaseException | None) -> None:
    if future.set_running_or_notify_cancel():
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("Second", result))
