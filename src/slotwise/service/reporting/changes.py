"""Who changed what, in words that fit into one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slotwise.service.records import SECOND_US, ChangeRecord

__all__ = ["ChangeLine", "FloorStep", "describe_changes", "floor_steps"]

_SILENT = {"changed_us", "created_us", "counted_from_us", "place", "pool_id", "link_id", "known_us"}
_VERBS = {
    "create": "added",
    "change": "changed",
    "retire": "retired",
    "archive": "archived",
    "import": "imported counts of",
}
_TOGETHER_US = 60 * SECOND_US
_MAX_CHARS = 300


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One change, or many alike that were made together."""

    changed_us: int
    changed_by: str
    """The label of the key, or its id where it has none."""
    what: str
    is_marked: bool
    """Whether it is drawn on the charts: a change of settings or links, or a note."""
    note_id: str = ""
    """The note that the line is; empty for a change."""


class FloorStep(msgspec.Struct, frozen=True, kw_only=True):
    """The click floor from a time on."""

    from_us: int
    click_floor: float


def floor_steps(
    pool_id: str, changes: Iterable[ChangeRecord], click_floor: float, since_us: int
) -> tuple[FloorStep, ...]:
    """Return the floors of a pool since a time, oldest first; `click_floor` is the present one."""
    steps: list[FloorStep] = []
    present = click_floor
    for change in sorted(changes, key=lambda one: one.changed_us, reverse=True):
        if change.subject != pool_id or not change.before or change.changed_us <= since_us:
            continue
        before = _fields(change.before).get("click_floor", present)
        if before != present:
            steps.append(FloorStep(from_us=change.changed_us, click_floor=present))
            present = before
    steps.append(FloorStep(from_us=since_us, click_floor=present))
    return tuple(reversed(steps))


def describe_changes(
    pool_id: str,
    changes: Iterable[ChangeRecord],
    names: Mapping[str, str],
    limit: int,
    read_since_us: int = -1,
) -> list[ChangeLine]:
    """Return the changes of a pool and its links, newest first; `names` are the labels of keys.

    Links that one key changed in the same way within a minute share a line. Changes of links
    up to `read_since_us` were not all read: a line that reaches there says so.
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
    return [_line(pool_id, group, names, read_since_us) for group in groups[:limit]]


def _line(
    pool_id: str, group: list[ChangeRecord], names: Mapping[str, str], read_since_us: int
) -> ChangeLine:
    first = group[0]
    kind, _, action = first.action.partition(".")
    verb = _VERBS.get(action, action)
    if len(group) > 1:
        more = " or more" if group[-1].changed_us <= read_since_us else ""
        what = f"{verb} {len(group):,}{more} links"
    else:
        name = "the pool" if kind == "pool" else f"link {first.subject.removeprefix(pool_id + '/')}"
        what = f"{verb} {name}{_differences(first)}"
    return ChangeLine(
        changed_us=first.changed_us,
        changed_by=names.get(first.changed_by) or first.changed_by,
        what=what if len(what) <= _MAX_CHARS else what[:_MAX_CHARS] + "…",
        is_marked=first.action != "pool.create",
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
        case {"views": views, "clicks": clicks, "discount": discount}:
            return f"{views:,} views with {clicks:,} clicks at {discount:g}"
        case dict():
            return ", ".join(f"{name} {_shown(one)}" for name, one in value.items()) or "none"
        case list():
            return ", ".join(map(_shown, value)) or "none"
        case None | "":
            return "none"
    return str(value)
