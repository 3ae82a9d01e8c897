"""Declare which functions can be compiled, and how.

A decorator marks a plain Python function and returns it, so that interpreted code runs at full
speed and nothing imports numba. `slotwise.compile.switch` decides when machine code is made, and
`slotwise.compile.machine_code` makes it. Used by most of `compile`, and by `policies` and
`selection`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from slotwise.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])

int64: Any = np.int64
"""Converts a literal to a plain number: numba compiles a function again for a literal argument."""

LANES = 16
"""Numbers in a block, which vector passes handle at once."""
WINDOW = 32
"""Numbers that a search for the first large one compares at once."""
WORD = 64
"""Numbers whose comparison fills a machine word; a whole number of blocks."""


class Options(NamedTuple):
    """How a function is compiled."""

    counts_references: bool
    """Whether references to arrays are counted. A function that creates arrays needs it."""
    is_vector_pass: bool = False
    """Whether `slotwise.compile.vector_code` has code for it, of the same name."""
    sees_nan: bool = False
    """Whether its comparisons with NaN are false, as in Python. Other functions assume no NaN."""


MARK = "__slotwise_options__"
MADE_BY = "__slotwise_made_by__"


def compiled(function: Function) -> Function:
    """Declare that `function` can be compiled.

    Machine code releases the GIL. Divisions follow numpy's rules, so they cost no check.
    """
    return _marked(function, Options(counts_references=True))


def hot(function: Function) -> Function:
    """Declare a function like `compiled`, without counting references to its arrays.

    For functions that run every round on states of many arrays: counting costs about 10 ns per
    array and call, several times the arithmetic. Such a function must not create arrays.
    """
    return _marked(function, Options(counts_references=False))


def nan_check(function: Function) -> Function:
    """Declare a function like `hot` whose comparisons with NaN are false, as in Python."""
    return _marked(function, Options(counts_references=False, sees_nan=True))


inner = hot
"""Marks a `hot` function that only compiled functions call; a call from Python is interpreted."""


def vector_pass(function: Function) -> Function:
    """Declare a function like `hot` whose machine code is written with LLVM's vectors.

    The code is in `slotwise.compile.vector_code`, under the name of the function. It must compute
    exactly what the Python code computes. Where numba lacks the interface for such code, the
    Python code is compiled.
    """
    return _marked(function, Options(counts_references=False, is_vector_pass=True))


def _marked(function: Function, options: Options) -> Function:
    if not is_dispatcher(function):
        setattr(function, MARK, options)
    return function


def loop_maker(make: Callable[..., Function]) -> Callable[..., Function]:
    """Decorate a function that makes a loop of the functions it is given.

    In the body of a class, the name of a function may stand for a static method. The loop is a
    `hot` function where all the functions can be compiled; otherwise it is plain Python. The same
    functions give the same loop.
    """

    @cache
    @wraps(make)
    def loop_of(*given: object) -> Function:
        functions = tuple(getattr(function, "__func__", function) for function in given)
        loop = make(*functions)
        if all(can_be_compiled(function) for function in functions):
            hot(loop)
            setattr(loop, MADE_BY, (loop_of, functions))
        return loop

    return loop_of


def options_of(function: object) -> Options | None:
    """Return how a function is to be compiled; None for plain Python."""
    return getattr(function, MARK, None)


def is_dispatcher(function: object) -> bool:
    """Return whether `function` was compiled by its author with numba."""
    return hasattr(function, "py_func") and type(function).__module__.startswith("numba.")


def can_be_compiled(function: object) -> bool:
    """Return whether machine code of `function` can be made."""
    return options_of(function) is not None or is_dispatcher(function)


class NotCompilable(InvalidInput):
    """A function that is declared as `compiled`, but that numba refuses."""
