"""Make machine code of declared functions, with numba's documented interface.

numba calls `typeof` for every global that a compiled function names. `_type_of_function` answers
for declared functions, which are plain Python, with a dispatcher that compiles them. So a declared
function can be called by any compiled one, also by one that its author compiles with numba.

Importing this module imports numba. Only `slotwise.compile.switch` does so, when it needs code.
Used by `switch`.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba
from numba import types
from numba.core import event
from numba.core.errors import NumbaError
from numba.extending import typeof_impl

from slotwise.compile.cache import only_maker
from slotwise.compile.decorators import is_dispatcher, options_of
from slotwise.compile.notice import NOTICES as NOTICES, is_own  # `switch` finds the notice here

try:
    if os.environ.get("SLOTWISE_PLAIN_NJIT"):
        raise ImportError("SLOTWISE_PLAIN_NJIT is set")
    from slotwise.compile import internals
except (ImportError, AttributeError) as _error:
    warnings.warn(
        f"slotwise does not know numba {numba.__version__} ({_error}): machine code is slower and "
        "is made again by every process",
        RuntimeWarning,
        stacklevel=2,
    )
    internals = None  # type: ignore[assignment]


Entry = Callable[..., object]
"""Machine code that Python calls."""

_making = threading.RLock()


def _jit(function: object, options: dict[str, object]) -> Any:
    sees_nan = not is_own(function) or getattr(options_of(function), "sees_nan", False)
    # Where nothing is NaN, minima may use vector instructions. The empty set is not inherited.
    fastmath = set[str]() if sees_nan else {"nnan", "nsz"}
    jit: Any = numba.njit
    return jit(nogil=True, error_model="numpy", fastmath=fastmath, **options)(function)


@cache
def _callee(function: FunctionType) -> Any:
    """Return the dispatcher of a declared function for compiled functions that call it."""
    if internals is None:
        return _jit(function, {})
    options = options_of(function)
    assert options is not None
    counting = {internals.COUNTS_REFERENCES: options.counts_references}
    dispatcher = _jit(function, {**internals.CALLEE_OPTIONS, **counting})
    dispatcher._cache = internals.DiskCache(function, "callee")
    return dispatcher


@typeof_impl.register(FunctionType)
def _type_of_function(function: FunctionType, _: object) -> types.Type | None:
    options = options_of(function)
    if options is None:
        return None
    if options.is_vector_pass and internals is not None:
        return internals.intrinsic_type(function)
    return types.Dispatcher(_callee(function))


def entry(
    function: Any,
    examples: tuple[object, ...],
    described: str,
    *,
    only_stored: bool,
) -> tuple[Entry, Entry] | None:
    """Return the machine code of `function` for arguments of the types of `examples`.

    The result is the code itself, which does not look at the types of its arguments, and the
    dispatcher, which does. None if only code on disk is wanted and there is none.
    """
    arguments = tuple(numba.typeof(example) for example in examples)
    with _making:
        if is_dispatcher(function):
            return function.compile(arguments), function
        if internals is None:
            plain = None if only_stored else _plain_entry(function)
            return plain if plain is None else (plain, plain)
        options = options_of(function)
        assert options is not None
        counting = {internals.COUNTS_REFERENCES: options.counts_references}
        dispatcher = _jit(function, {**internals.ENTRY_OPTIONS, **counting})
        stored = internals.DiskCache(function, "entry", described, arguments)
        dispatcher._cache = stored
        if only_stored:
            found = stored.load_overload(arguments, dispatcher.targetctx)
            if found is None:
                return None
            dispatcher.targetctx.insert_user_function(
                found.entry_point, found.fndesc, [found.library]
            )
            dispatcher.add_overload(found)
            return found.entry_point, dispatcher
        with only_maker(stored.file_for(arguments)):
            return dispatcher.compile(arguments), dispatcher


def refusal(error: NumbaError, function: Callable[..., object]) -> str:
    """Return which function numba refused, where and why; it names the innermost function first."""
    text = re.sub(r"\x1b\[\d*m|Failed in .*\n", "", str(error))
    inner, _, outer = text.partition("During: resolving callee type")
    name = re.search(r"<function (\S+) at", outer)
    line = re.search(r"at (\S+) \((\d+)\)", inner)
    where = f" ({line[1]}, line {line[2]})" if line else ""
    reason = re.split(r" There are | During: ", f"{' '.join(inner.split())} ")[0]
    named = f"`{name[1] if name else function.__name__}`{where}"
    return f"numba cannot compile {named}: {reason.replace(': >>>', ':').strip()}"


def _plain_entry(function: object) -> Entry:
    """Return a caller of plain compiled code, with generators instead of their addresses."""
    dispatcher = _jit(function, {})

    def call(*arguments: object) -> object:
        return dispatcher(*(getattr(one, "generator", one) for one in arguments))

    return call


event.register("numba:compile", NOTICES)
