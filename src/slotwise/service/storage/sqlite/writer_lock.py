"""One writer for a SQLite file: a lock that the system releases when its process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from slotwise.service.errors import StoreInUse, StoreUnavailable

__all__ = ["WriterLock"]


class WriterLock:
    """Holds `<store>.lock`, a file that stays and names the process of the last writer.

    The store's own file cannot carry the lock: closing any descriptor of it would release the
    locks that SQLite holds there.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        try:
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the store {store} cannot be locked: {error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            writer = os.read(self._descriptor, 20).decode(errors="replace").strip()
            self.release()
            raise StoreInUse(
                f"the store {store} is in use by process {writer or 'unknown'}; stop that process, "
                "or ask its service over HTTP"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another process write; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
