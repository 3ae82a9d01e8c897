"""What callers say of visitors, read in the words of one version and kept for the next request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slotwise.features import MAX_LENGTH
from slotwise.service.records import PoolSettings
from slotwise.service.visitors import NOBODY, KnownVisitor, VisitorCode

__all__ = ["Guests"]

MAX_KEPT = 2_048


class Guests:
    """The visitors that a version knows; the same words give the same answer."""

    def __init__(self, declared: Mapping[str, Any], words: Mapping[str, Sequence[str]]) -> None:
        self._made_of = (declared, words)
        self._code = VisitorCode(declared, words)
        self.nobody = self._code.know({}) if declared else NOBODY
        self._kept: dict[object, KnownVisitor] = {}

    @classmethod
    def of(
        cls, pool: PoolSettings, words: Mapping[str, Sequence[str]], before: Guests | None
    ) -> Guests:
        """Return those of a pool: the ones of its last version where nothing has changed."""
        if before is not None and before._made_of == (pool.features, words):
            return before
        return cls(pool.features, words)

    def places(self, stored: Mapping[str, str]) -> list[int]:
        """Return the places of values as they are stored."""
        return self._code.places(stored, is_counted=False)

    def know(self, said: Mapping[str, Any]) -> KnownVisitor:
        """Return the visitor, or raise `InvalidInput` for what was not declared. Quick."""
        if not said:
            return self.nobody
        values = said.values()
        # Types count: 1 and True are equal, and only one of them is a bool.
        key = (*said, *values, *map(type, values))
        try:
            known = self._kept.get(key)
        except TypeError:  # a list or an object
            return self._code.know(said)
        if known is None:
            known = self._code.know(said)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            if all(not isinstance(value, str) or len(value) <= MAX_LENGTH for value in values):
                self._kept[key] = known
        return known
