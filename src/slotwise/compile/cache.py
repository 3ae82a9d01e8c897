"""Machine code on disk: where it is, and under which digest of the sources.

A file has the machine code of one function for one set of argument types. Its name contains a
digest of all sources that determine the function, so editing a function that it calls, in whatever
file, makes it compile again. Files are in `NUMBA_CACHE_DIR`, or else in the user's cache folder, in
one folder for each state of slotwise's sources. Folders that were not used for weeks are removed.
Used by `internals`, `machine_code`, `switch`, `cli` and `simulation`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).parents[1]
LENGTH = 16
KEEP_DAYS = 30

UPPER_LAYERS = frozenset(
    {"cli", "client", "evaluation", "figures", "player", "selector", "service", "simulation"}
    | {"testing"}
)
"""Parts of the package whose functions no compiled function of another part calls."""


@cache
def digest_sources(parts: Iterable[str]) -> str:
    """Return a digest of some files and folders of the package.

    The version number is not enough, because the code changes between two versions.
    """
    digest = hashlib.sha256()
    for part in parts:
        path = PACKAGE / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(PACKAGE).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:LENGTH]


@cache
def lower_layers_digest() -> str:
    """Return a digest of the sources that compiled functions of several parts share."""
    names = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py")
    shared = [name for name in names if not name.startswith("_") and _is_lower(name)]
    return digest_sources(tuple(shared))


def _is_lower(name: str) -> bool:
    return name.removesuffix(".py") not in UPPER_LAYERS


def digest_of(function: Any) -> str | None:
    """Return a digest of the sources that determine a function, apart from slotwise's lower layers.

    None if a source is not a file, as in an interactive session.
    """
    return digest_of_sources(_parts_of(function))


def _parts_of(function: Any) -> list[Any]:
    """Return a function and, recursively, the functions in its closure."""
    parts, waiting = list[Any](), [function]
    while waiting:
        part = getattr(waiting[0], "py_func", waiting[0])
        cells = [cell.cell_contents for cell in getattr(part, "__closure__", None) or ()]
        waiting = waiting[1:] + ([] if any(part is one for one in parts) else cells)
        parts.append(part)
    return parts


def digest_of_sources(parts: Iterable[Any]) -> str | None:
    """Return a digest of the sources of functions and classes, apart from slotwise's lower layers.

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


def _files_of(parts: Iterable[Any]) -> set[str]:
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
        top, _, rest = name.partition(".")
        if module is None or not _determines(module, top in own):
            continue
        if top == "slotwise":
            if not _is_lower(rest.partition(".")[0]):  # it calls its own file and lower layers
                files.add(str(module.__file__))
            continue
        files.add(getattr(module, "__file__", None) or f"<{name}>")
        waiting += [_module_name(value) for value in list(vars(module).values())]
    return files


def _module_name(value: Any) -> Any:
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


@cache
def cache_folder() -> Path | None:
    """Return the folder for the machine code of these sources.

    A read-only folder that exists, as in an image, is used if none can be written to.
    """
    from importlib.metadata import version  # here and below: only where it is needed

    stamp = "-".join(
        [
            lower_layers_digest(),
            f"numba{version('numba')}",
            f"py{sys.version_info.major}{sys.version_info.minor}",
        ]
    )
    readable = None
    for base in _bases():
        folder = base / stamp
        try:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                os.utime(folder)
                if is_new:
                    _remove_unused(base)
                return folder
        except OSError:
            continue
        readable = readable or folder
    return readable


def _bases() -> list[Path]:
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return [Path(named)]
    of_user = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    bases = [Path(of_user) / "slotwise"] if of_user else []
    with contextlib.suppress(RuntimeError):  # a user without a home
        bases.append(Path.home() / ".cache" / "slotwise")
    return [*bases, PACKAGE / "__pycache__" / "machine-code"]


def _remove_unused(base: Path) -> None:
    import shutil

    oldest = time.time() - KEEP_DAYS * 24 * 3600
    for folder in base.glob("*-numba*-py*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder)


def code_file(function: Any, kind: str, types: str) -> Path | None:
    """Return the file for the machine code of a function for some types of arguments.

    None where it cannot be stored, because the function may change unnoticed.
    """
    folder, digest = cache_folder(), digest_of(function)
    if folder is None or digest is None:
        return None
    parts = _parts_of(function)
    if not all(hasattr(part, "__qualname__") for part in parts):
        return None  # a value that is in no source
    names = [f"{part.__module__}.{part.__qualname__}" for part in parts]
    key = hashlib.sha256("\n".join([kind, digest, *names, types]).encode())
    return folder / f"{function.__name__}-{key.hexdigest()[:32]}.code"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that other processes see all of it or nothing."""
    import tempfile

    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def only_maker(file: Path | None) -> Iterator[None]:
    """Let one process at a time make a file, so that processes that start together make it once.

    Whoever waited must look for the file again. Nobody waits where files cannot be locked.
    """
    try:
        import fcntl

        lock = None if file is None else file.with_suffix(".lock").open("w")
    except (ImportError, OSError):  # not on Windows, not in a read-only folder
        lock = None
    if file is None or lock is None:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            Path(lock.name).unlink(missing_ok=True)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a process forked meanwhile has the lock, too
