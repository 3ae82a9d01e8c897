"""The embedded store of a busy process: another process makes its commits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from slotwise.service.storage.commands import Operation
from slotwise.service.storage.sqlite.file import SqliteFile, create_private, sqlite_errors
from slotwise.service.storage.sqlite.store import migrate
from slotwise.service.storage.sqlite.writer_lock import WriterLock
from slotwise.service.storage.sqlite.writer_process import WriterProcess

__all__ = ["ProcessStore"]


class ProcessStore(SqliteFile):
    """A `SqliteStore` whose commits another process makes; reads stay in this one.

    When that process ends, the commit under way raises `StoreUnavailable`, and the next one starts
    a new process.
    """

    sharing = None

    def __init__(self, path: Path | str, busy_timeout_s: float = 5.0) -> None:
        super().__init__(path, busy_timeout_s)
        self._committing = Lock()
        self._writer: WriterProcess | None = None
        self._lock = WriterLock(self._path)
        try:
            with sqlite_errors():
                create_private(self._path)
                self._check_file()
                migrate(self._path, busy_timeout_s)
            self._start_writer()
        except BaseException:
            self.close()
            raise

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        with self._committing:
            self._check_file()
            writer = self._writer
            if writer is None or writer.has_ended:
                self._stop_writer()
                writer = self._start_writer()
            return writer.commit(operations)

    def check(self) -> None:
        """Raise `StoreUnavailable` when the store cannot be written."""
        self.commit(())

    def close(self) -> None:
        """Release files, connections and the lock; safe to call twice."""
        with self._committing:
            super().close()
            self._stop_writer()
            self._lock.release()

    def _start_writer(self) -> WriterProcess:
        self._writer = WriterProcess(self._path, self._lock, self._busy_timeout_s)
        return self._writer

    def _stop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
