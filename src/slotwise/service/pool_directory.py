"""The pools, links and keys of a service: in memory for reading, in the store for good."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import RLock

import msgspec
from msgspec.structs import replace

from slotwise.policies import default_policy
from slotwise.service.deciding.pool_runtime import PoolRuntime
from slotwise.service.errors import Conflict, LimitReached, UnknownKey, UnknownLink, UnknownPool
from slotwise.service.learning.warm_up import PolicyCompiler
from slotwise.service.limits import MAX_POOL_LINKS, MAX_POOLS
from slotwise.service.pool_rules import check_link, check_pool
from slotwise.service.records import ChangeRecord, KeyRecord, LinkRecord, PoolSettings
from slotwise.service.storage.commands import SaveKey, SaveLinks, SavePool
from slotwise.service.storage.contract import Store
from slotwise.service.storage.futures import after, then
from slotwise.service.storage.group_commit import GroupCommitter

__all__ = ["Registry", "ServiceOptions"]


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs, whatever its pools."""

    fold_every_s: float = 1.0
    """How often closed windows are folded and probabilities published."""
    commit_every_ms: float = 2.0
    """How long a group commit waits for company."""
    max_waiting: int = 100_000
    """Writes in the queue; beyond it feedback is refused and the oldest decisions are dropped."""
    max_links: int = MAX_POOL_LINKS
    """Links of one pool, retired ones included."""
    max_pools: int = MAX_POOLS
    seed: int | None = None
    """Fixes every page; for tests."""
    commit_by_hand: bool = False
    """Commit only when `commit_waiting` is called; for tests."""
    compile_beside: bool = False
    """Answer with the fallback order while a policy is compiled, instead of waiting for it."""


_DEFAULT = PoolSettings(
    pool_id="default",
    slots=1,
    click_floor=0.0,
    currency="EUR",
    max_revenue_micros=1,
    click_window_s=1,
    revenue_window_s=1,
    policy=default_policy().name,
)
"""A pool that names no policy, to compile the one it gets."""


