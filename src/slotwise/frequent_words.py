"""The words of an open list: the most frequent ones have a place each, all others share one.

Used by `features` and `service`.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_WORDS = 30
"""With "not known" and "rare" an open list takes 32 values."""

MAX_COUNTED = 256
"""Words counted at a time: a word in more than 1/257 of the stream is never lost."""

SEEN_OFTEN = 50
"""A word gets its own place when it was seen this often."""

MAX_MASS = 10_000
"""Counts of a full list are halved when they sum to this, so that they follow the latest views."""

REPLACE_EVERY = 1_000
"""Words counted for each word that is replaced, in the long run; 30 may be replaced at once."""

MAX_LENGTH = 100
"""Longer words are never stored."""


def may_be_kept(word: str) -> bool:
    """Return whether a word may have its own place: it must be short and printable.

    >>> may_be_kept("DE"), may_be_kept(chr(7)), may_be_kept("D" * 101)
    (True, False, False)
    """
    return len(word) <= MAX_LENGTH and word.isprintable()


class FrequentWords:
    """The first `MAX_WORDS` words of a stream that were seen often, each with a place.

    At most `MAX_COUNTED` words are counted at a time. A further word lowers every count by one, so
    counts are never too high, and words that are seen once leave nothing behind.

    Where `replaces` is set, a full list continues to count. A word that was seen often, and twice
    as often as the least frequent word with a place, becomes the `challenger`, and `replace` gives
    it that place. The caller of `replace` must first move what was learned for the place. A word in
    more than 1/32 of the stream is never replaced.

    >>> words = FrequentWords()
    >>> [words.place("DE") for _ in range(60)][-1], words.place("FR"), words.words
    (0, None, ['DE'])
    """

    MAX_BUDGET = MAX_WORDS * REPLACE_EVERY

    def __init__(
        self,
        words: Iterable[str] = (),
        counts: dict[str, int] | None = None,
        budget: int = MAX_BUDGET,
    ) -> None:
        self.words = list(words)
        self.counts = dict(counts or {})
        self.budget = budget
        self.replaces = False
        self.protected: frozenset[str] = frozenset()
        """Words that are never replaced."""
        self.challenger: str | None = None
        self._places = {word: place for place, word in enumerate(self.words)}

    def place(self, word: str) -> int | None:
        """Count `word` once; return its place, or None while it is rare."""
        place = self._places.get(word)
        if len(self.words) == MAX_WORDS:
            if self.replaces and (place is not None or may_be_kept(word)):
                self._count_in_full_list(word)
            return place
        if place is not None or not may_be_kept(word):
            return place
        if word not in self.counts and len(self.counts) == MAX_COUNTED:
            self.counts = {known: n - 1 for known, n in self.counts.items() if n > 1}
            return None
        self.counts[word] = self.counts.get(word, 0) + 1
        return self.keep(word) if self.counts[word] >= SEEN_OFTEN else None

    def keep(self, word: str) -> int | None:
        """Give `word` its own place now; None where all places are taken."""
        if word not in self._places and len(self.words) < MAX_WORDS:
            self._places[word] = len(self.words)
            self.words.append(word)
            self.counts = {} if len(self.words) == MAX_WORDS else self.counts
            self.counts.pop(word, None)
        return self._places.get(word)

    def _count_in_full_list(self, word: str) -> None:
        """Count a word, with or without a place, and find out whether it should have one."""
        counts, places = self.counts, self._places
        if len(counts) < MAX_WORDS:  # full since now, or in a version that did not count on
            self.counts = counts = dict.fromkeys(self.words, SEEN_OFTEN) | counts
        self.budget = min(self.budget + 1, self.MAX_BUDGET)
        if word not in counts and len(counts) == MAX_WORDS + MAX_COUNTED:
            for known in [one for one in counts if one not in places]:
                counts[known] -= 1
                if not counts[known]:
                    del counts[known]
            return
        counts[word] = counts.get(word, 0) + 1
        if sum(counts.values()) >= MAX_MASS:
            halved = {known: n // 2 for known, n in counts.items()}
            self.counts = counts = {one: n for one, n in halved.items() if n or one in places}
        n_seen = counts.get(word, 0)  # 0 if it has just been halved
        if word not in places and n_seen >= SEEN_OFTEN and self.budget >= REPLACE_EVERY:
            weakest = self._weakest()
            if weakest is not None and n_seen >= 2 * counts[weakest]:
                self.challenger = word

    def claim(self, word: str) -> None:
        """Make a word the challenger if all places are taken by others that may be replaced."""
        if word not in self._places and len(self.words) == MAX_WORDS:
            if len(self.counts) < MAX_WORDS:  # in a version that did not count on
                self.counts = dict.fromkeys(self.words, SEEN_OFTEN) | self.counts
            self.counts.setdefault(word, 0)
            self.challenger = word if self._weakest() is not None else None

    def _weakest(self) -> str | None:
        """Return the least frequent word that may be replaced, the first of several."""
        open_to = [word for word in self.words if word not in self.protected]
        return min(open_to, key=self.counts.__getitem__, default=None)

    def replace(self) -> int:
        """Give the challenger the place of the least frequent word, and return that place."""
        word, weakest = self.challenger, self._weakest()
        assert word is not None
        assert weakest is not None  # there was one when the challenger was found
        place = self._places.pop(weakest)
        self.words[place], self._places[word] = word, place
        if not self.counts[weakest]:
            del self.counts[weakest]
        self.budget -= REPLACE_EVERY
        self.challenger = None
        return place
