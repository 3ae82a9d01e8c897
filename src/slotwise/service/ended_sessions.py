"""Which sessions were ended by signing out: in memory, and in the store's list of changes."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock

import msgspec

from slotwise.service.access.keys import Session
from slotwise.service.limits import LONGEST_SESSION_S
from slotwise.service.records import SECOND_US, ChangeRecord
from slotwise.service.storage.contract import SaveChange, Store
from slotwise.service.storage.group_commit import GroupCommitter, then

_SUBJECT = "signed out"
"""No pool has this name, for no id has a space."""
_MAX_READ = 10_000


class _Ended(msgspec.Struct, frozen=True):
    """What is stored of a session that was ended."""

    session_id: str


class SignedOut:
    """The sessions that somebody signed out of and that would not have ended by now anyway.

    `read` takes over what other processes on the same store have ended.
    """

    def __init__(self, store: Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self._lock = Lock()
        self._ended: dict[str, int] = {}
        self.read()

    def read(self) -> None:
        """Take over what the store has. Reading."""
        with self._store.reading() as reader:
            for change in reader.changes(_SUBJECT, _MAX_READ):
                ended = msgspec.json.decode(change.after, type=_Ended)
                self._note(ended.session_id, change.changed_us)

    def has(self, session: Session) -> bool:
        """Say whether the session was ended. Quick."""
        return session.session_id in self._ended

    def end(self, session: Session, now_us: int) -> Future[None]:
        """End a session for good: here at once, for other processes when it is committed."""
        self._note(session.session_id, now_us)
        change = ChangeRecord(
            changed_us=now_us,
            changed_by=session.key_id,
            action="session.end",
            subject=_SUBJECT,
            after=msgspec.json.encode(_Ended(session.session_id)).decode(),
        )
        return then(self._committer.submit([SaveChange(change=change)]), lambda _: None)

    def _note(self, session_id: str, ended_us: int) -> None:
        # A session that was ended longer ago than this could not be renewed any more.
        oldest_us = ended_us - LONGEST_SESSION_S * SECOND_US
        with self._lock:
            still = {one: at for one, at in self._ended.items() if at >= oldest_us}
            self._ended = still | {session_id: ended_us}