class Registry:
    """Pools, links and keys over one store; `Service` adds pages and learning.

    What is read comes from memory; what is changed is in memory once it is committed.
    """

    def __init__(self, store: Store, options: ServiceOptions | None = None) -> None:
        """Read settings, keys and the last published versions; no decision is read."""
        self._store = store
        self._options = options or ServiceOptions()
        self._lock = RLock()
        with store.reading() as reader:
            self._pools = {pool.pool_id: PoolRuntime.load(reader, pool) for pool in reader.pools()}
            self._keys = {key.key_id: key for key in reader.keys()}  # noqa: SIM118 - a reader is no dict
        self._compiler = PolicyCompiler(self._take_compiled)
        self._first_compiled: list[Future[None]] = []
        self._committer = GroupCommitter(
            store,
            self._options.commit_every_ms / 1000,
            self._options.max_waiting,
            self._options.commit_by_hand,
        )

    def pools(self) -> list[PoolSettings]:
        """Return every pool, archived ones too. Quick."""
        with self._lock:
            return [self._pools[pool_id].pool for pool_id in sorted(self._pools)]

    def pool(self, pool_id: str) -> PoolSettings:
        """Return a pool, archived or not, or raise `UnknownPool`. Quick."""
        return self._runtime(pool_id).pool

    def put_pool(self, pool: PoolSettings, by: str, now_us: int) -> Future[PoolSettings]:
        """Create or replace a pool; a pool that was archived runs again.

        Checks every rule that needs no other part of HTTP (windows, floor, policy and its
        settings, holdout) and raises `InvalidInput` at once. Times are set here. With a policy
        that is not compiled yet the check may take seconds on a new machine, and unless the
        option `compile_beside` is set the future waits for the rest of it.
        """
        with self._lock:
            runtime = self._pools.get(pool.pool_id)
            n_pools, limit = len(self._pools), self._options.max_pools
            if runtime is None and n_pools >= limit:
                raise LimitReached(f"`max_pools` is {limit}, and there are {n_pools} pools")
        check_pool(pool, len(runtime.active) if runtime else 0)
        before = runtime.pool if runtime else None
        created_us = before.created_us if before else now_us
        pool = replace(pool, created_us=created_us, changed_us=now_us, archived=False)
        action = "pool.change" if before else "pool.create"
        return self._save_pool(pool, _change(now_us, by, action, pool.pool_id, before, pool))

    def archive_pool(self, pool_id: str, by: str, now_us: int) -> Future[PoolSettings]:
        """Stop a pool; its history stays and late feedback is still taken."""
        before = self.pool(pool_id)
        pool = replace(before, archived=True, changed_us=now_us)
        return self._save_pool(pool, _change(now_us, by, "pool.archive", pool_id, before, pool))

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool by place, retired ones too. Quick."""
        with self._lock:
            links = self._runtime(pool_id).links.values()
            return sorted(links, key=lambda link: link.place)

    def link(self, pool_id: str, link_id: str) -> LinkRecord:
        """Return one link, retired or not, or raise `UnknownLink`. Quick.

        A retired link is still a redirect's destination: pages with it may be open somewhere.
        """
        link = self._runtime(pool_id).links.get(link_id)
        if link is None:
            raise UnknownLink(f"pool {pool_id!r} has no link {link_id!r}")
        return link

    def revision(self, pool_id: str) -> int:
        """Return a number that grows whenever the pool or one of its links is changed. Quick."""
        return self._runtime(pool_id).revision

    def put_links(
        self,
        pool_id: str,
        links: Sequence[LinkRecord],
        by: str,
        now_us: int,
        reset_statistics: bool = False,
    ) -> Future[list[LinkRecord]]:
        """Add or replace links, all or none; `retired=True` takes one out of the choice.

        Statistics are kept, also of a link that comes back, unless a reset is asked for:
        then the views issued before `now_us` no longer count for these links.
        """
        runtime = self._runtime(pool_id)
        with self._lock:
            known = dict(runtime.links)
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
        operation = SaveLinks(links=tuple(saved), changes=tuple(changes), reset=reset)
        return then(
            self._committer.submit([operation]),
            lambda answers: self._take_links(runtime, answers[0], bool(reset)),
        )

    def keys(self) -> list[KeyRecord]:
        """Return every key, revoked ones too. Quick."""
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
        """Make a key useless, for good, or raise `UnknownKey`."""
        before = self._keys.get(key_id)
        if before is None:
            raise UnknownKey(f"there is no key {key_id!r}")
        key = replace(before, revoked_us=before.revoked_us or now_us)
        return self._save_key(key, _change(now_us, by, "key.revoke", key_id, before, key))

    def changes(self, subject: str = "", limit: int = 100) -> list[ChangeRecord]:
        """Return who changed what, newest first, of one subject or of all. Reading."""
        with self._store.reading() as reader:
            return reader.changes(subject, limit)

    def compile_policies(self) -> None:
        """Compile the default policy and those of all pools, beside everything else. Quick.

        Seconds on a new machine, a fraction of one when it is kept on disk from before. The
        service is ready when it is done.
        """
        with self._lock:
            running = [one.pool for one in self._pools.values() if not one.pool.archived]
            policies = {pool.policy: pool for pool in running}
            policies.setdefault(_DEFAULT.policy, _DEFAULT)
            self._first_compiled = [self._compiler.compile(pool) for pool in policies.values()]
            for runtime in self._pools.values():
                runtime.is_compiling = self._is_compiling(runtime.pool)

    @property
    def compiling(self) -> tuple[str, ...]:
        """The policies that are being compiled. Quick."""
        return self._compiler.waiting

    @property
    def first_compiled(self) -> Sequence[Future[None]]:
        """What must be done before the service is ready. Quick."""
        return self._first_compiled

    def _is_compiling(self, pool: PoolSettings) -> bool:
        return self._options.compile_beside and not self._compiler.is_ready(pool.policy)

    def _take_compiled(self, policy: str) -> None:
        with self._lock:
            for runtime in self._pools.values():
                if runtime.pool.policy == policy:
                    runtime.is_compiling = False

    def _runtime(self, pool_id: str) -> PoolRuntime:
        runtime = self._pools.get(pool_id)
        if runtime is None:
            raise UnknownPool(f"there is no pool {pool_id!r}")
        return runtime

    def _save_pool(self, pool: PoolSettings, change: ChangeRecord) -> Future[PoolSettings]:
        def take(_: list[object]) -> PoolSettings:
            with self._lock:
                runtime = self._pools.get(pool.pool_id)
                if runtime is None:
                    runtime = self._pools[pool.pool_id] = PoolRuntime(pool)
                else:
                    runtime.set_pool(pool)
                runtime.is_compiling = self._is_compiling(pool)
            return pool

        operation = SavePool(pool=pool, change=change)
        committed = then(self._committer.submit([operation]), take)
        compiled = self._compiler.compile(pool)
        return committed if self._options.compile_beside else after(compiled, committed)

    def _save_key(self, key: KeyRecord, change: ChangeRecord) -> Future[KeyRecord]:
        def take(_: list[object]) -> KeyRecord:
            with self._lock:
                self._keys[key.key_id] = key
            return key

        return then(self._committer.submit([SaveKey(key=key, change=change)]), take)

    def _take_links(
        self, runtime: PoolRuntime, saved: object, were_reset: bool
    ) -> list[LinkRecord]:
        assert isinstance(saved, list)
        counters = None
        if were_reset:
            with self._store.reading() as reader:
                counters = reader.counters(runtime.pool.pool_id)
        with self._lock:
            runtime.set_links(saved)
            if counters is not None:
                runtime.counters = counters
        return saved


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
