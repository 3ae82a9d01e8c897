"""What every store is: commits of operations, and a reader of what was committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

import msgspec

from slotwise.service.counting.attribution import (
    Counters,
    FoldPosition,
    Level,
    StoredEvent,
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
from slotwise.service.storage.activity import Activity


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
    """The published snapshot, as `slotwise.service.published_version` has it."""
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
    """Let the views that a key proposed since a time count no more; answers their number.

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


class StoreReader(Protocol):
    """The reads of a store at one moment: all of them see the same commits, each one whole."""

    def pools(self) -> list[PoolSettings]:
        """Return every pool, by id."""
        ...

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool, by place."""
        ...

    def reset_times(self, pool_id: str) -> dict[str, int]:
        """Return `counted_from_us` of the links whose statistics were ever reset."""
        ...

    def keys(self) -> list[KeyRecord]:
        """Return every key, by id."""
        ...

    def changes(self, subject: str, limit: int) -> list[ChangeRecord]:
        """Return changes of a subject (`home/`: of all below `home`, "": of all), newest first."""
        ...

    def progress(self) -> Progress:
        """Return how far windows are closed and folded."""
        ...

    def moving_from(self) -> str:
        """Return from where the store is still being filled by a move, or nothing."""
        ...

    def counters(self, pool_id: str) -> Counters:
        """Return the counters of a pool."""
        ...

    def purged(self, pool_id: str) -> Counters:
        """Return what dropped views had added to the counters of a pool."""
        ...

    def purgeable_views(self, pool_id: str, before_us: int, limit: int) -> list[View]:
        """Return the first views that closed before a time and are folded at every level."""
        ...

    def learned(self, pool_id: str) -> Learned | None:
        """Return what the pool published last."""
        ...

    def learned_versions(self) -> dict[str, int]:
        """Return the number of the version that each pool published last."""
        ...

    def changed_since(self, after: int) -> tuple[int, list[str]]:
        """Return the place of the newest change, and the subjects of those after a place."""
        ...

    def ended_sessions(self, after: int) -> tuple[int, list[tuple[str, int]]]:
        """Return the place of the newest, and id and latest end of those stored after a place."""
        ...

    def decision(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision by its id."""
        ...

    def view(self, decision_id: str) -> View | None:
        """Return a decision with what was received for it."""
        ...

    def refusals(self, decision_id: str) -> list[Refusal]:
        """Return the events refused for a decision, in order of arrival."""
        ...

    def closed_views(
        self, pool_id: str, level: Level, after: FoldPosition, until_us: int, limit: int
    ) -> list[View]:
        """Return views that learn and closed at this level by `until_us`, in folding order.

        Folding order is the time of closing, then the decision id; the first `limit` views
        after the position `after`.
        """
        ...

    def views_after(
        self, pool_id: str, since_us: int, until_us: int | None, after: int, limit: int
    ) -> ViewBatch:
        """Return the next views issued in [since, until), in the order they were stored.

        `after` is 0 at first, then the `last` of the batch before.
        """
        ...

    def decisions_after(self, after: int, limit: int) -> list[tuple[int, DecisionRecord]]:
        """Return the next decisions of all pools with their places, in the order of storing.

        What is stored after windows were closed has a later place than all that was before.
        """
        ...

    def place_of(self, decision_id: str) -> int:
        """Return the place of a decision, 0 where it is not stored."""
        ...

    def first_received(self, since_us: int) -> int | None:
        """Return the time of the first event received at or after a time. Reads all events."""
        ...

    def received_between(self, since_us: int, until_us: int) -> Iterator[list[StoredEvent]]:
        """Go through the events received in [since, until), in no order, some at a time.

        Reads all events; the reader must stay open meanwhile.
        """
        ...

    def shown_since(self, pool_id: str, after: int) -> ShownViews:
        """Return the place of the newest view of all, and how often each link is on those after.

        Views that another process is just storing may be left out.
        """
        ...

    def clicks_after(
        self, pool_id: str, since_us: int, after_us: int, closed_until_us: int
    ) -> ClicksAfter:
        """Return the clicks of views issued since a time whose window closes after another.

        And how often each link was shown on those whose window is open.
        """
        ...

    def late_views(self, pool_id: str) -> Iterator[list[View]]:
        """Go through the views with an event that came after its window, some at a time."""
        ...

    def damage(self) -> str:
        """Return what the database finds wrong with its own files, or nothing."""
        ...

    def n_quarantined(self) -> int:
        """Count the events that wait for their decision or conversion."""
        ...

    def activity(self, pool_id: str, since_us: int, span_us: int, closed_until_us: int) -> Activity:
        """Sum up the pages shown since a time; windows after `closed_until_us` are open."""
        ...


class Sharing(Protocol):
    """What this process agrees on with others that have the same store open.

    At most one of them has the newest epoch: it learns. Its writes (`CloseWindows`, `ApplyFold`,
    `SaveLearned`, `PurgeViews`) name the epoch in `used_epoch`, and the store raises `Superseded`
    where there is a newer one.
    """

    epoch: int | None
    """The epoch of this process, None while another one learns."""
    used_epoch: int | None

    def wall_us(self) -> int:
        """Return the time of day by the one clock that all of them use."""
        ...

    def starting(self) -> AbstractContextManager[None]:
        """Keep others from making what a first start makes."""
        ...

    def start(self, told: Callable[[], None]) -> None:
        """Stand for election; `told` is called when another process may have changed something."""
        ...


class Store(Protocol):
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
      with the latest time that the process told the store when its own is earlier
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
    def sharing(self) -> Sharing | None:
        """What coordinates processes; None for a store that one process has for itself."""
        ...

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        """Apply all operations in one transaction; None unless the operation answers."""
        ...

    def reading(self) -> AbstractContextManager[StoreReader]:
        """Return a reader of this moment. Leave it soon: it keeps old pages of the file alive."""
        ...

    def check(self) -> None:
        """Raise `StoreUnavailable` when the store cannot be written."""
        ...

    def close(self) -> None:
        """Release files and connections; safe to call twice."""
        ...
