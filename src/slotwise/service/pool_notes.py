"""Notes on the pools of a service, stored as changes.

Used by `api`, `reporting` and `service`.
"""

from __future__ import annotations

import secrets
from concurrent.futures import Future

import msgspec

from slotwise.service.records import ChangeRecord
from slotwise.service.refusals import UnknownNote
from slotwise.service.storage import contract
from slotwise.service.storage.group_commit import GroupCommitter, then

MAX_NOTES = 1_000
"""Maximum number of notes of one pool that are read, the latest ones."""

_ADDED, _REMOVED = "note.add", "note.remove"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence about a pool at a time."""

    note_id: str
    text: str
    at_us: int
    """The time that the note refers to."""
    by: str
    """The key of its author."""
    made_us: int


class Notes:
    """The notes of all pools."""

    def __init__(self, store: contract.Store, committer: GroupCommitter) -> None:
        self._store = store
        self._committer = committer
        self.n_changes = 0
        """How many notes were written or removed here; caches of notes compare it."""

    def all(self, pool_id: str) -> list[Note]:
        """Return the notes of a pool by the time they refer to, newest first. Reading."""
        with self._store.reading() as reader:
            changes = reader.changes(_subject(pool_id), 2 * MAX_NOTES)
        removed = {change.before for change in changes if change.action == _REMOVED}
        notes = [
            msgspec.json.decode(change.after, type=Note)
            for change in changes
            if change.action == _ADDED
        ]
        kept = [note for note in notes if note.note_id not in removed]
        return sorted(kept, key=lambda note: (note.at_us, note.made_us), reverse=True)

    def add(self, pool_id: str, text: str, at_us: int, by: str, now_us: int) -> Future[Note]:
        """Write a note."""
        note_id = secrets.token_hex(8)
        note = Note(note_id=note_id, text=text, at_us=at_us, by=by, made_us=now_us)
        after = msgspec.json.encode(note).decode()
        return then(self._save(pool_id, _ADDED, by, now_us, after=after), lambda _: note)

    def remove(self, pool_id: str, note_id: str, by: str, now_us: int) -> Future[Note]:
        """Remove a note; the list of changes still contains it. Reading."""
        note = next((one for one in self.all(pool_id) if one.note_id == note_id), None)
        if note is None:
            raise UnknownNote(f"pool {pool_id!r} has no note {note_id!r}")
        return then(self._save(pool_id, _REMOVED, by, now_us, before=note_id), lambda _: note)

    def _save(
        self, pool_id: str, action: str, by: str, now_us: int, before: str = "", after: str = ""
    ) -> Future[list[object]]:
        def count(saved: list[object]) -> list[object]:
            self.n_changes += 1
            return saved

        change = ChangeRecord(now_us, by, action, _subject(pool_id), before, after)
        return then(self._committer.submit([contract.SaveChange(change=change)]), count)


def _subject(pool_id: str) -> str:
    # An id has no space, so no pool and no link has this subject.
    return f"{pool_id} notes"
