"""The decorators that compile slotwise's arithmetic.

Every decorated function is plain Python as well: with `NUMBA_DISABLE_JIT=1` the same text runs
interpreted, which is how the tests compare the two.
"""

from __future__ import annotations

import contextlib
import dis
import gc
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np

from slotwise.compile.machine_code import EntryCompiler, LinkedCompiler
from slotwise.compile.notice import watch_compiler

int64: Any = np.int64
"""Makes a number of a literal, which numba takes for a type of its own: a function that is given a
literal is compiled once more for it."""

Function = TypeVar("Function", bound=Callable[..., Any])

_FunctionCache: Any = numba.core.caching.FunctionCache

watch_compiler()


def _jit(function: Function, *, cache: bool = False, **options: Any) -> Function:
    jit: Any = numba.njit
    no_nan = {"nnan", "nsz"}  # nothing here is NaN; minima may then use vector instructions
    options.setdefault("pipeline_class", EntryCompiler)
    jitted: Function = jit(
        nogil=True, error_model="numpy", fastmath=no_nan, no_cfunc_wrapper=True, **options
    )(function)
    if cache and is_compiled(jitted):
        # numba's own cache would look for its folder once more, for each function at import
        dispatcher: Any = jitted
        own_cache: Any = OwnTypesCache
        dispatcher._cache = own_cache(function)
    return jitted


class OwnTypesCache(numba.core.caching.FunctionCache):
    """Machine code on disk, of arguments whose types every process can import.

    The index of the code names the types. One that comes from a user's own module cannot be read
    by another program, which would fail on all machine code of the function.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these types, or None."""
        try:
            return _FunctionCache.load_overload(self, sig, target_context)
        except (ImportError, AttributeError):  # an index of an earlier version
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code, unless it is slotwise's for types of somebody else."""
        is_of_user = not self._py_func.__module__.startswith("slotwise.")
        if is_of_user or all(_is_own(one) for one in data.signature.args):
            with contextlib.suppress(ImportError, AttributeError):
                _FunctionCache.save_overload(self, sig, data)


def _is_own(one: Any) -> bool:
    """Say whether a type of the compiler is plain, or a tuple that slotwise defines."""
    named = getattr(one, "instance_class", None)
    if named is not None and not named.__module__.startswith("slotwise."):
        return False
    return all(_is_own(part) for part in getattr(one, "types", ()))


class _WithoutEntry(numba.core.registry.CPUDispatcher):
    """Machine code that only compiled code can enter; its own entry would crash Python."""

    def __call__(self, *arguments: object) -> object:
        """Run the function interpreted."""
        return self.py_func(*arguments)


def compiled(function: Function) -> Function:
    """Compile `function` on its first call and keep the machine code on disk.

    The GIL is released while it runs. Divisions follow numpy's rules, so they cost no check.
    """
    return _jit(function, cache=True)


def hot(function: Function) -> Function:
    """Compile `function` like `compiled`, without counting references to its arrays.

    For functions that run every round on states of many arrays: counting costs about 10 ns an
    array and call, several times the arithmetic. Such a function must not create arrays.
    """
    return _jit(function, cache=True, _nrt=False)


def inner(function: Function) -> Function:
    """Compile `function` like `hot`, only to be linked into compiled functions that call it.

    Most functions are called from compiled ones alone. Optimising each of them on its own, and
    unpacking a state of dozens of arrays for a call from Python, takes longer than the rest of
    the compilation. A call from Python runs the function interpreted: slowly, with the same
    result.
    """
    linked = {"no_cpython_wrapper": True, "pipeline_class": LinkedCompiler}
    jitted = _jit(function, cache=True, _nrt=False, **linked)
    if is_compiled(jitted):
        dispatcher: Any = jitted
        dispatcher.__class__ = _WithoutEntry
    return jitted


def interpreted(function: Function) -> Function:
    """Return the plain Python of `function`, for a rare call that is not worth compiling it for."""
    return getattr(function, "py_func", function)


def hot_loop(function: Function) -> Function:
    """Compile like `hot` a loop that is given functions to call.

    numba cannot keep its machine code on disk, since it is different for every set of functions;
    see `slotwise.compile.loops`.
    """
    return _jit(function, _nrt=False)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Say whether `function` is machine code that a compiled loop can call."""
    return isinstance(function, numba.core.registry.CPUDispatcher)


def direct(function: Function, *examples: object) -> Function:
    """Return the machine code of `function` for arguments of the types of `examples`.

    Called from Python it skips working out those types, which for a random generator takes
    longer than choosing a page. The caller promises arguments of exactly these types. A
    function that is not compiled is returned as it is.
    """
    if not is_compiled(function):
        return function
    dispatcher: Any = function
    type_of: Any = numba.typeof
    with _without_garbage_collection():
        code: Function = dispatcher.compile(tuple(type_of(example) for example in examples))
    return code


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off: it takes 8 % of the time among the compiler's objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def direct_choice(choose: Function, state: object, visitor: object, rng: object) -> Function:
    """Return what `direct` returns for a function that is given a random generator last.

    Where the function never looks at the generator, it is not unpacked, which takes longer than
    choosing a page.
    """
    if not is_compiled(choose) or _uses_parameter(choose, 2):
        return direct(choose, state, visitor, rng)
    code = direct(choose, state, visitor, None)

    def call(state: object, visitor: object, _: object) -> None:
        code(state, visitor, None)

    return call  # type: ignore[return-value]


def _uses_parameter(function: Any, place: int) -> bool:
    """Say whether the text of a compiled function names its parameter at `place`."""
    code = function.py_func.__code__
    name = code.co_varnames[place]
    named = (instruction.argrepr.split(", ") for instruction in dis.get_instructions(code))
    return any(name in names for names in named)


def direct_later(function: Function, *examples: object) -> Function:
    """Return what `direct` returns, compiled when it is called for the first time."""
    code: list[Function] = []

    def call(*arguments: object) -> object:
        if not code:
            code.append(direct(function, *examples))
        return code[0](*arguments)

    return call  # type: ignore[return-value]
