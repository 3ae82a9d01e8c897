"""What can be asked of a store: the writes of a group commit and the rows that reads return."""

from __future__ import annotations

from typing import Literal

import msgspec

from slotwise.service.counting.views import Counters, Level, View
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    Event,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)

__all__ = [
    "FOLD_START",
    "AppendDecision",
    "ApplyFold",
    "CloseWindows",
    "FoldPosition",
    "ForgetViews",
    "Learned",
    "Operation",
    "Progress",
    "PurgeViews",
    "RecordEvent",
    "Refusal",
    "SaveChange",
    "SaveKey",
    "SaveLearned",
    "SaveLinks",
    "SavePool",
    "ViewBatch",
]


class FoldPosition(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """How far one level of a pool is folded: the last view, in order of closing, then of id."""

    closes_us: int
    decision_id: str


FOLD_START = FoldPosition(closes_us=0, decision_id="")


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
    """The published snapshot, as `slotwise.service.published` has it."""
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
    """Add to the list of changes what is stored nowhere else: a note, the end of a session."""

    change: ChangeRecord


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
    | AppendDecision
    | RecordEvent
    | CloseWindows
    | ApplyFold
    | ForgetViews
    | PurgeViews
    | SaveLearned
)
