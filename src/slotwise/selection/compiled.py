"""The two decorators that compile slotwise's arithmetic.

Every decorated function is plain Python as well: with `NUMBA_DISABLE_JIT=1` the same text runs
interpreted, which is how the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled", "hot", "is_compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile `function` on its first call and keep the machine code on disk.

    The GIL is released while it runs. Divisions follow numpy's rules, so they cost no check.
    """
    jitted: Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return jitted


def hot(function: Function) -> Function:
    """Compile `function` like `compiled`, without counting references to its arrays.

    For functions that run every round on states of many arrays: counting costs about 10 ns an
    array and call, several times the arithmetic. Such a function must not create arrays.
    """
    jitted: Function = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return jitted


def is_compiled(function: Callable[..., Any]) -> bool:
    """Say whether `function` is machine code that a compiled loop can call."""
    return isinstance(function, numba.core.registry.CPUDispatcher)
