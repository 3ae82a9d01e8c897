"""The pools, links, keys, notes and ended sessions of a service: in memory and in the store.

Used by `api`, `reporting` and `service`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock, RLock
from typing import cast

import msgspec
from msgspec.structs import replace

from slotwise.service.access.keys import Session
from slotwise.service.pool import (
    Pool,
    check_known,
    check_link,
    check_pool,
    check_rules,
    dated_rules,
    with_known_policy,
)
from slotwise.service.records import (
    ChangeRecord,
    ImportedCounts,
    KeyRecord,
    LinkRecord,
    PoolRule,
    PoolSettings,
)
from slotwise.service.refusals import (
    Conflict,
    LimitReached,
    UnknownKey,
    UnknownLink,
    UnknownNote,
    UnknownPool,
)
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage import contract
from slotwise.service.storage.group_commit import GroupCommitter, then

Changed = Callable[[Pool, int, bool], Future[None]]
"""Called with a changed pool, the time, and whether statistics were reset."""


class PoolDirectory:
    """Pools, links and keys over one store.

    Reads are served from memory, which is updated after each commit. A change of a pool is complete
    when the future of `changed` is done.
    """

    def __init__(
        self,
        store: contract.Store,
        committer: GroupCommitter,
        options: ServiceOptions,
        changed: Changed,
    ) -> None:
        self._store = store
        self._committer = committer
        self._options = options
        self._changed = changed
        self._lock = RLock()
        with store.reading() as reader:
            self._pools = {
                pool.pool_id: Pool.of(with_known_policy(pool), reader.links(pool.pool_id))
                for pool in reader.pools()
            }
            self._keys = {key.key_id: key for key in reader.keys()}  # noqa: SIM118 - no dict
            self._last_change, _ = reader.changed_since(0)
        self.keys_changed: Callable[[], None] = lambda: None
        """Called after another process changed a key."""

    def refresh(self) -> None:
        """Load the changes of other processes on the same store. Reading."""
        with self._store.reading() as reader:
            last_change, subjects = reader.changed_since(self._last_change)
            if not subjects:
                return
            named = {subject.partition("/")[0] for subject in subjects}
            found = [
                Pool.of(with_known_policy(pool), reader.links(pool.pool_id))
                for pool in reader.pools()
                if pool.pool_id in named
            ]
            keys = {key.key_id: key for key in reader.keys()}  # noqa: SIM118 - no dict
        with self._lock:
            self._last_change = last_change
            for pool in found:
                self._take_changed(pool)
            # Keys are never removed, and a revoked one never works again.
            made_since = {one: key for one, key in self._keys.items() if one not in keys}
            revoked = {one: key for one, key in self._keys.items() if key.revoked_us}
            keys |= made_since | revoked
            have_changed, self._keys = keys != self._keys, keys
        if have_changed:
            self.keys_changed()

    def _take_changed(self, found: Pool) -> None:
        pool_id = found.settings.pool_id
        known = self._pools.get(pool_id)
        if known is not None:
            # The data read may be older than what this process has committed since.
            newest = [link for link in found.links.values() if not _is_newer(known, link)]
            settings = max(found.settings, known.settings, key=lambda one: one.changed_us)
            found = known.with_links(newest)._replace(settings=settings)
            if (known.settings, known.links) == (found.settings, found.links):
                return  # changed by this process
        self._pools[pool_id] = found
        self._changed(found, max(found.links_changed_us, found.settings.changed_us), True)

    def all_pools(self) -> list[Pool]:
        """Return every pool with its links, by id. Quick."""
        with self._lock:
            return [self._pools[pool_id] for pool_id in sorted(self._pools)]

    def pools(self) -> list[PoolSettings]:
        """Return every pool, including archived ones. Quick."""
        return [pool.settings for pool in self.all_pools()]

    def pool(self, pool_id: str) -> PoolSettings:
        """Return a pool, archived or not, or raise `UnknownPool`. Quick."""
        return self.whole_pool(pool_id).settings

    def put_pool(self, pool: PoolSettings, by: str, now_us: int) -> Future[PoolSettings]:
        """Create or replace a pool; a pool that was archived runs again.

        Checks windows, floor, policy with its settings, and holdout, and raises `InvalidInput` at
        once. Times are set here. The rules of a pool stay: they are set by `put_rules`.
        """
        with self._lock:
            known = self._pools.get(pool.pool_id)
            n_pools, limit = len(self._pools), self._options.max_pools
            if known is None and n_pools >= limit:
                raise LimitReached(f"`max_pools` is {limit}, and there are {n_pools} pools")
        before = known.settings if known else None
        if before is not None:
            now_us = self._after_last_change(pool.pool_id, now_us)
            pool = replace(pool, rules=before.rules)
        self.check_pool(pool, now_us)
        created_us = before.created_us if before else now_us
        pool = replace(pool, created_us=created_us, changed_us=now_us, archived=False)
        action = "pool.change" if before else "pool.create"
        return self._save_pool(pool, _change(now_us, by, action, pool.pool_id, before, pool))

    def check_pool(self, pool: PoolSettings, now_us: int) -> None:
        """Raise `InvalidInput` for the rules that new settings of a pool break."""
        with self._lock:
            known = self._pools.get(pool.pool_id)
        if known is None:
            check_pool(pool, 0, ends_after_us=now_us)
            return
        before = known.settings
        check_pool(
            replace(pool, rules=before.rules),
            len(known.active),
            has_known=before.policy != pool.policy
            and any(link.start_counts for link in known.links.values()),
            ends_after_us=0 if before.until_us == pool.until_us else now_us,
        )

    def put_rules(
        self, pool_id: str, rules: Sequence[PoolRule], by: str, now_us: int
    ) -> Future[PoolSettings]:
        """Replace the rules of a pool. Raises `InvalidInput` for the first that is wrong."""
        pool, now_us = self.whole_pool(pool_id), self._after_last_change(pool_id, now_us)
        check_rules(pool, rules, now_us)
        settings = replace(pool.settings, rules=dated_rules(pool, rules, now_us), changed_us=now_us)
        change = _change(now_us, by, "pool.change", pool_id, pool.settings, settings)
        return self._save_pool(settings, change)

    def archive_pool(self, pool_id: str, by: str, now_us: int) -> Future[PoolSettings]:
        """Stop a pool; its history stays, and feedback for its pages is still counted."""
        before, now_us = self.pool(pool_id), self._after_last_change(pool_id, now_us)
        pool = replace(before, archived=True, changed_us=now_us)
        return self._save_pool(pool, _change(now_us, by, "pool.archive", pool_id, before, pool))

    def whole_pool(self, pool_id: str) -> Pool:
        """Return a pool with its links, or raise `UnknownPool`. Quick."""
        pool = self._pools.get(pool_id)
        if pool is None:
            raise UnknownPool(f"there is no pool {pool_id!r}")
        return pool

    def changed_us(self, pool_id: str) -> int:
        """Return when the pool or one of its links was last changed. Quick."""
        pool = self.whole_pool(pool_id)
        return max(pool.links_changed_us, pool.settings.changed_us)

    def _after_last_change(self, pool_id: str, now_us: int) -> int:
        """Return `now_us`, or the time of the last change where the clock was set back since.

        Of two states of a pool the later one holds, so a change must not look older than it is.
        """
        return max(now_us, self.changed_us(pool_id))

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool by place, including retired ones. Quick."""
        return sorted(self.whole_pool(pool_id).links.values(), key=lambda link: link.place)

    def link(self, pool_id: str, link_id: str) -> LinkRecord:
        """Return one link, retired or not, or raise `UnknownLink`. Quick.

        A retired link is still a redirect's destination: pages with it may still be open.
        """
        link = self.whole_pool(pool_id).links.get(link_id)
        if link is None:
            raise UnknownLink(f"pool {pool_id!r} has no link {link_id!r}")
        return link

    def revision(self, pool_id: str) -> int:
        """Return a number that increases when the pool or one of its links changes. Quick."""
        return self.whole_pool(pool_id).revision

    def put_links(
        self,
        pool_id: str,
        links: Sequence[LinkRecord],
        by: str,
        now_us: int,
        reset_statistics: bool = False,
    ) -> Future[list[LinkRecord]]:
        """Add or replace links, all or none; links with `retired=True` are no longer shown.

        Statistics are kept, also of a link that is no longer retired, unless a reset is requested:
        then the views issued before `now_us` no longer count for these links.
        """
        known = dict(self.whole_pool(pool_id).links)
        now_us = self._after_last_change(pool_id, now_us)
        saved, changes = [], []
        for link in links:
            check_link(link)
            before = known.get(link.link_id)
            counted_from_us = before.counted_from_us if before else 0
            link = replace(
                link,
                pool_id=pool_id,
                counted_from_us=now_us if before and reset_statistics else counted_from_us,
                created_us=before.created_us if before else now_us,
                changed_us=now_us,
                known=before.known if before else (),
                known_us=before.known_us if before else 0,
            )
            action = "link.change" if before else "link.create"
            if link.retired and not (before and before.retired):
                action = "link.retire"
            subject = f"{pool_id}/{link.link_id}"
            changes.append(_change(now_us, by, action, subject, before, link))
            known[link.link_id] = link
            saved.append(link)
        if len(known) > self._options.max_links:
            limit = self._options.max_links
            raise LimitReached(f"`max_links` is {limit}, and there would be {len(known)} links")
        reset = tuple(link.link_id for link in saved if link.counted_from_us == now_us)
        return self._save_links(pool_id, saved, changes, reset, now_us)

    def put_known(
        self, pool_id: str, known: Mapping[str, Sequence[ImportedCounts]], by: str, now_us: int
    ) -> Future[list[LinkRecord]]:
        """Import counts for links, replacing those imported before.

        All rounds are then learned again. Empty counts remove what was imported. Raises
        `InvalidInput`, also for a policy that cannot learn from counts, and `UnknownLink`.
        """
        pool, now_us = self.whole_pool(pool_id), self._after_last_change(pool_id, now_us)
        saved, changes = [], []
        for link_id, counts in known.items():
            before = self.link(pool_id, link_id)
            link = replace(before, known=tuple(counts), known_us=now_us, changed_us=now_us)
            changes.append(_change(now_us, by, "link.import", f"{pool_id}/{link_id}", before, link))
            saved.append(link)
        check_known(pool, known)
        return self._save_links(pool_id, saved, changes, (), now_us)

    def _save_links(
        self,
        pool_id: str,
        links: Sequence[LinkRecord],
        changes: Sequence[ChangeRecord],
        reset: tuple[str, ...],
        now_us: int,
    ) -> Future[list[LinkRecord]]:
        operation = contract.SaveLinks(links=tuple(links), changes=tuple(changes), reset=reset)
        return then(
            self._committer.submit([operation]),
            lambda answers: self._take_links(pool_id, answers[0], now_us, bool(reset)),
        )

    def keys(self) -> list[KeyRecord]:
        """Return every key, including revoked ones. Quick."""
        with self._lock:
            return [self._keys[key_id] for key_id in sorted(self._keys)]

    def key(self, key_id: str) -> KeyRecord | None:
        """Return a key, revoked or not, or None. Quick."""
        return self._keys.get(key_id)

    def put_key(self, key: KeyRecord, by: str, now_us: int) -> Future[KeyRecord]:
        """Store a new key; an id that is taken raises `Conflict`."""
        if key.key_id in self._keys:
            raise Conflict(f"the key id {key.key_id!r} is taken")
        key = replace(key, created_us=now_us)
        return self._save_key(key, _change(now_us, by, "key.create", key.key_id, None, key))

    def revoke_key(self, key_id: str, by: str, now_us: int) -> Future[KeyRecord]:
        """Revoke a key; a revoked key never works again. Raises `UnknownKey`."""
        before = self._keys.get(key_id)
        if before is None:
            raise UnknownKey(f"there is no key {key_id!r}")
        key = replace(before, revoked_us=before.revoked_us or now_us)
        return self._save_key(key, _change(now_us, by, "key.revoke", key_id, before, key))

    def forget_views(self, key_id: str, since_us: int, by: str, now_us: int) -> Future[int]:
        """Exclude the views that a key requested since a time from all counts; return how many.

        Learning continues without them. Raises `UnknownKey`.
        """
        if key_id not in self._keys:
            raise UnknownKey(f"there is no key {key_id!r}")
        change = ChangeRecord(
            changed_us=now_us,
            changed_by=by,
            action="key.forget",
            subject=key_id,
            after=msgspec.json.encode({"since_us": since_us}).decode(),
        )
        operation = contract.ForgetViews(key_id=key_id, since_us=since_us, change=change)
        return then(self._committer.submit([operation]), lambda answers: cast("int", answers[0]))

    def changes(self, subject: str = "", limit: int = 100) -> list[ChangeRecord]:
        """Return the changes of one subject or of all, newest first. Reading."""
        with self._store.reading() as reader:
            return reader.changes(subject, limit)

    def _save_pool(self, settings: PoolSettings, change: ChangeRecord) -> Future[PoolSettings]:
        def take(_: list[object]) -> PoolSettings | Future[PoolSettings]:
            with self._lock:
                known = self._pools.get(settings.pool_id)
                if known and known.settings.changed_us > settings.changed_us:
                    return settings  # another process changed it since
                pool = known.with_settings(settings) if known else Pool.of(settings)
                self._pools[settings.pool_id] = pool
                changed = self._changed(pool, settings.changed_us, False)
            return then(changed, lambda _: settings)

        return then(self._committer.submit([contract.SavePool(pool=settings, change=change)]), take)

    def _save_key(self, key: KeyRecord, change: ChangeRecord) -> Future[KeyRecord]:
        def take(_: list[object]) -> KeyRecord:
            with self._lock:
                self._keys[key.key_id] = key
            return key

        return then(self._committer.submit([contract.SaveKey(key=key, change=change)]), take)

    def _take_links(
        self, pool_id: str, saved: object, now_us: int, were_reset: bool
    ) -> Future[list[LinkRecord]]:
        assert isinstance(saved, list)
        with self._lock:
            known = self.whole_pool(pool_id)
            newest = [link for link in saved if not _is_newer(known, link)]
            pool = self._pools[pool_id] = known.with_links(newest)
            changed = self._changed(pool, now_us, were_reset)
        return then(changed, lambda _: saved)


def _is_newer(known: Pool, link: LinkRecord) -> bool:
    """Return whether a pool has a later state of a link."""
    same = known.links.get(link.link_id)
    return same is not None and same.changed_us > link.changed_us


def _change(
    now_us: int,
    by: str,
    action: str,
    subject: str,
    before: PoolSettings | LinkRecord | KeyRecord | None,
    after: PoolSettings | LinkRecord | KeyRecord,
) -> ChangeRecord:
    return ChangeRecord(
        changed_us=now_us,
        changed_by=by,
        action=action,
        subject=subject,
        before="" if before is None else _without_hash(before),
        after=_without_hash(after),
    )


def _without_hash(record: PoolSettings | LinkRecord | KeyRecord) -> str:
    if isinstance(record, KeyRecord):
        record = replace(record, key_hash="")
    return msgspec.json.encode(record).decode()


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
