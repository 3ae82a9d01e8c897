"""Ids of decisions: they sort by time and cannot be guessed."""

from __future__ import annotations

import os

__all__ = ["DecisionIds"]

_RANDOM_BYTES = 8
_BLOCK = 512


class DecisionIds:
    """Makes ids of a time and 64 random bits; not safe for threads by itself.

    Random bits are read from the system for many ids at once, since a call costs more than an id.

    >>> ids = DecisionIds()
    >>> first, second = ids.new(1), ids.new(1)
    >>> len(first), first[:13], first != second
    (29, '0000000000001', True)
    """

    def __init__(self) -> None:
        self._random: list[str] = []

    def new(self, now_us: int) -> str:
        """Return an id for a decision of this time."""
        if not self._random:
            block = os.urandom(_RANDOM_BYTES * _BLOCK)
            self._random = [
                block[start : start + _RANDOM_BYTES].hex()
                for start in range(0, len(block), _RANDOM_BYTES)
            ]
        return f"{now_us:013x}{self._random.pop()}"
