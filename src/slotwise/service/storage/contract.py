"""What every store is: commits of operations, and a reader of what was committed.

Used by most of the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from slotwise.service.counting.attribution import (
    Counters,
    FoldPosition,
    Level,
    View,
)
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    Event,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql import PostgresqlSharing
    from slotwise.service.storage.sql_reads import StoreReader


class Refusal(msgspec.Struct, frozen=True):
    """An event for a known decision that was not stored, and why."""

    decision_id: str
    kind: Literal["click", "conversion", "adjustment"]
    event_id: str
    reason: str
    link_id: str
    detail: str
    received_us: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the store has come."""

    closed_until_us: int = 0
    """Windows up to here are closed for good: nothing received now can count in them."""
    latest_us: int = 0
    """The latest time that an operation came with."""
    n_resets: int = 0
    """How often statistics were reset: a fold computed before a reset must not be applied."""
    folded: dict[tuple[str, Level], FoldPosition] = msgspec.field(default_factory=dict)
    """By pool and level."""


class Learned(msgspec.Struct, frozen=True):
    """What a pool publishes and what its policy needs to go on after a restart."""

    pool_id: str
    version: int
    published: bytes
    """The version, as `slotwise.service.pool_version` has it."""
    state: bytes = b""
    """The policy's state and its place in the round log; empty for policies fed by counts."""


class ViewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Some views in the order they were stored; no views means that there are no more."""

    views: list[View]
    last: int
    """The place of the last view: the next batch starts after it."""


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One write of a store; its type is sent with it to a process that commits."""


class SavePool(_Operation, frozen=True, kw_only=True):
    """Create or replace a pool."""

    pool: PoolSettings
    change: ChangeRecord


class SaveLinks(_Operation, frozen=True, kw_only=True):
    """Create or replace links; those in `reset` lose their counters.

    Answers the links as stored: with the place of each.
    """

    links: tuple[LinkRecord, ...]
    changes: tuple[ChangeRecord, ...]
    reset: tuple[str, ...] = ()


class SaveKey(_Operation, frozen=True, kw_only=True):
    """Create or replace a key."""

    key: KeyRecord
    change: ChangeRecord


class SaveChange(_Operation, frozen=True, kw_only=True):
    """Add to the list of changes what is stored nowhere else: a note."""

    change: ChangeRecord


class EndSession(_Operation, frozen=True, kw_only=True):
    """Store that a session was signed out of, and drop those that have ended anyway."""

    session_id: str
    ends_us: int
    """When the session would have ended at the latest."""
    now_us: int


class AppendDecision(_Operation, frozen=True, gc=False):
    """Store a decision; an id that is there already changes nothing.

    Made for every page view: by position and without garbage collection.
    """

    decision: DecisionRecord


class RecordEvent(_Operation, frozen=True, kw_only=True):
    """Judge an event and store it; answers an `Outcome`."""

    event: Event
    received_us: int


class CloseWindows(_Operation, frozen=True, kw_only=True):
    """Promise that what arrives from now on is judged by a time after `until_us`."""

    until_us: int


class ApplyFold(_Operation, frozen=True, kw_only=True):
    """Add counted views to the counters and move the level's position, or do neither.

    A fold of clicks names every floor of the pool; what was delivered under others is dropped.

    Answers False, and changes nothing, when the position is not at `after` any more or
    statistics were reset since `n_resets` was read.
    """

    pool_id: str
    level: Level
    after: FoldPosition
    until: FoldPosition
    n_resets: int
    increment: Counters


class ForgetViews(_Operation, frozen=True, kw_only=True):
    """Exclude the views that a key requested since a time from all counts; answers how many.

    The rows stay. Counters lose what these views added, and policies that learn view by view
    learn again from the views that are left.
    """

    key_id: str
    since_us: int
    change: ChangeRecord


class PurgeViews(_Operation, frozen=True, kw_only=True):
    """Drop raw rows of a pool that closed before a time, a limited number of views at once.

    Only views go that are folded at every level, with their events; what they added to the
    counters is kept as purged. Events that have waited for their decision since before the time
    go, too. Answers how many views and waiting events were dropped.
    """

    pool_id: str
    before_us: int
    limit: int


class SaveLearned(_Operation, frozen=True, kw_only=True):
    """Replace what a pool has learned and publishes."""

    learned: Learned


Operation = (
    SavePool
    | SaveLinks
    | SaveKey
    | SaveChange
    | EndSession
    | AppendDecision
    | RecordEvent
    | CloseWindows
    | ApplyFold
    | ForgetViews
    | PurgeViews
    | SaveLearned
)


class ClicksAfter(NamedTuple):
    """Clicks on links, whether their window is closed, and views of links that are open."""

    clicks: list[tuple[str, bool, int]]
    open_views: dict[str, int]


class ShownViews(NamedTuple):
    """What a pool has shown after one place in the store, up to another."""

    until: int
    n_pages: int
    links: dict[str, int]
    """How often each link was shown."""


class ReadableStore(Protocol):
    """Anything that has readers: a store, or the file of one that another process writes."""

    def reading(self) -> AbstractContextManager[StoreReader]:
        """Return a reader of this moment. Leave it soon: it keeps old pages of the file alive."""
        ...


class Store(ReadableStore, Protocol):
    """Where the service keeps what it must not lose.

    One thread of a process writes (`commit`), any thread reads. A store has no clock: times come
    with the operations. Laws, tested for every store by `tests/stores/store_contract.py`:

    - `commit` is all or nothing and durable when it returns; its results are in order, and a
      later operation of a batch sees the earlier ones
    - committing the same decisions and events again changes no row and no counter; the
      events answer `duplicate`
    - events are judged by `slotwise.service.counting.attribution`, in whatever order and grouping
      into batches they arrive
    - received times never run backwards in the order of one process's commits: an event is stored
      with the latest time that the process stored when its own is earlier
    - after `CloseWindows(t)` nothing is stored as received at or before t, and a decision
      whose click window closed by t is stored with `learned=False`; both hold after a crash
    - a fold moves its position and its counters together, once
    - every counter equals what `slotwise.service.storage.verify` recomputes from the rows, plus
      what was purged; purging changes no counter
    - reads see whole commits only
    - all of this holds with several processes on a store whose `sharing` is set
    - when the store is away every call raises `StoreUnavailable`; a call made after it is back
      works
    """

    @property
    def sharing(self) -> PostgresqlSharing | None:
        """What coordinates processes; None for a store that one process has for itself."""
        ...

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        ...

    def close(self) -> None:
        """Release files and connections; safe to call twice."""
        ...
