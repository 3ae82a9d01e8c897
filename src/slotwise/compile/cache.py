"""Machine code on disk: where it is, and under which digest.

A file has the machine code of one function for one set of argument types. Its name contains a
digest of the function and of all functions and constants that it names (`fingerprint`), so editing
one of them, in whatever file, makes it compile again, and editing anything else does not. Files are
in `NUMBA_CACHE_DIR`, or else in the user's cache folder, in one folder for each version of numba
and Python. Files that were not used for weeks are removed.
Used by `internals`, `machine_code`, `switch` and `cli`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from slotwise.compile.fingerprint import COMPILER, digest_of, digest_of_modules

PACKAGE = Path(__file__).parents[1]
KEEP_DAYS = 30
TOUCH_AFTER_S = 24 * 3600
"""Age after which using a file sets its time: files that were not used for long are removed."""


@cache
def cache_folder() -> Path | None:
    """Return the folder for machine code of these versions of numba and Python.

    A read-only folder that exists, as in an image, is used if none can be written to.
    """
    from importlib.metadata import version  # here and below: only where it is needed

    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    readable = None
    for base in _bases():
        folder = base / f"machine-code-numba{version('numba')}-{python}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                os.utime(folder)
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


@cache
def remove_unused(folder: Path) -> None:
    """Remove files that were not used for weeks, and folders of versions that were not."""
    import shutil

    oldest = time.time() - KEEP_DAYS * 24 * 3600
    for one in (*folder.iterdir(), *folder.parent.glob("*-numba*-py*")):
        with contextlib.suppress(OSError):
            if one.stat().st_mtime < oldest:
                shutil.rmtree(one) if one.is_dir() else one.unlink()


def note_use(file: Path) -> None:
    """Set the time of a file that is used, at most once a day."""
    with contextlib.suppress(OSError):  # a folder that can only be read
        if file.stat().st_mtime < time.time() - TOUCH_AFTER_S:
            os.utime(file)


def code_file(function: Any, kind: str, types: str) -> Path | None:
    """Return the file for the machine code of a function for some types of arguments.

    None where it cannot be stored, because the function may change unnoticed.
    """
    folder, digest = cache_folder(), digest_of(function)
    if folder is None or digest is None:
        return None
    key = hashlib.sha256("\n".join([kind, digest_of_modules(COMPILER), digest, types]).encode())
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
