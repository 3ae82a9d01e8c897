"""The errors that the service raises below HTTP.

    SlotwiseError
    ├── StoreUnavailable  (ConnectionError)  the store is unavailable; try again later
    │   └── StoreInUse                       another process writes the store
    ├── ExportFailed      (OSError)          the folder of an export cannot be used
    ├── Superseded        (RuntimeError)     another replica learns now; read the store again
    ├── UnreadableState   (ValueError)       what a pool has learned cannot be restored
    ├── UnknownPool       (LookupError)      no such pool, or it is archived
    ├── UnknownLink       (LookupError)      no such link in the pool, or it is retired
    ├── UnknownKey        (LookupError)      no such key
    ├── UnknownNote       (LookupError)      no such note on the pool
    ├── UnknownReceiver   (LookupError)      no such receiver of alerts
    ├── Conflict          (ValueError)       the id is taken by something else
    ├── Outdated          (ValueError)       somebody else changed it since it was read
    └── LimitReached      (ValueError)       a limit of the service, named with its number

A broken rule of an argument is `slotwise.errors.InvalidInput`, an unknown decision
`slotwise.errors.UnknownDecision`. Used by most of the service.
"""

from __future__ import annotations

from slotwise.errors import SlotwiseError


class StoreUnavailable(SlotwiseError, ConnectionError):
    """The store is unavailable: nothing was acknowledged, and the call may be repeated."""

    retry_after_s = 1
    """How long a caller should wait."""


class StoreInUse(StoreUnavailable):
    """Another process writes the store, as a running service does."""


class ExportFailed(SlotwiseError, OSError):
    """The folder of an export cannot be read or written; the next run continues from there."""


class Superseded(SlotwiseError, RuntimeError):
    """Another replica took over learning: this write was not stored."""


class UnreadableState(SlotwiseError, ValueError):
    """What a pool has learned cannot be restored: it must not be replaced either."""


class UnknownPool(SlotwiseError, LookupError):
    """No such pool, or it is archived."""


class UnknownLink(SlotwiseError, LookupError):
    """No such link in the pool, or it is retired."""


class UnknownKey(SlotwiseError, LookupError):
    """No such API key."""


class UnknownNote(SlotwiseError, LookupError):
    """No such note on the pool."""


class UnknownReceiver(SlotwiseError, LookupError):
    """No such receiver of alerts."""


class Conflict(SlotwiseError, ValueError):
    """The id is taken by something with other content."""


class Outdated(SlotwiseError, ValueError):
    """Somebody else changed the pool or link since the caller read it; nothing was stored."""


class LimitReached(SlotwiseError, ValueError):
    """A limit of the service; the message has its name and number."""


def describe_unreadable(reason: str) -> str:
    """Return a sentence on what happens where a state cannot be read, and what to do."""
    return (
        f"What the pool has learned cannot be read ({reason}), and rows that it was learned from "
        "were purged. The pool shows its last version, and what is stored stays as it is. Start "
        "the version of slotwise that wrote it, or reset the statistics of all links of the pool "
        "to start over."
    )
