"""What a caller wants of one page, checked against the pool and written in a canonical form.

Used by `api`, `decider`, `installed_version`, `cli` and `reporting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from slotwise.errors import InvalidInput
from slotwise.service.limits import MAX_SLOTS
from slotwise.service.pool import Pool
from slotwise.service.records import Pin
from slotwise.service.refusals import UnknownLink


class PageRequest(NamedTuple):
    """A page as a caller requests it, not checked yet."""

    exclude: Sequence[str] = ()
    """Links that must not be on the page; retired ones may be named."""
    pin: Sequence[Pin] = ()
    slots: int | None = None
    """None: as many as the pool has."""
    decision_id: str | None = None
    """An id of the caller's own: a repeated request with it gets the same page."""
    visitor: Mapping[str, object] = MappingProxyType({})
    visitor_key: str | None = None
    """Visitors with the same key get pages of the same group; it is not stored."""

    @property
    def is_for_any_page(self) -> bool:
        """Whether it differs from `ANY_PAGE` only by the key of the visitor."""
        return self[:-1] == ANY_PAGE[:-1]


ANY_PAGE = PageRequest()
"""The request of most callers."""


class PageConstraints(NamedTuple):
    """A caller's constraints on its page, in addition to the pool's settings."""

    exclude: frozenset[str] = frozenset()
    pinned: tuple[tuple[int, str], ...] = ()
    """Positions and links, by position."""
    slots: int | None = None
    visitor: tuple[int, ...] = ()
    """Places of the visitor's feature values, where pages depend on them."""

    @property
    def is_of_visitor_only(self) -> bool:
        """Whether the page differs from the usual one only by the visitor."""
        return bool(self.visitor) and not self.exclude and not self.pinned and self.slots is None


NO_CONSTRAINTS = PageConstraints()


def checked_constraints(
    pool: Pool, exclude: Sequence[str], pin: Sequence[Pin], slots: int | None
) -> PageConstraints:
    """Return checked constraints, or raise an error; retired links may be excluded."""
    if slots is not None and not 1 <= slots <= MAX_SLOTS:
        raise InvalidInput.of("slots", f"from 1 to {MAX_SLOTS}", slots)
    n_slots = pool.settings.slots if slots is None else slots
    pinned: dict[int, str] = {}
    for item in pin:
        link = pool.links.get(item.link_id)
        if link is None or link.retired:
            raise UnknownLink(f"pool {pool.settings.pool_id!r} shows no link {item.link_id!r}")
        if not 1 <= item.position <= n_slots:
            raise InvalidInput.of("position", f"from 1 to the slots ({n_slots})", item.position)
        if item.position in pinned:
            raise InvalidInput.of("position", "pinned once", item.position)
        if item.link_id in pinned.values():
            raise InvalidInput.of("pin", "different links", item.link_id)
        if item.link_id in exclude:
            raise InvalidInput.of("pin", "links that are not excluded", item.link_id)
        pinned[item.position] = item.link_id
    for link_id in exclude:
        if link_id not in pool.links:
            raise InvalidInput.of("exclude", f"links of pool {pool.settings.pool_id!r}", link_id)
    return PageConstraints(frozenset(exclude), tuple(sorted(pinned.items())), slots)


def canonical_constraints(exclude: Sequence[str], pin: Sequence[Pin], slots: int | None) -> str:
    """Return constraints as JSON; equal constraints give equal text."""
    request: dict[str, object] = {}
    if exclude:
        request["exclude"] = sorted(set(exclude))
    if pin:
        request["pin"] = sorted((item.position, item.link_id) for item in pin)
    if slots is not None:
        request["slots"] = slots
    return msgspec.json.encode(request).decode()
