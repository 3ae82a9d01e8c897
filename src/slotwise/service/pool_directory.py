"""The pools, links and keys of a service: in memory and in the store.

Used by `api`, `reporting` and `service`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import RLock
from typing import cast

import msgspec
from msgspec.structs import replace

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
    Outdated,
    UnknownKey,
    UnknownLink,
    UnknownPool,
)
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage import contract
from slotwise.service.storage.group_commit import GroupCommitter, then

Changed = Callable[[Pool, int, bool], Future[None]]
"""Called with a changed pool, the time, and whether statistics were reset."""
PoolChange = Callable[[PoolSettings | None], PoolSettings]
"""Makes new settings from the present ones; None for a new pool."""
LinkChange = Callable[[LinkRecord | None], LinkRecord]
MAX_TRIES = 100
"""Times that a change is made again because another process changed the same pool or link."""


class PoolDirectory:
    """Pools, links and keys over one store.

    Reads are served from memory, which is updated after each commit. A change of a pool is complete
    when the future of `changed` is done.

    The revision of a pool or link is the time of its last change, which always increases. A change
    is made from the state in memory, and the transaction that stores it checks that this state has
    the stored revision. Otherwise another process was faster: the stored state is read, and the
    change is made again from it. So no change is lost, and memory and store agree. A caller that
    gives `expected_us`, the revision that it has read, gets `Outdated` instead.
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
            self.key_records = {key.key_id: key for key in reader.keys()}  # noqa: SIM118 - no dict
            """Every key by its id, including revoked ones."""
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
            made_since = {one: key for one, key in self.key_records.items() if one not in keys}
            revoked = {one: key for one, key in self.key_records.items() if key.revoked_us}
            keys |= made_since | revoked
            have_changed, self.key_records = keys != self.key_records, keys
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
        """Create or replace a pool, as `change_pool` does."""
        return self.change_pool(pool.pool_id, lambda _: pool, by, now_us)

    def change_pool(
        self,
        pool_id: str,
        change: PoolChange,
        by: str,
        now_us: int,
        expected_us: int | None = None,
    ) -> Future[PoolSettings]:
        """Create or change a pool; a pool that was archived runs again.

        Checks windows, floor, policy with its settings, and holdout, and raises `InvalidInput` at
        once. Times are set here. The rules of a pool stay: they are set by `put_rules`.
        """

        def make(known: Pool | None) -> tuple[PoolSettings, str]:
            n_pools, limit = len(self._pools), self._options.max_pools
            if known is None and n_pools >= limit:
                raise LimitReached(f"`max_pools` is {limit}, and there are {n_pools} pools")
            before = known.settings if known else None
            changed_us = _next_revision(now_us, known, before)
            pool = change(before)
            if before is not None:
                pool = replace(pool, rules=before.rules)
            self.check_pool(pool, changed_us)
            created_us = before.created_us if before else changed_us
            has_same = before is not None and _what_is_compared(before) == _what_is_compared(pool)
            # 0 in a pool of an earlier release, whose own page was compared with nothing
            own_page_us = (before.own_page_us if before and has_same else 0) or changed_us
            pool = replace(
                pool,
                created_us=created_us,
                changed_us=changed_us,
                archived=False,
                own_page_us=own_page_us if pool.own_page else 0,
            )
            return pool, "pool.change" if before else "pool.create"

        return self._commit_pool(pool_id, make, by, expected_us)

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
        self,
        pool_id: str,
        rules: Sequence[PoolRule],
        by: str,
        now_us: int,
        expected_us: int | None = None,
    ) -> Future[PoolSettings]:
        """Replace the rules of a pool. Raises `InvalidInput` for the first that is wrong."""
        self.whole_pool(pool_id)

        def make(known: Pool | None) -> tuple[PoolSettings, str]:
            assert known is not None  # pools are archived, never removed
            changed_us = _next_revision(now_us, known, known.settings)
            check_rules(known, rules, changed_us)
            dated = dated_rules(known, rules, _next_revision(now_us, known, None))
            return replace(known.settings, rules=dated, changed_us=changed_us), "pool.change"

        return self._commit_pool(pool_id, make, by, expected_us)

    def archive_pool(
        self, pool_id: str, by: str, now_us: int, expected_us: int | None = None
    ) -> Future[PoolSettings]:
        """Stop a pool; its history stays, and feedback for its pages is still counted."""
        self.whole_pool(pool_id)

        def make(known: Pool | None) -> tuple[PoolSettings, str]:
            assert known is not None
            changed_us = _next_revision(now_us, known, known.settings)
            return replace(known.settings, archived=True, changed_us=changed_us), "pool.archive"

        return self._commit_pool(pool_id, make, by, expected_us)

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
        """Add or replace links, as `change_links` does."""
        changes = {link.link_id: (lambda _, link=link: link) for link in links}
        return self.change_links(pool_id, changes, by, now_us, reset_statistics)

    def change_links(
        self,
        pool_id: str,
        changes: Mapping[str, LinkChange],
        by: str,
        now_us: int,
        reset_statistics: bool = False,
        expected_us: int | None = None,
    ) -> Future[list[LinkRecord]]:
        """Add or change links, all or none; links with `retired=True` are no longer shown.

        Statistics are kept, also of a link that is no longer retired, unless a reset is requested:
        then the views issued before `now_us` no longer count for these links. `expected_us` is the
        revision of each of them.
        """

        def make(known: Pool) -> list[LinkRecord]:
            new = changes.keys() - known.links.keys()
            n_links, limit = len(known.links) + len(new), self._options.max_links
            if n_links > limit:
                raise LimitReached(f"`max_links` is {limit}, and there would be {n_links} links")
            made = []
            for link_id, change in changes.items():
                before = known.links.get(link_id)
                link = change(before)
                check_link(link)
                changed_us = _next_revision(now_us, known, before)
                counted_from_us = before.counted_from_us if before else 0
                link = replace(
                    link,
                    pool_id=pool_id,
                    counted_from_us=changed_us if before and reset_statistics else counted_from_us,
                    created_us=before.created_us if before else changed_us,
                    changed_us=changed_us,
                    known=before.known if before else (),
                    known_us=before.known_us if before else 0,
                )
                made.append(link)
            return made

        return self._commit_links(pool_id, make, by, expected_us)

    def put_known(
        self, pool_id: str, known: Mapping[str, Sequence[ImportedCounts]], by: str, now_us: int
    ) -> Future[list[LinkRecord]]:
        """Import counts for links, replacing those imported before.

        All rounds are then learned again. Empty counts remove what was imported. Raises
        `InvalidInput`, also for a policy that cannot learn from counts, and `UnknownLink`.
        """

        def make(pool: Pool) -> list[LinkRecord]:
            made = []
            for link_id, counts in known.items():
                before = self.link(pool_id, link_id)
                changed_us = _next_revision(now_us, pool, before)
                made.append(
                    replace(before, known=tuple(counts), known_us=changed_us, changed_us=changed_us)
                )
            check_known(pool, known)
            return made

        return self._commit_links(pool_id, make, by, action="link.import")

    def keys(self) -> list[KeyRecord]:
        """Return every key, including revoked ones. Quick."""
        with self._lock:
            return [self.key_records[key_id] for key_id in sorted(self.key_records)]

    def put_key(self, key: KeyRecord, by: str, now_us: int) -> Future[KeyRecord]:
        """Store a new key; an id that is taken raises `Conflict`."""
        if key.key_id in self.key_records:
            raise Conflict(f"the key id {key.key_id!r} is taken")
        key = replace(key, created_us=now_us)
        return self._save_key(key, _change(now_us, by, "key.create", key.key_id, None, key))

    def revoke_key(self, key_id: str, by: str, now_us: int) -> Future[KeyRecord]:
        """Revoke a key; a revoked key never works again. Raises `UnknownKey`."""
        before = self.key_records.get(key_id)
        if before is None:
            raise UnknownKey(f"there is no key {key_id!r}")
        key = replace(before, revoked_us=before.revoked_us or now_us)
        return self._save_key(key, _change(now_us, by, "key.revoke", key_id, before, key))

    def forget_views(self, key_id: str, since_us: int, by: str, now_us: int) -> Future[int]:
        """Exclude the views that a key requested since a time from all counts; return how many.

        Learning continues without them. Raises `UnknownKey`.
        """
        if key_id not in self.key_records:
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

    def _commit_pool(
        self,
        pool_id: str,
        make: Callable[[Pool | None], tuple[PoolSettings, str]],
        by: str,
        expected_us: int | None,
        n_tries: int = 1,
    ) -> Future[PoolSettings]:
        """Store the settings that `make` returns, with the name of the action, for a pool."""
        known = self._pools.get(pool_id)
        before = known.settings if known else None
        revision = before.changed_us if before else 0
        if expected_us is not None and expected_us != revision:
            known = self._read_pool(pool_id)  # another process may have changed it
            before = known.settings if known else None
            revision = before.changed_us if before else 0
            if expected_us != revision:
                raise Outdated(f"somebody else changed pool {pool_id}: read it again")
        settings, action = make(known)
        change = _change(settings.changed_us, by, action, pool_id, before, settings)

        def take(answers: list[object]) -> PoolSettings | Future[PoolSettings]:
            if not answers[0]:
                self._try_again(pool_id, n_tries)
                return self._commit_pool(pool_id, make, by, expected_us, n_tries + 1)
            with self._lock:
                known = self._pools.get(pool_id)
                if known and known.settings.changed_us > settings.changed_us:
                    return settings  # another process changed it since
                pool = known.with_settings(settings) if known else Pool.of(settings)
                self._pools[pool_id] = pool
                changed = self._changed(pool, settings.changed_us, False)
            return then(changed, lambda _: settings)

        operation = contract.SavePool(pool=settings, change=change, after_us=revision)
        return then(self._committer.submit([operation]), take)

    def _commit_links(
        self,
        pool_id: str,
        make: Callable[[Pool], list[LinkRecord]],
        by: str,
        expected_us: int | None = None,
        n_tries: int = 1,
        action: str = "",
    ) -> Future[list[LinkRecord]]:
        """Store the links that `make` returns for a pool."""
        known = self.whole_pool(pool_id)
        links = make(known)
        if expected_us is not None and not _have_revision(known, links, expected_us):
            known = self._read_pool(pool_id) or known
            links = make(known)
            if not _have_revision(known, links, expected_us):
                raise Outdated(f"somebody else changed {links[0].link_id}: read it again")
        before = [known.links.get(link.link_id) for link in links]
        changes = tuple(
            _change(
                link.changed_us,
                by,
                action or _link_action(first, link),
                f"{pool_id}/{link.link_id}",
                first,
                link,
            )
            for first, link in zip(before, links, strict=True)
        )
        reset = tuple(link.link_id for link in links if link.counted_from_us == link.changed_us)
        revisions = tuple(0 if first is None else first.changed_us for first in before)

        def take(answers: list[object]) -> Future[list[LinkRecord]]:
            if answers[0] is False:
                self._try_again(pool_id, n_tries)
                return self._commit_links(pool_id, make, by, expected_us, n_tries + 1, action)
            now_us = max((link.changed_us for link in links), default=0)
            return self._take_links(pool_id, answers[0], now_us, bool(reset))

        operation = contract.SaveLinks(
            links=tuple(links), changes=changes, reset=reset, after_us=revisions
        )
        return then(self._committer.submit([operation]), take)

    def _try_again(self, pool_id: str, n_tries: int) -> None:
        """Read what another process has stored, so that a change can be made from it."""
        if n_tries >= MAX_TRIES:
            raise Conflict(f"others change pool {pool_id} all the time: try again later")
        self._read_pool(pool_id)

    def _read_pool(self, pool_id: str) -> Pool | None:
        """Load a pool from the store, return its state in memory."""
        with self._store.reading() as reader:
            found = [
                Pool.of(with_known_policy(pool), reader.links(pool_id))
                for pool in reader.pools()
                if pool.pool_id == pool_id
            ]
        with self._lock:
            for pool in found:
                self._take_changed(pool)
            return self._pools.get(pool_id)

    def _save_key(self, key: KeyRecord, change: ChangeRecord) -> Future[KeyRecord]:
        def take(_: list[object]) -> KeyRecord:
            with self._lock:
                self.key_records[key.key_id] = key
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


def _next_revision(now_us: int, pool: Pool | None, before: PoolSettings | LinkRecord | None) -> int:
    """Return the time of a change: not before the pool's last one, and after the object's own.

    Of two states the later one holds, so a change must not look older than it is where the clock
    was set back.
    """
    if pool is not None:
        now_us = max(now_us, pool.links_changed_us, pool.settings.changed_us)
    return now_us if before is None else max(now_us, before.changed_us + 1)


def _have_revision(pool: Pool, links: Sequence[LinkRecord], expected_us: int) -> bool:
    stored = (pool.links.get(link.link_id) for link in links)
    return all((0 if one is None else one.changed_us) == expected_us for one in stored)


def _link_action(before: LinkRecord | None, link: LinkRecord) -> str:
    if link.retired and not (before and before.retired):
        return "link.retire"
    return "link.change" if before else "link.create"


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


def _what_is_compared(pool: PoolSettings) -> tuple[object, ...]:
    """Return what the evidence about the own page is for; with another, it starts anew.

    With other slots the page is another one, and sums of squares are in units of the largest
    revenue.
    """
    return pool.own_page, pool.slots, pool.max_revenue_micros
