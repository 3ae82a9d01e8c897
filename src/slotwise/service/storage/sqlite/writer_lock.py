"""One writer for a SQLite file: a lock that the system releases when its process ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from slotwise.service.errors import StoreInUse, StoreUnavailable

__all__ = ["WriterLock"]

_END_WITHIN_S = 5.0
"""How long a process may take to finish after the one that it writes for has ended."""
_LOOK_EVERY_S = 0.01


def _is_running(process: str) -> bool:
    """Say whether there is a process of this number, as far as one can tell."""
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to somebody else
    return True


class WriterLock:
    """Holds `<store>.lock`, a file that stays and names the process of the last writer.

    The store's own file cannot carry the lock: closing any descriptor of it would release the
    locks that SQLite holds there.

    The process named may be gone while the one that writes for it, named beside it, finishes its
    last commit: then the lock is free in a moment.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        try:
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the store {store} cannot be locked: {error}") from error
        until_s = time.monotonic() + _END_WITHIN_S
        while not self._take():
            named = os.pread(self._descriptor, 40, 0).decode(errors="replace").split()
            holder, writer = (*named, "unknown", "unknown")[:2]
            if _is_running(holder):
                self.release()
                raise StoreInUse(
                    f"the store {store} is in use by process {holder}; stop that process, or ask "
                    "its service over HTTP"
                )
            if time.monotonic() > until_s:
                self.release()
                raise StoreInUse(
                    f"the store {store} is in use by process {writer}, which has not "
                    f"finished what process {holder} gave it to write; wait for it, or end it"
                )
            time.sleep(_LOOK_EVERY_S)
        self._name(f"{os.getpid()}\n")

    @classmethod
    def inherited(cls, descriptor: int) -> WriterLock:
        """Return the lock of the process that started this one: both hold it."""
        lock = cls.__new__(cls)
        lock._descriptor = descriptor
        return lock

    @property
    def descriptor(self) -> int:
        """What another process inherits to hold the lock, too."""
        assert self._descriptor is not None, "released"
        return self._descriptor

    def name_writer(self, process: int) -> None:
        """Name the process that writes for this one."""
        self._name(f"{os.getpid()} {process}\n")

    def _name(self, line: str) -> None:
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, line.encode(), 0)

    def _take(self) -> bool:
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let another process write; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
