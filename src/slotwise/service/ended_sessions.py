"""The sessions of the dashboard that were ended before they expired. Used by `service`."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock

from slotwise.service.access.sessions import Session
from slotwise.service.storage import contract
from slotwise.service.storage.group_commit import GroupCommitter, then

_MIN_SWEPT = 1_000
"""Expired sessions are only removed from memory if there are more than this."""


class SignedOut:
    """The sessions that were signed out and would not have expired yet.

    `read` loads the sessions ended by other processes on the same store. Signing out takes constant
    time: the table is indexed, and memory is cleaned when its size has doubled.
    """

    def __init__(self, store: contract.Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self._lock = Lock()
        self._ended: dict[str, int] = {}
        self._sweep_at = _MIN_SWEPT
        self._read_to = 0
        self.read()

    def read(self) -> None:
        """Load what was stored since the last call. Reading."""
        with self._store.reading() as reader:
            read_to, found = reader.ended_sessions(self._read_to)
        with self._lock:
            self._ended.update(found)
            self._read_to = read_to

    def has(self, session: Session) -> bool:
        """Return whether the session was ended. Quick."""
        return session.session_id in self._ended

    def end(self, session: Session, now_us: int) -> Future[None]:
        """End a session: here at once, for other processes when it is committed.

        No copy of `session` may last longer than its `ends_us`.
        """
        session_id, ends_us = session.session_id, session.ends_us
        with self._lock:
            self._ended[session_id] = ends_us
            if len(self._ended) > self._sweep_at:
                self._ended = {one: at for one, at in self._ended.items() if at > now_us}
                self._sweep_at = max(_MIN_SWEPT, 2 * len(self._ended))
        stored = contract.EndSession(session_id=session_id, ends_us=ends_us, now_us=now_us)
        return then(self._committer.submit([stored]), lambda _: None)
