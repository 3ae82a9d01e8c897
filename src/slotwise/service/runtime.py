"""The service below HTTP: one object that the request handlers call.

    handler ── decide ──▶ published probabilities ──▶ page        (microseconds, no disk)
                                          └─▶ queue ─▶ group commit
    handler ── submit_events ──▶ queue ─▶ group commit ─▶ outcomes (after the commit)
    learner ── learn ──▶ close windows ─▶ fold ─▶ publish the next version

Which calls may run on an event loop:

- *quick* calls touch memory only
- calls that return a `Future` only queue: `await asyncio.wrap_future(service.put_pool(...))`;
  its result is set after the commit, or it fails with `StoreUnavailable`
- *reading* calls query the store and belong in a worker thread (`asyncio.to_thread`)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import msgspec

from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    Event,
    KeyRecord,
    LinkRecord,
    Outcome,
    Pin,
    PoolSettings,
)
from slotwise.service.reports import (
    DecisionReport,
    Explanation,
    FrontierReport,
    Health,
    PoolReport,
    RoundRow,
)
from slotwise.service.stores.contract import Store

__all__ = ["Service", "ServiceOptions"]


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs, whatever its pools."""

    fold_every_s: float = 1.0
    """How often closed windows are folded and probabilities published."""
    commit_every_ms: float = 2.0
    """How long a group commit waits for company."""
    max_waiting: int = 100_000
    """Writes in the queue; beyond it feedback is refused and the oldest decisions are dropped."""
    max_links: int = 20_000
    """Links of one pool, retired ones included."""
    max_pools: int = 1_000
    seed: int | None = None
    """Fixes every page; for tests."""


class Service:
    """Pools, decisions and feedback over one store.

    `now_us` is always an argument: the caller's clock, microseconds since the epoch. Every
    method may be called from any thread.
    """

    def __init__(self, store: Store, options: ServiceOptions | None = None) -> None:
        """Read settings, keys and the last published versions; no decision is read."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread that learns every `fold_every_s` by the system's clock."""
        raise NotImplementedError

    def close(self) -> None:
        """Commit what waits, stop the threads, close the store; afterwards nothing is taken."""
        raise NotImplementedError

    # Pools, links and keys

    def pools(self) -> list[PoolSettings]:
        """Return every pool, archived ones too. Quick."""
        raise NotImplementedError

    def pool(self, pool_id: str) -> PoolSettings:
        """Return a pool, archived or not, or raise `UnknownPool`. Quick."""
        raise NotImplementedError

    def put_pool(self, pool: PoolSettings, by: str, now_us: int) -> Future[PoolSettings]:
        """Create or replace a pool; a pool that was archived runs again.

        Checks every rule that needs no other part of HTTP (windows, floor, policy and its
        settings, holdout) and raises `InvalidInput` at once. Times are set here.
        """
        raise NotImplementedError

    def archive_pool(self, pool_id: str, by: str, now_us: int) -> Future[PoolSettings]:
        """Stop a pool; its history stays and late feedback is still taken."""
        raise NotImplementedError

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool by place, retired ones too. Quick."""
        raise NotImplementedError

    def link(self, pool_id: str, link_id: str) -> LinkRecord:
        """Return one link, retired or not, or raise `UnknownLink`. Quick.

        A retired link is still a redirect's destination: pages with it may be open somewhere.
        """
        raise NotImplementedError

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
        raise NotImplementedError

    def keys(self) -> list[KeyRecord]:
        """Return every key, revoked ones too. Quick."""
        raise NotImplementedError

    def key(self, key_id: str) -> KeyRecord | None:
        """Return a key, revoked or not, or None. Quick."""
        raise NotImplementedError

    def put_key(self, key: KeyRecord, by: str, now_us: int) -> Future[KeyRecord]:
        """Store a new key; an id that is taken raises `Conflict`."""
        raise NotImplementedError

    def revoke_key(self, key_id: str, by: str, now_us: int) -> Future[KeyRecord]:
        """Make a key useless, for good, or raise `UnknownKey`."""
        raise NotImplementedError

    def changes(self, subject: str = "", limit: int = 100) -> list[ChangeRecord]:
        """Return who changed what, newest first, of one subject or of all. Reading."""
        raise NotImplementedError

    # Pages and feedback

    def decide(
        self,
        pool_id: str,
        now_us: int,
        exclude: Sequence[str] = (),
        pin: Sequence[Pin] = (),
        slots: int | None = None,
        decision_id: str | None = None,
    ) -> DecisionRecord:
        """Choose a page from the present version and queue it for the next commit. Quick.

        The same `decision_id` asked again for the same page gets the same answer (looked up
        in memory, then in the store); asked for something else it raises `Conflict`.
        Unknown ids in `exclude` are ignored: a page may know links that are gone.
        Raises `UnknownPool` (also for an archived pool), `UnknownLink` for a pin,
        `InvalidInput` for positions and slots.
        """
        raise NotImplementedError

    def flush(self) -> Future[None]:
        """Finish when everything queued before is committed: `durability = "strict"`."""
        raise NotImplementedError

    def submit_events(self, events: Sequence[Event], now_us: int) -> Future[list[Outcome]]:
        """Record events, one outcome each in the same order, set after their commit.

        Raises `StoreUnavailable`, at once or as the future's error: nothing of the list was
        acknowledged and all of it may be sent again.
        """
        raise NotImplementedError

    def decision(self, decision_id: str) -> DecisionReport:
        """Tell what was shown, received, counted and refused, or raise `UnknownDecision`.

        Reading.
        """
        raise NotImplementedError

    # What was learned

    def learn(self, now_us: int) -> None:
        """Close windows up to now, fold them and publish new versions. Reading, and longer.

        What the learning thread does; a test calls it itself.
        """
        raise NotImplementedError

    def stats(self, pool_id: str) -> PoolReport:
        """Return the statistics of a pool. Reading."""
        raise NotImplementedError

    def frontier(self, pool_id: str) -> FrontierReport:
        """Return the best revenue for every floor, by the present estimates. Reading."""
        raise NotImplementedError

    def explain(self, pool_id: str) -> list[Explanation]:
        """Tell for each active link why it is shown as often as it is. Reading."""
        raise NotImplementedError

    def export(
        self, pool_id: str, since_us: int = 0, until_us: int | None = None
    ) -> Iterator[list[RoundRow]]:
        """Go through the round log in the order of issue, in lists of some thousand. Reading."""
        raise NotImplementedError

    def health(self) -> Health:
        """Tell whether the service can do its work. Quick."""
        raise NotImplementedError
