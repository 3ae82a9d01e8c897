"""Visitors of a pool: what may be said of them, how it is stored and how policies are told.

A pool declares features as JSON. What a caller says of a visitor becomes three things: the values
to store (a label of each feature that is known), the segment (a label of every feature, rare
words being one of them) and the places that a policy takes.

Words of an open list are counted where views are folded, never where pages are decided: learning
depends on the stored rows alone, and a flood of requests that nobody sees moves nothing. A
published version carries the words that were frequent, and its pages know those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from slotwise.errors import InvalidInput
from slotwise.features import (
    DECLARATIONS,
    MAX_LENGTH,
    MAX_VALUES,
    MAX_WORDS,
    NOT_KNOWN,
    RARE,
    SEEN_OFTEN,
    SHARED,
    Bins,
    Feature,
    Features,
    Flag,
    FrequentWords,
    OpenWords,
    may_be_kept,
)
from slotwise.service.limits import MAX_ID_CHARS

TEXT, BOOL = "text", "bool"
_FLAGS = dict.fromkeys(("true", "yes", "1"), True) | dict.fromkeys(("false", "no", "0"), False)
_TYPES: dict[str, Any] = {TEXT: str, BOOL: bool}
_DECLARATIONS = (
    f'a list of 1 to {MAX_VALUES} words or of as many rising numbers, "{TEXT}" or "{BOOL}"'
)


class KnownVisitor(NamedTuple):
    """A visitor as a version knows them."""

    places: tuple[int, ...]
    values: dict[str, str]
    """What is stored of them: known features only."""
    segment: dict[str, str]


NOBODY = KnownVisitor((), {}, {})
"""Every visitor of a pool without features."""
NOTHING_SAID: Mapping[str, Any] = MappingProxyType({})


def declared_features(declared: Mapping[str, Any]) -> Features:
    """Return the features of a pool, or raise `InvalidInput` for the first that breaks a rule."""
    features = {}
    for name, kind in declared.items():
        if len(name) > MAX_ID_CHARS:
            rule = f"named by at most {MAX_ID_CHARS} characters"
            raise InvalidInput.of("features", rule, f"{name[:MAX_ID_CHARS]}...")
        if isinstance(kind, str):
            if kind not in _TYPES:
                raise _refused(InvalidInput.of(f"features[{name!r}]", _DECLARATIONS, kind))
            kind = _TYPES[kind]
        elif isinstance(kind, list | tuple) and any(isinstance(one, bool) for one in kind):
            raise _refused(InvalidInput.of(f"features[{name!r}]", "words or numbers", kind))
        features[name] = kind
    try:
        return Features(features)
    except InvalidInput as error:
        raise _refused(error) from None


def declared_floors(
    floors_by: Mapping[str, Mapping[str, float]], declared: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return the floors of segments by the labels of values, as decisions have them.

    An undeclared feature and a value that it cannot have raise `InvalidInput`.
    """
    features = {one.name: one for one in declared_features(declared).features}
    floors: dict[str, dict[str, float]] = {}
    for name, of_values in floors_by.items():
        if name not in features:
            known = ", ".join(features) or "none is declared"
            raise InvalidInput.of("floors_by", f"by declared features ({known})", name[:100])
        floors[name] = {}
        for value, least in of_values.items():
            label = _declared_value(features[name], value)
            if label in floors[name]:
                raise InvalidInput.of("floors_by", f"one floor for each value of {name}", value)
            floors[name][label] = least
        if isinstance(features[name], OpenWords) and len(floors[name].keys() - SHARED) > MAX_WORDS:
            rule = f"of at most {MAX_WORDS} words of {name}, an open list"
            raise InvalidInput.of("floors_by", rule, len(floors[name]))
    return {name: of_values for name, of_values in floors.items() if of_values}


def _declared_value(feature: Feature, value: str) -> str:
    """Return the label of a value that a feature may have."""
    if isinstance(feature, OpenWords) and value and may_be_kept(value):
        return value
    labels = [label for label in feature.labels() if label]
    if isinstance(feature, Flag) and value.lower() in _FLAGS:
        return str(_FLAGS[value.lower()])
    if value not in labels:
        rule = f"by values of {feature.name} ({', '.join(labels)})"
        if isinstance(feature, OpenWords):
            rule = f"by words of {feature.name} with at most {MAX_LENGTH} printable characters"
        raise InvalidInput.of("floors_by", rule, value[:100])
    return value


def _refused(error: InvalidInput) -> InvalidInput:
    """Return an error about one feature as one about the setting that has it, in JSON's words."""
    return InvalidInput(str(error).replace(DECLARATIONS, _DECLARATIONS), "features")


