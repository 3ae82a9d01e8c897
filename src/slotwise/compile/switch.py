"""Interpret first: run functions as Python until their machine code pays.

A function whose machine code is on disk is loaded at its first call. Any other is interpreted. When
a process has spent `BUDGET_S` seconds interpreting, another process compiles the functions that
were used into the cache on disk, those first that took most of the time. A thread waits for it,
loads each function as soon as it is compiled and switches over. The results are the same before and
after. Where no process can be started, or where a function cannot be found by another process, that
thread compiles in this process.

Long runs, such as `simulate`, compile first (`compiled_first`). The environment variable
SLOTWISE_COMPILE sets "first" or "never" for everything; NUMBA_DISABLE_JIT=1 also means "never".
Other packages use it through `slotwise.compile`. Used by `__main__` and `notice`.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import thread_time
from typing import Any, TextIO, TypeVar

import numpy as np

from slotwise.compile.background import CompilingProcess
from slotwise.compile.cache import code_file
from slotwise.compile.decorators import NotCompilable, can_be_compiled, is_dispatcher
from slotwise.compile.descriptions import (
    Description,
    Indescribable,
    describe,
    describe_function,
    described_value,
)

Function = TypeVar("Function", bound=Callable[..., Any])

BUDGET_S = 1.0
"""Processor time that is spent interpreting before functions are compiled."""

IN_PLACE = (
    "slotwise: compiling to machine code in this process ({reason}); "
    "`slotwise warm-up` compiles ahead of time"
)
NO_COMPILER = (
    "numba is not installed, so everything is interpreted: the same results, a hundred times slower"
)

_is_announced = True
_lock = threading.RLock()


def announce_compiling(wanted: bool) -> None:
    """Switch messages about compiling on or off; commands that show their progress do that."""
    global _is_announced
    _is_announced = wanted
    if "slotwise.compile.machine_code" in sys.modules:
        _machine_code().NOTICES.is_wanted = wanted


def print_notice(text: str, stream: TextIO | None = None) -> None:
    """Print a message on the error stream, if it is open: it may be None, closed or broken."""
    stream = sys.stderr if stream is None else stream
    if stream is not None:
        with suppress(OSError, ValueError):
            print(text, file=stream, flush=True)


@cache
def has_compiler() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def compiler_version() -> str:
    """Return the version of numba, or "none"."""
    from importlib.metadata import version  # here and below: only where it is needed

    return version("numba") if has_compiler() else "none"


def compiles() -> bool:
    """Return whether functions may be compiled at all."""
    if os.environ.get("SLOTWISE_COMPILE") == "never":  # asked at every call that is interpreted
        return False
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and has_compiler()


def _machine_code() -> Any:
    """Import the compiler."""
    is_new = "slotwise.compile.machine_code" not in sys.modules
    from slotwise.compile import machine_code  # numba takes a third of a second to import

    if is_new:
        machine_code.NOTICES.is_wanted = _is_announced
    return machine_code


def support_numba() -> None:
    """Let functions that their authors compile with numba call slotwise's functions.

    numba calls this by its entry point `numba_extensions` before it compiles anything.
    """
    _machine_code()


class Code:
    """A function for arguments of certain types, interpreted or as machine code.

    Call `code.call(...)`; the attribute changes when the code switches. The caller must pass
    arguments of exactly these types, because machine code does not check them, except where
    `is_checked`.
    """

    __slots__ = ("_examples", "_is_checked", "call", "described", "function")

    def __init__(
        self, function: Callable[..., object], examples: tuple[object, ...], is_checked: bool
    ) -> None:
        self.function = function
        self._is_checked = is_checked
        self._examples = examples
        self.described = ""
        try:
            self.described = json.dumps(describe(examples))
            self._examples = ()  # they may be large
        except Indescribable:
            pass  # only this process can compile it
        self.call: Callable[..., Any] = self._first_call

    def _first_call(self, *arguments: object) -> object:
        if not compiles():  # the setting may change before the next call
            return self._interpreted(*arguments)
        with _lock:
            if self.call == self._first_call:
                self._begin()
        return self.call(*arguments)

    def _begin(self) -> None:
        """Load the machine code, or start to interpret."""
        if not can_be_compiled(self.function):
            self.interpret()
        elif is_dispatcher(self.function) or os.environ.get("SLOTWISE_COMPILE") == "first":
            self.compile()
        elif not (self._is_stored() and self.load()):
            self.call = self._measured

    def _is_stored(self) -> bool:
        file = code_file(self.function, "entry", self.described) if self.described else None
        return file is not None and file.exists()

    def request(self) -> Description | None:
        """Return what another process needs to compile this; None if it cannot."""
        if not self.described or code_file(self.function, "entry", self.described) is None:
            return None
        with suppress(Indescribable):
            return [describe_function(self.function), self.described]
        return None

    def interpret(self) -> None:
        """Run the function as Python from now on."""
        self.call = self._interpreted

    def _interpreted(self, *arguments: Any) -> object:
        function = getattr(self.function, "py_func", self.function)
        with np.errstate(all="ignore"):  # as in machine code, which divides by zero silently
            return function(*arguments)

    def _measured(self, *arguments: object) -> object:
        started = thread_time()
        try:
            return self._interpreted(*arguments)
        finally:
            _METER.add(self, thread_time() - started)

    def load(self) -> bool:
        """Switch to the machine code on disk; return whether there is any."""
        return self._switch(only_stored=True)

    def compile(self) -> None:
        """Make the machine code in this process and switch to it."""
        self._switch(only_stored=False)

    def _switch(self, *, only_stored: bool) -> bool:
        described, examples = self.described, self._examples
        if described:
            examples = described_value(json.loads(described))
        code = _machine_code()
        try:
            made = code.entry(self.function, examples, described, only_stored=only_stored)
        except code.NumbaError as error:
            raise NotCompilable(code.refusal(error, self.function)) from error
        if made is None:
            return False
        self.call = made[1] if self._is_checked else made[0]
        return True


class _Meter:
    """Measures the time spent interpreting, and has functions compiled when the budget is spent."""

    def __init__(self) -> None:
        self._spent: dict[Code, float] = {}
        self._total = 0.0

    def add(self, code: Code, seconds: float) -> None:
        """Count a call; compile all functions that were used when the budget is spent."""
        self._spent[code] = self._spent.get(code, 0.0) + seconds
        self._total += seconds
        if self._total > BUDGET_S:
            with _lock:
                spent, self._spent, self._total = self._spent, {}, 0.0
            if spent:
                _COMPILER.compile(sorted(spent, key=lambda one: -spent[one]))


_METER = _Meter()


class _Compiler:
    """Has functions compiled one after the other while the program goes on interpreting."""

    def __init__(self) -> None:
        self._waiting: list[Code] = []
        self._is_running = False
        self._process: CompilingProcess | None = None

    def compile(self, codes: list[Code]) -> None:
        """Interpret functions without measuring until they are compiled."""
        for code in codes:
            code.interpret()
        with _lock:
            self._waiting += codes
            is_running, self._is_running = self._is_running, True
        if not is_running:
            threading.Thread(target=self._run, name="slotwise-compiling", daemon=True).start()

    def _run(self) -> None:
        while True:
            with _lock:
                codes, self._waiting = self._waiting, []
                self._is_running = bool(codes)
            if not codes:
                self._close_process()
                return
            try:
                self._compile_all(codes)
            except Exception as error:  # noqa: BLE001 - the functions stay interpreted
                text = f"slotwise could not compile: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _compile_all(self, codes: list[Code]) -> None:
        requests = [code.request() for code in codes]
        here = [code for code, one in zip(codes, requests, strict=True) if one is None]
        reason = "functions that other processes cannot import"
        if len(here) < len(codes) and not self._start_process():
            here, reason = codes, "no other process could do it"
        elsewhere = [code for code in codes if code not in here]
        if self._process is not None and elsewhere:
            self._process.ask(one for one in requests if one is not None)
            _unless_ending(_machine_code)  # imports numba meanwhile
            for code in elsewhere:
                if not (self._process.is_next_done() and _unless_ending(code.load)):
                    here, reason = [*here, code], "no other process could do it"
        if here and not _is_ending.is_set():
            if _is_announced:
                print_notice(IN_PLACE.format(reason=reason))
            for code in here:
                _unless_ending(code.compile)

    def _start_process(self) -> bool:
        """Return whether there is a process, started now or before."""
        with _working:
            if self._process is None and not _is_ending.is_set():
                with suppress(OSError):
                    self._process = CompilingProcess()
            return self._process is not None

    def _close_process(self) -> None:
        with _working:
            process, self._process = self._process, None
            if process is not None:
                process.close()

    def kill_process(self) -> None:
        """End the other process, if there is one; the thread may still wait for its answer."""
        with _working:
            if self._process is not None:
                self._process.kill()


_COMPILER = _Compiler()

_working = threading.Lock()
_is_ending = threading.Event()


def _unless_ending(act: Callable[[], object]) -> object:
    """Load or compile, unless the program is ending, which would remove objects in use by numba."""
    with _working:
        return True if _is_ending.is_set() else act()


@atexit.register
def _end_compiling() -> None:
    """Let the program end at once, and the other process with it."""
    _is_ending.set()
    _COMPILER.kill_process()


_codes: dict[tuple[Callable[..., object], str, bool], Code] = {}


def code_for(function: Callable[..., object], *examples: object, is_checked: bool = False) -> Code:
    """Return the code of `function` for arguments of the types of `examples`.

    The same function and types give the same code, so all selectors of a process share it.
    """
    code = Code(function, examples, is_checked)
    if not code.described:
        return code
    with _lock:
        return _codes.setdefault((function, code.described, is_checked), code)


def _kind(argument: object) -> type | tuple[object, ...]:
    """Return what distinguishes an argument, at a price of at most a few microseconds.

    A state without visitors has None where one with visitors has arrays. Machine code for one of
    them would compile itself for the other while the caller waits, and store nothing.
    """
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.c_contiguous, flags.writeable
    if isinstance(argument, tuple):
        return type(argument), *map(type, argument)
    return type(argument)


def switching(function: Function) -> Function:
    """Return a function for Python that switches to machine code when that pays."""
    switched: Function = _calling(function, False)
    return switched


def compiled_first(function: Function) -> Function:
    """Return a function like `switching`, for long runs: it is compiled before the first call."""
    switched: Function = _calling(function, True)
    return switched


@cache
def _calling(function: Callable[..., object], is_compiled_first: bool) -> Any:
    codes: dict[tuple[object, ...], Code] = {}

    def call(*arguments: object) -> Any:
        kinds = tuple(map(_kind, arguments))
        code = codes.get(kinds)
        if code is None:
            code = codes[kinds] = code_for(function, *arguments, is_checked=True)
            if is_compiled_first and can_be_compiled(function):
                _compile_now(code)
        return code.call(*arguments)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _compile_now(code: Code) -> None:
    if compiles():
        with _lock:
            code.compile()
    elif not has_compiler():
        _warn_of_no_compiler()


@cache
def _warn_of_no_compiler() -> None:
    warnings.warn(NO_COMPILER, RuntimeWarning, stacklevel=4)
