"""Who changed what, in words that fit into one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slotwise.service.records import SECOND_US, ChangeRecord

__all__ = ["ChangeLine", "describe_changes"]

_SILENT = {"changed_us", "created_us", "counted_from_us", "place", "pool_id", "link_id"}
_VERBS = {"create": "added", "change": "changed", "retire": "retired", "archive": "archived"}
_TOGETHER_US = 60 * SECOND_US
_MAX_CHARS = 300


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One change, or many alike that were made together."""

    changed_us: int
    changed_by: str
    what: str
    is_setting: bool
    """Whether it changed the pool itself: those are drawn on the charts."""


def describe_changes(pool_id: str, changes: Iterable[ChangeRecord], limit: int) -> list[ChangeLine]:
    """Return the changes of a pool and its links, newest first.

    Links that one key changed in the same way within a minute share a line.
    """
    seen = set()
    groups: list[list[ChangeRecord]] = []
    for change in sorted(changes, key=lambda one: one.changed_us, reverse=True):
        about_pool = change.subject == pool_id
        if not about_pool and not change.subject.startswith(f"{pool_id}/"):
            continue
        identity = (change.changed_us, change.action, change.subject)
        if identity in seen:
            continue
        seen.add(identity)
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and not about_pool
            and (last.action, last.changed_by) == (change.action, change.changed_by)
            and last.changed_us - change.changed_us <= _TOGETHER_US
        ):
            groups[-1].append(change)
        else:
            groups.append([change])
    return [_line(pool_id, group) for group in groups[:limit]]


def _line(pool_id: str, group: list[ChangeRecord]) -> ChangeLine:
    first = group[0]
    kind, _, action = first.action.partition(".")
    verb = _VERBS.get(action, action)
    if len(group) > 1:
        what = f"{verb} {len(group):,} links"
    else:
        name = "the pool" if kind == "pool" else f"link {first.subject.removeprefix(pool_id + '/')}"
        what = f"{verb} {name}{_differences(first)}"
    return ChangeLine(
        changed_us=first.changed_us,
        changed_by=first.changed_by,
        what=what if len(what) <= _MAX_CHARS else what[:_MAX_CHARS] + "…",
        is_setting=kind == "pool",
    )


def _differences(change: ChangeRecord) -> str:
    """Say which fields changed, from what to what."""
    if not change.before or not change.after:
        return ""
    before, after = _fields(change.before), _fields(change.after)
    changed = [
        f"{name.replace('_', ' ')} {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in after
        if name not in _SILENT and before.get(name) != after.get(name)
    ]
    return f": {', '.join(changed)}" if changed else ""


def _fields(record: str) -> Mapping[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(record, type=dict)
    return fields


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {"link_id": link_id, "position": position}:
            return f"{link_id} at {position}"
        case dict():
            return ", ".join(f"{name} {_shown(one)}" for name, one in value.items()) or "none"
        case list():
            return ", ".join(map(_shown, value)) or "none"
        case None | "":
            return "none"
    return str(value)
