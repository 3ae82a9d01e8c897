"""The frequent words of a stream, in bounded memory (Misra and Gries 1982)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["FrequentWords", "may_be_kept"]

MAX_WORDS = 30
"""With "not known" and "rare" an open list takes 32 values."""

MAX_COUNTED = 256
"""Words counted at a time: one in more than 1/257 of the stream is never lost."""

SEEN_OFTEN = 50
"""A word gets a place of its own when it was seen so often."""

MAX_LENGTH = 100
"""Longer words are never kept."""


def may_be_kept(word: str) -> bool:
    """Whether a word may have a place of its own; it must be printable, for reports show it.

    >>> may_be_kept("DE"), may_be_kept(chr(7)), may_be_kept("D" * 101)
    (True, False, False)
    """
    return len(word) <= MAX_LENGTH and word.isprintable()


class FrequentWords:
    """The first `MAX_WORDS` words of a stream that were seen often, each with a place for good.

    Words are counted at most `MAX_COUNTED` at a time. A further word takes one from every count,
    so counts are never too high, and a stream of words seen once leaves nothing behind.

    >>> words = FrequentWords()
    >>> [words.place("DE") for _ in range(60)][-1], words.place("FR"), words.words
    (0, None, ['DE'])
    """

    def __init__(self, words: Iterable[str] = (), counts: dict[str, int] | None = None) -> None:
        self.words = list(words)
        self.counts = dict(counts or {})
        self._places = {word: place for place, word in enumerate(self.words)}

    def place(self, word: str) -> int | None:
        """Count `word` once; return its place, or None while it is rare."""
        place = self._places.get(word)
        if place is not None or len(self.words) == MAX_WORDS or not may_be_kept(word):
            return place
        if word not in self.counts and len(self.counts) == MAX_COUNTED:
            self.counts = {known: n - 1 for known, n in self.counts.items() if n > 1}
            return None
        self.counts[word] = self.counts.get(word, 0) + 1
        return self.keep(word) if self.counts[word] >= SEEN_OFTEN else None

    def keep(self, word: str) -> int | None:
        """Give `word` a place of its own now; None where all places are taken."""
        if word not in self._places and len(self.words) < MAX_WORDS:
            self._places[word] = len(self.words)
            self.words.append(word)
            self.counts = {} if len(self.words) == MAX_WORDS else self.counts
            self.counts.pop(word, None)
        return self._places.get(word)
