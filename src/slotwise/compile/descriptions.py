"""Describe functions and their arguments as text, and find or make them again in another process.

Descriptions identify the machine code on disk and are the input of the process that compiles. Used
by `__main__` and `switch`.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from slotwise.compile.decorators import MADE_BY

Description: TypeAlias = "str | list[Description]"
"""Where a function is found, or the place of its maker followed by the functions it was given."""


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