class VisitorCode:
    """Writes visitors in the declared features of a pool and the frequent words of open lists."""

    def __init__(
        self, declared: Mapping[str, Any], words: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.features = declared_features(declared)
        for name, known in (words or {}).items():
            for feature in self.features.features:
                if feature.name == name and isinstance(feature, OpenWords):
                    feature.frequent = FrequentWords(known)
        self._labels = {
            feature.name: {label: place for place, label in enumerate(feature.labels()) if label}
            for feature in self.features.features
            if not isinstance(feature, OpenWords)
        }

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The frequent words of each open list."""
        return {
            feature.name: tuple(feature.frequent.words)
            for feature in self.features.features
            if isinstance(feature, OpenWords)
        }

    def know(self, said: Mapping[str, Any]) -> KnownVisitor:
        """Return what a caller says of a visitor; nothing is counted.

        An undeclared feature and a value of the wrong type raise `InvalidInput`.
        """
        names = {feature.name for feature in self.features.features}
        for name in said:
            if name not in names:
                known = ", ".join(sorted(names)) or "none is declared"
                raise InvalidInput.of("visitor", f"declared features only ({known})", name[:100])
        places, values, segment = [], {}, {}
        for feature, start in zip(self.features.features, self.features.offsets, strict=True):
            place, stored = self._place(feature, said.get(feature.name))
            if stored is not None:
                values[feature.name] = stored
            places.append(start + place)
            segment[feature.name] = self._label(feature, place)
        return KnownVisitor(tuple(places), values, segment)

    def read(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what is stored of a visitor whose values are texts, as in a table."""
        said: dict[str, Any] = dict(texts)
        labelled = {}
        for feature in self.features.features:
            text = texts.get(feature.name, "").strip()
            if isinstance(feature, Flag) and text.lower() in _FLAGS:
                said[feature.name] = _FLAGS[text.lower()]
            elif isinstance(feature, Bins) and text in self._labels[feature.name]:
                labelled[feature.name] = said.pop(feature.name)
            elif isinstance(feature, Bins) and text:
                with suppress(ValueError):  # what is no number is refused below
                    said[feature.name] = float(text)
        return self.know(said).values | labelled

    def _place(self, feature: Feature, value: Any) -> tuple[int, str | None]:
        """Return the place of a value and what is stored of it."""
        if value is None or value in ("", NOT_KNOWN):
            return 0, None
        if not isinstance(feature, OpenWords):
            try:
                place = feature.place(value)
            except InvalidInput as error:
                raise InvalidInput(str(error), "visitor") from None
            return place, self._label(feature, place) if place else None
        if not isinstance(value, str):
            raise InvalidInput(str(feature.refuse("a word", value)), "visitor")
        if value == RARE or not may_be_kept(value):
            return 1, RARE
        return self._known_word(feature, value), value

    @staticmethod
    def _known_word(feature: OpenWords, word: str) -> int:
        words = feature.frequent.words
        return 2 + words.index(word) if word in words else 1

    @staticmethod
    def _label(feature: Feature, place: int) -> str:
        if isinstance(feature, OpenWords):
            return (NOT_KNOWN, RARE, *feature.frequent.words)[place]
        return feature.labels()[place]

    def places(self, stored: Mapping[str, str], *, is_counted: bool) -> list[int]:
        """Return the places of stored values; a value that is not declared any more is not known.

        Words of open lists are counted where `is_counted`, so that frequent ones get a place.
        """
        places = []
        for feature, start in zip(self.features.features, self.features.offsets, strict=True):
            label = stored.get(feature.name)
            place = 0
            if label is not None and not isinstance(feature, OpenWords):
                place = self._labels[feature.name].get(label, 0)
            elif label is not None and isinstance(feature, OpenWords):
                place = 1
                if label != RARE:
                    place = feature.place(label) if is_counted else self._known_word(feature, label)
            places.append(start + place)
        return places

    def keep_words(self, seen: Iterable[tuple[Mapping[str, str], int]]) -> None:
        """Give the words of open lists that were seen often a place, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        for values, n_seen in seen:
            for value in values.items():
                counts[value] += n_seen
        opened = {one.name: one for one in self.features.features if isinstance(one, OpenWords)}
        for (name, word), n_seen in counts.most_common():
            if n_seen >= SEEN_OFTEN and name in opened and word != RARE:
                opened[name].frequent.keep(word)

    def value_floors(
        self, floors_by: Mapping[str, Mapping[str, float]], n_slots: int
    ) -> tuple[tuple[int, float], ...] | None:
        """Return floors of segments as a policy takes them; a word with a floor gets a place.

        None where an open list has no place left for one. A floor that no page reaches is lowered.
        """
        most = math.nextafter(n_slots, 0.0)
        floors = []
        for name, of_values in floors_by.items():
            for label, least in of_values.items():
                try:
                    place = self.features.place(name, label)
                except InvalidInput:
                    return None
                if least > 0.0:
                    floors.append((place, min(least, most)))
        return tuple(floors)

    def plain(self) -> list[dict[str, Any]]:
        """Return everything there is to save."""
        return self.features.plain()

    def take_words(self, plain: Sequence[Mapping[str, Any]]) -> None:
        """Take over the words and counts that `plain` returned."""
        for feature, one in zip(self.features.features, plain, strict=True):
            if isinstance(feature, OpenWords):
                feature.frequent = FrequentWords(one["words"], one["counts"])
