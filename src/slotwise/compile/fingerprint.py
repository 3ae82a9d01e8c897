"""Digests of code: of a function with all that it calls, of modules, of a user's own files.

A digest of code is one of its bytecode, so that comments, docstrings and the code around it do not
change it. Used by `cache` for machine code, and by `simulation` for results.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from slotwise.compile.decorators import is_dispatcher, options_of

PACKAGE = Path(__file__).parents[1]
LENGTH = 16
COMPILER = ("slotwise.compile.machine_code", "slotwise.compile.internals")
"""The modules that determine how all functions are compiled."""
VECTOR_CODE = ("slotwise.compile.decorators", "slotwise.compile.vector_code")
"""The modules that determine the machine code of vector passes."""

_FIXED = frozenset({*sys.stdlib_module_names, "llvmlite", "numba", "numpy"})
"""Packages whose code changes only with their version; the cache has that of numba and Python."""
_IS_FUNCTION = 0x03
"""Flags of the code of functions, as opposed to modules and classes."""


def digest_of(function: object) -> str | None:
    """Return a digest of a function and of everything that it names, directly or through others.

    Those are functions, constants, arrays and the fields of named tuples, in globals and in
    closures. None if it names a value that only this process knows.
    """
    walk = _Walk()
    try:
        walk.add(function)
    except _Unknown:
        return None
    return walk.digest()


class _Unknown(Exception):
    """A value that cannot be compared with one of another process."""


class _Walk:
    """Goes through a function and what it names, always in the same order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: set[Any] = set()

    def digest(self) -> str:
        return self._hash.hexdigest()[:LENGTH]

    def _text(self, *parts: object) -> None:
        self._hash.update("\0".join(map(str, parts)).encode() + b"\n")

    def add(self, value: object, names: frozenset[str] = frozenset()) -> None:
        """Add a value; of a module or class only the attributes in `names`."""
        if isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype):
            self._text(type(value).__qualname__, repr(value))
            return
        if value is None or value is ...:
            self._text(value)
            return
        if isinstance(value, np.ndarray):
            self._text(value.dtype.str, value.shape, value.strides)
            self._hash.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, tuple | list | frozenset):
            self._text(type(value).__qualname__, len(value))
            for one in sorted(value, key=repr) if isinstance(value, frozenset) else value:
                self.add(one, names)
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, ModuleType):
            if self._is_new(value, names):
                self._module(value, names)
        elif _package_of(value) in _FIXED and not is_dispatcher(value):
            self._text(_stable_text(value))
        elif isinstance(value, type):
            if self._is_new(value, names):
                self._class(value, names)
        else:
            self._function(value)

    def _is_new(self, value: object, names: frozenset[str]) -> bool:
        """Return whether a value was not met before, with these names; note that it was met."""
        self._text(getattr(value, "__qualname__", ""))
        if (value, names) in self._seen:
            return False
        self._seen.add((value, names))
        return True

    def _function(self, value: object) -> None:
        """Add the code, defaults and closure of a function, then the globals that it names."""
        function = getattr(value, "py_func", value)
        function = getattr(function, "__func__", function)  # of a static method
        if not isinstance(function, FunctionType):
            if not hasattr(function, "__wrapped__"):
                raise _Unknown(repr(value))
            self.add(function.__wrapped__)
            return
        if not self._is_new(function, frozenset()):
            return
        own, names, all_names = _own_part(function)
        self._hash.update(own)
        self.add(function.__defaults__)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError as error:  # a cell that is still empty
                raise _Unknown(function.__qualname__) from error
        # Attributes are among the names, too: at worst, the digest covers too much.
        for name in names:
            if name in function.__globals__:
                self._text(name)
                try:
                    self.add(function.__globals__[name], all_names)
                except _Unknown:
                    self._text(self._file_digest(function.__module__))

    def _file_digest(self, module: str) -> str:
        """Return a digest of the file that gives a name its value, such as an object."""
        try:
            file = Path(str(sys.modules[module].__file__))
            return hashlib.sha256(file.read_bytes()).hexdigest()
        except (KeyError, AttributeError, OSError) as error:
            raise _Unknown(module) from error

    def _code(self, code: CodeType) -> None:
        self._text(code.co_name, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
        self._text(*code.co_names, ";", *code.co_varnames, ";", *code.co_freevars)
        self._hash.update(code.co_code)
        self._hash.update(getattr(code, "co_exceptiontable", b""))
        for constant in _constants_of(code):
            self.add(constant)

    def _module(self, module: ModuleType, names: frozenset[str]) -> None:
        self._text(module.__name__)
        if module.__name__.partition(".")[0] not in _FIXED:
            for name in sorted(names & vars(module).keys()):
                self._text(name)
                self.add(vars(module)[name], names)

    def _class(self, kind: type, names: frozenset[str]) -> None:
        fields = getattr(kind, "_fields", ())
        self._text(kind.__module__, kind.__qualname__, *fields)
        self.add(tuple(getattr(kind, "_field_defaults", {}).items()))
        for name in sorted((names & vars(kind).keys()) - set(fields)):
            self._text(name)
            self.add(vars(kind)[name], names)


@cache
def _own_part(function: FunctionType) -> tuple[bytes, tuple[str, ...], frozenset[str]]:
    """Return a digest of a function without what it names, and the names."""
    walk, options = _Walk(), options_of(function)
    names = tuple(_names_in(function.__code__))
    walk.add((function.__module__, function.__qualname__, repr(options)))
    if options is not None and options.is_vector_pass:
        walk.add(digest_of_modules(VECTOR_CODE))
    walk.add(function.__code__)
    return walk.digest().encode(), names, frozenset(names)


def _package_of(value: object) -> str:
    kind = value if isinstance(getattr(value, "__module__", None), str) else type(value)
    return str(kind.__module__).partition(".")[0]


def _stable_text(value: object) -> str:
    """Return a text that is the same in all processes."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    text = repr(value)
    if " at 0x" in text:
        raise _Unknown(text)
    return text


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function and in those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _constants_of(code: CodeType) -> Iterator[object]:
    """Yield the constants of some code, with None for its docstring and the line of a class."""
    is_function = code.co_flags & _IS_FUNCTION == _IS_FUNCTION
    texts = [one for one in code.co_consts if isinstance(one, str) and one != code.co_qualname]
    is_documented = is_function or "__doc__" in code.co_names
    doc = texts[0] if is_documented and texts else None
    line = code.co_firstlineno if "__firstlineno__" in code.co_names else None
    for place, constant in enumerate(code.co_consts):
        is_doc = constant is doc and (place == 0 or not is_function)
        is_line = type(constant) is int and constant == line
        yield None if is_doc or is_line else constant


@cache
def digest_of_modules(names: tuple[str, ...]) -> str:
    """Return a digest of the code of modules and of all modules in packages, by their names.

    They are not imported.

    >>> digest_of_modules(("slotwise.errors",)) == digest_of_modules(("slotwise.problem",))
    False
    """
    walk = _Walk()
    for name in names:
        for module in _modules_in(name):
            spec = importlib.util.find_spec(module)
            assert spec is not None
            loader: Any = spec.loader
            walk.add(module.rpartition(".")[2])
            walk.add(loader.get_code(module))
    return walk.digest()


def _modules_in(name: str) -> Iterator[str]:
    yield name
    folder = PACKAGE.joinpath(*name.split(".")[1:])
    for file in sorted(folder.rglob("*.py")):
        if file.stem != "__init__":
            yield ".".join([name, *file.relative_to(folder).with_suffix("").parts])


def digest_of_sources(parts: Iterable[object]) -> str | None:
    """Return a digest of the files of functions and classes, without those of slotwise.

    Those are the files of their modules and of all modules that can be reached from the globals of
    those, without installed packages other than their own. None if a source is not a file.
    """
    digest = hashlib.sha256()
    for file in sorted(_files_of(parts)):
        try:
            digest.update(Path(file).read_bytes())
        except OSError:
            return None
    return digest.hexdigest()[:LENGTH]


def _files_of(parts: Iterable[object]) -> set[str]:
    waiting = [part.__module__ for part in parts if hasattr(part, "__module__")]
    own = {name.partition(".")[0] for name in waiting}
    seen: set[str] = set()
    files: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not isinstance(name, str):
            continue
        seen.add(name)
        module = sys.modules.get(name)
        top = name.partition(".")[0]
        if module is None or top == "slotwise" or not _determines(module, top in own):
            continue
        files.add(getattr(module, "__file__", None) or f"<{name}>")
        waiting += [_module_name(value) for value in list(vars(module).values())]
    return files


def _module_name(value: object) -> Any:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")


def _determines(module: ModuleType, is_own: bool) -> bool:
    """Return whether a module may change with the user's code."""
    file = getattr(module, "__file__", None)
    if is_own:
        return True
    return file is not None and not file.startswith(_installed())


@cache
def _installed() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    import sysconfig

    paths = sysconfig.get_paths()
    return tuple({paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
