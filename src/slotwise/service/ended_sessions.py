"""Which sessions were ended by signing out: in memory, and in the store."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock

from slotwise.service.access.keys import Session
from slotwise.service.storage.contract import EndSession, Store
from slotwise.service.storage.group_commit import GroupCommitter, then

_MIN_SWEPT = 1_000
"""Fewer than this are not looked through for those that have ended anyway."""


class SignedOut:
    """The sessions that somebody signed out of and that would not have ended by now anyway.

    `read` takes over what other processes on the same store have ended. Signing out takes the
    same time however many have done so: the table is indexed, and memory is swept when it has
    doubled.
    """

    def __init__(self, store: Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self._lock = Lock()
        self._ended: dict[str, int] = {}
        self._sweep_at = _MIN_SWEPT
        self._read_to = 0
        self.read()

    def read(self) -> None:
        """Take over what the store has got since the last call. Reading."""
        with self._store.reading() as reader:
            read_to, found = reader.ended_sessions(self._read_to)
        with self._lock:
            self._ended.update(found)
            self._read_to = read_to

    def has(self, session: Session) -> bool:
        """Say whether the session was ended. Quick."""
        return session.session_id in self._ended

    def end(self, session: Session, now_us: int) -> Future[None]:
        """End a session for good: here at once, for other processes when it is committed.

        No copy of `session` may last longer than its `ends_us`.
        """
        session_id, ends_us = session.session_id, session.ends_us
        with self._lock:
            self._ended[session_id] = ends_us
            if len(self._ended) > self._sweep_at:
                self._ended = {one: at for one, at in self._ended.items() if at > now_us}
                self._sweep_at = max(_MIN_SWEPT, 2 * len(self._ended))
        stored = EndSession(session_id=session_id, ends_us=ends_us, now_us=now_us)
        return then(self._committer.submit([stored]), lambda _: None)
