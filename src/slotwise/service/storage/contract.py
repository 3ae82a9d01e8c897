"""The contract of every store: it commits operations and returns readers of what was committed.

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
    """How far the windows of a store are closed and folded."""

    closed_until_us: int = 0
    """Windows up to this time are closed: nothing received from now on can count in them."""
    latest_us: int = 0
    """The latest time of an operation."""
    n_resets: int = 0
    """How often statistics were reset: a fold computed before a reset must not be applied."""
    folded: dict[tuple[str, Level], FoldPosition] = msgspec.field(default_factory=dict)
    """By pool and level."""


NEEDS_NO_ROWS = 2**62
"""Stored for a policy that needs only counters."""


class Learned(msgspec.Struct, frozen=True):
    """What a pool publishes and what its policy needs to continue after a restart."""

    pool_id: str
    version: int
    published: bytes
    """The version, encoded by `slotwise.service.pool_version`."""
    state: bytes = b""
    """The policy's state and its position in the rounds; empty for policies fed by counts."""
    n_resets: int = 0
    """How often statistics of the pool had been reset when this was learned."""
    needs_rows_us: int = NEEDS_NO_ROWS
    """Rows that closed before this time are in the state; later ones must not be purged."""


class ViewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Some views in the order they were stored; no views means that there are no more."""

    views: list[View]
    last: int
    """The position of the last view: the next batch starts after it."""


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One write of a store; its type is sent with it to a process that commits."""


class SavePool(_Operation, frozen=True, kw_only=True):
    """Create or replace a pool; returns whether it was stored.

    The time of the last change is the revision of a pool or link. If `after_us` is given, nothing
    is stored unless it is the revision of the stored pool, 0 for a new one.
    """

    pool: PoolSettings
    change: ChangeRecord
    after_us: int | None = None


class SaveLinks(_Operation, frozen=True, kw_only=True):
    """Create or replace links; those in `reset` lose their counters.

    Returns the links as stored, with the place of each. If `after_us` is given, it has the revision
    of each link, and False is returned and nothing is stored unless all of them are stored.
    """

    links: tuple[LinkRecord, ...]
    changes: tuple[ChangeRecord, ...]
    reset: tuple[str, ...] = ()
    after_us: tuple[int, ...] | None = None


class SaveKey(_Operation, frozen=True, kw_only=True):
    """Create or replace a key."""

    key: KeyRecord
    change: ChangeRecord


class SaveChange(_Operation, frozen=True, kw_only=True):
    """Add a note to the list of changes."""

    change: ChangeRecord


class EndSession(_Operation, frozen=True, kw_only=True):
    """Store that a session was signed out, and drop sessions that have expired."""

    session_id: str
    ends_us: int
    """When the session would have expired."""
    now_us: int


class AppendDecision(_Operation, frozen=True, gc=False):
    """Store a decision; if its id is already stored, nothing changes.

    Made for every page view, therefore with positional arguments and without garbage collection.
    """

    decision: DecisionRecord


class RecordEvent(_Operation, frozen=True, kw_only=True):
    """Judge an event and store it; returns an `Outcome`."""

    event: Event
    received_us: int


class CloseWindows(_Operation, frozen=True, kw_only=True):
    """Guarantee that whatever arrives from now on is judged by a time after `until_us`."""

    until_us: int


class ApplyFold(_Operation, frozen=True, kw_only=True):
    """Add counted views to the counters and move the level's position, or do neither.

    A fold of clicks names every floor of the pool; counts delivered under others are dropped.
    Returns False, and changes nothing, if the position is no longer `after` or statistics were
    reset since `n_resets` was read.
    """

    pool_id: str
    level: Level
    after: FoldPosition
    until: FoldPosition
    n_resets: int
    increment: Counters
    compared_us: int = 0
    """When the own page was last changed: what was compared with another one is dropped."""


class ForgetViews(_Operation, frozen=True, kw_only=True):
    """Exclude the views that a key requested since a time from all counts; returns their number.

    The rows stay. What these views added is subtracted from the counters. In the pools that had
    such views, policies that learn view by view learn again from the remaining views.
    """

    key_id: str
    since_us: int
    change: ChangeRecord


class ExcludeViews(_Operation, frozen=True, kw_only=True):
    """Do not learn the stored views that could be clicked in a span of time; returns their number.

    For clicks that were dropped: views without them would look as if nobody had clicked. All views
    of the span are excluded, since to exclude only those with a dropped click would be a bias, too.
    Views whose click window is closed have been counted and stay.
    """

    from_us: int
    until_us: int


class PurgeViews(_Operation, frozen=True, kw_only=True):
    """Delete raw rows of a pool that closed before a time, a limited number of views per call.

    Only views that are folded at every level, and that the stored state has learned, are deleted,
    with their events; what they added to the counters is stored as purged. Events that have waited
    for their decision since before the time are deleted, too. Returns how many views and waiting
    events were deleted.
    """

    pool_id: str
    before_us: int
    limit: int


class SaveLearned(_Operation, frozen=True, kw_only=True):
    """Replace what a pool has learned and publishes.

    Returns False, and changes nothing, if statistics of the pool were reset since it was learned.
    """

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
    | ExcludeViews
    | PurgeViews
    | SaveLearned
)


class ClicksAfter(NamedTuple):
    """Clicks by link and by whether their window is closed, and open views by link."""

    clicks: list[tuple[str, bool, int]]
    open_views: dict[str, int]


class ShownViews(NamedTuple):
    """What a pool has shown after one position in the store, up to another."""

    until: int
    n_pages: int
    links: dict[str, int]
    """How often each link was shown."""


class ReadableStore(Protocol):
    """Anything that has readers: a store, or the file of one that another process writes."""

    def reading(self) -> AbstractContextManager[StoreReader]:
        """Return a reader of the present state. Close it soon: it blocks the reuse of old pages."""
        ...


class Store(ReadableStore, Protocol):
    """Durable storage of the service.

    One thread of a process writes (`commit`), any thread reads. A store has no clock: operations
    contain their times. Laws, tested for every store by `tests/stores/store_contract.py`:

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
    - while the store is unavailable every call raises `StoreUnavailable`; later calls work
    """

    @property
    def sharing(self) -> PostgresqlSharing | None:
        """Coordinates processes; None for a store that only one process uses."""
        ...

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; return their results, None for most."""
        ...

    def close(self) -> None:
        """Release files and connections; safe to call twice."""
        ...
