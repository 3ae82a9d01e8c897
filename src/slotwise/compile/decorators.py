"""Declare which functions can be compiled, and describe them and their arguments as text.

A decorator marks a plain Python function and returns it, so that interpreted code runs at full
speed and nothing imports numba. `slotwise.compile.switch` decides when machine code is made, and
`slotwise.compile.machine_code` makes it. Descriptions identify the machine code on disk and are the
input of the process that compiles. Used by most of `compile`, and by `policies` and `selection`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar

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


Description: TypeAlias = "str | list[Description]"
"""Where a function is found, or the place of its maker followed by the functions it was given."""


class NotCompilable(InvalidInput):
    """A function that is declared as `compiled`, but that numba refuses."""


class Indescribable(Exception):
    """A function or an argument that another process could not find or make."""


def describe_function(function: object) -> Description:
    """Return a description from which `described_function` finds the function again."""
    made_by = getattr(function, MADE_BY, None)
    if made_by is None:
        return _place_of(function)
    make, functions = made_by
    return [_place_of(make), *map(describe_function, functions)]


def described_function(description: Any) -> Any:
    """Import the module of a described function and return the function."""
    if isinstance(description, str):
        return _object_at(description)
    make, *functions = description
    return _object_at(make)(*map(described_function, functions))


def describe(value: object) -> list[object]:
    """Return a description of the type of an argument, as the compiler distinguishes types.

    A named tuple has the place of its class and its fields, which code reads by their places.

    >>> describe((1.5, np.zeros((2, 3))))
    ['tuple', '', [['scalar', '<f8'], ['array', '<f8', 2, 'C', True]], []]
    """
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ["array", value.dtype.str, value.ndim, layout, flags.writeable]
    if isinstance(value, tuple):
        kind = type(value)
        place = "" if kind is tuple else _place_of(kind)
        fields = list(getattr(kind, "_fields", ()))
        return ["tuple", place, [describe(one) for one in value], fields]
    if value is None or isinstance(value, np.random.Generator):
        return ["none" if value is None else "generator"]
    if isinstance(value, bool | int | float | np.generic):
        return ["scalar", np.dtype(type(value)).str]
    raise Indescribable(f"an argument of type {type(value).__name__}")


def described_value(description: Any) -> Any:
    """Return a value of the described type."""
    kind, *details = description
    if kind == "array":
        dtype, n_axes, layout, is_writeable = details
        step = 2 if layout == "A" else 1
        array = np.zeros((2 * step,) * n_axes, dtype, order="F" if layout == "F" else "C")
        array = array[(slice(None, None, step),) * n_axes]
        array.flags.writeable = is_writeable
        return array
    if kind == "tuple":
        place, parts, _ = details
        values = tuple(described_value(part) for part in parts)
        return _object_at(place)._make(values) if place else values
    if kind == "scalar":
        return np.dtype(details[0]).type(0)
    return None if kind == "none" else np.random.default_rng(0)


def _place_of(named: Any) -> str:
    """Return where a function or class is found: its module and its name there."""
    place = f"{named.__module__}:{named.__qualname__}"
    if named.__module__ == "__main__" or "<" in place:
        raise Indescribable(place)
    try:
        found = _object_at(place)
    except (ImportError, AttributeError, KeyError) as error:
        raise Indescribable(place) from error
    if found is not named:
        raise Indescribable(place)
    return place


def _object_at(place: str) -> Any:
    module, _, name = place.partition(":")
    __import__(module)
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found
