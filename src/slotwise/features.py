"""Visitor features: what is known of a visitor, encoded as a small array of whole numbers.

Every feature has a bounded number of values. All values of all features are in one list, and a
visitor is encoded as one place in it for each feature. The first value of a feature means "not
known". Used by most of the package.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, is_finite_number
from slotwise.frequent_words import MAX_LENGTH, MAX_WORDS, SEEN_OFTEN, FrequentWords, may_be_kept

# Limits of features, for the library and the service.


MAX_FEATURES = 16
MAX_VALUES = 64
"""The most words of a closed list, and the most bin edges."""

__all__ = ["NOT_KNOWN", "RARE", "Feature", "Features", "Visitor", "declarations"]

Visitor = NDArray[np.int64]
"""The values of all features of one visitor, as whole numbers in the order of the features."""

NOT_KNOWN = "(not known)"
"""The value of a feature that a visitor does not have."""
RARE = "(rare)"
"""The value of a word that has not been seen often yet."""

SHARED = {"": 0, NOT_KNOWN: 0, RARE: 1}
"""Labels of values that many words share: as a word each means that value."""

FLAGS = dict.fromkeys(("true", "yes", "1"), True) | dict.fromkeys(("false", "no", "0"), False)
"""What a flag may be called in a table, and in the floors of a pool."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
RESERVED = frozenset(
    {"all", "clicks", "link", "revenue", "segment", "share", "slot", "views", "visitor"}
)
"""Names that mean something else in reports and records."""


class Feature:
    """One feature of a visitor: a place for every value, a label for every place."""

    kind: str
    declaration: Any

    def __init__(self, name: str, declaration: object) -> None:
        self.name = name
        self.declaration = declaration

    @property
    def n_values(self) -> int:
        """How many values there are, "not known" among them."""
        return len(self.labels())

    def labels(self) -> list[str]:
        """Return the label of every value."""
        raise NotImplementedError

    def place(self, value: object) -> int:
        """Return the place of a value that was given; a word of an open list is counted."""
        raise NotImplementedError

    def known_place(self, value: object) -> tuple[int, str | None]:
        """Return the place of a value and the label to store; nothing is counted."""
        place = self.place(value)
        return place, self.labels()[place] if place else None

    def read(self, text: str) -> object:
        """Return the value that a text in a table means."""
        return text

    def checked_label(self, value: str) -> str:
        """Return the label of a value that has a floor."""
        labels = [label for label in self.labels() if label]
        if value not in labels:
            rule = f"by values of {self.name} ({', '.join(labels)})"
            raise InvalidInput.of("segment_floors", rule, value[:100])
        return value

    def plain(self) -> dict[str, Any]:
        """Return everything to save, as plain values."""
        return {"name": self.name, "kind": self.kind}

    def refuse(self, rule: str, value: object) -> InvalidInput:
        """Return the error for a value of the wrong type."""
        shown = value if len(repr(value)) <= 100 else f"{repr(value)[:100]}..."
        return InvalidInput.of(f"visitor[{self.name!r}]", f"{rule} or None", shown)


class Words(Feature):
    """A closed list of words; every other word is "not known"."""

    kind = "words"

    def __init__(self, name: str, words: tuple[str, ...]) -> None:
        super().__init__(name, words)
        self.words = words
        self._places = {word: place for place, word in enumerate(words, 1)}

    def labels(self) -> list[str]:
        return [NOT_KNOWN, *self.words]

    def place(self, value: object) -> int:
        if not isinstance(value, str):
            raise self.refuse("a word", value)
        return self._places.get(value, 0)

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "words": list(self.words)}


class Values(Words):
    """A closed list of which every visitor has one value, as in simulations."""

    kind = "values"

    def labels(self) -> list[str]:
        return list(self.words)

    def place(self, value: object) -> int:
        return self.words.index(value)


class OpenWords(Feature):
    """A list that grows: a word shares the value "rare" until it was seen often."""

    kind = "open"

    def __init__(self, name: str, frequent: FrequentWords) -> None:
        super().__init__(name, str)
        self.frequent = frequent

    def labels(self) -> list[str]:
        words = self.frequent.words
        return [NOT_KNOWN, RARE, *words, *[""] * (MAX_WORDS - len(words))]

    def place(self, value: object) -> int:
        if not isinstance(value, str):
            raise self.refuse("a word", value)
        if value in SHARED:
            return SHARED[value]
        place = self.frequent.place(value)
        return 1 if place is None else 2 + place

    def known_place(self, value: object) -> tuple[int, str | None]:
        if not isinstance(value, str):
            raise self.refuse("a word", value)
        if value == RARE or not may_be_kept(value):
            return 1, RARE
        words = self.frequent.words
        return 2 + words.index(value) if value in words else 1, value

    def checked_label(self, value: str) -> str:
        if value and may_be_kept(value):
            return value
        if value not in (NOT_KNOWN, RARE):
            rule = f"by words of {self.name} with at most {MAX_LENGTH} printable characters"
            raise InvalidInput.of("segment_floors", rule, value[:100])
        return value

    def plain(self) -> dict[str, Any]:
        frequent = self.frequent
        kept: dict[str, Any] = {"words": frequent.words, "counts": frequent.counts}
        if frequent.budget < frequent.MAX_BUDGET:
            kept["budget"] = frequent.budget
        return {**super().plain(), **kept}


class Flag(Feature):
    """True, False or not known."""

    kind = "bool"

    def labels(self) -> list[str]:
        return [NOT_KNOWN, "False", "True"]

    def place(self, value: object) -> int:
        if not isinstance(value, bool | np.bool_):
            raise self.refuse("True, False", value)
        return 1 + int(value)

    def read(self, text: str) -> object:
        return FLAGS.get(text.strip().lower(), text)

    def checked_label(self, value: str) -> str:
        return super().checked_label(str(FLAGS.get(value.lower(), value)))


class Bins(Feature):
    """Numbers in bins between the edges; NaN counts as not known."""

    kind = "bins"

    def __init__(self, name: str, edges: tuple[float, ...]) -> None:
        super().__init__(name, edges)
        self.edges = edges

    def labels(self) -> list[str]:
        bounds = [f"{edge:g}" for edge in self.edges]
        between = [f"{low} to {high}" for low, high in pairwise(bounds)]
        return [NOT_KNOWN, f"below {bounds[0]}", *between, f"from {bounds[-1]}"]

    def place(self, value: Any) -> int:
        if isinstance(value, bool | str) or not hasattr(value, "__float__"):
            raise self.refuse("a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return 0 if math.isnan(number) else 1 + bisect_right(self.edges, number)

    def read(self, text: str) -> object:
        with suppress(ValueError):  # what is no number is refused later
            return float(text)
        return text

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "edges": list(self.edges)}


TEXT, BOOL = "text", "bool"
JSON_TYPES: dict[str, Any] = {TEXT: str, BOOL: bool}
"""What `str` and `bool` are called in JSON."""

DECLARATIONS = f"str, bool, a tuple of 1 to {MAX_VALUES} words or of as many rising numbers"
"""What may be declared for a feature, in Python."""


def _declared(name: object, declaration: object) -> Feature:
    """Return the feature that a declaration means."""
    where = f"features[{name!r}]"
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
        taken = ", ".join(sorted(RESERVED))
        rule = f"named by a letter and up to 39 letters, digits or underscores, and not {taken}"
        raise InvalidInput.of("features", rule, name)
    if declaration is str:
        return OpenWords(name, FrequentWords())
    if declaration is bool:
        return Flag(name, bool)
    rule = DECLARATIONS
    if not isinstance(declaration, tuple | list) or not 1 <= len(declaration) <= MAX_VALUES:
        raise InvalidInput.of(where, rule, declaration)
    values = tuple(declaration)
    if all(isinstance(value, str) and len(value) <= 100 for value in values):
        if len(set(values)) < len(values) or not SHARED.keys().isdisjoint(values):
            rule = f"different words other than {', '.join(map(repr, SHARED))}"
            raise InvalidInput.of(where, rule, declaration)
        return Words(name, values)
    if not all(is_finite_number(value) for value in values) or list(values) != sorted(set(values)):
        raise InvalidInput.of(where, rule, declaration)
    return Bins(name, tuple(float(value) for value in values))


class KnownVisitor(NamedTuple):
    """A visitor as a version of a pool knows them."""

    places: tuple[int, ...]
    values: dict[str, str]
    """What is stored of them: the labels of known features only."""
    segment: dict[str, str]
    """The label of every feature, rare words being one of them."""


class Features:
    """The features that a program declares; encodes visitors.

    `str` declares a list of words that grows up to a bound, `bool` a flag, a tuple of words a
    closed list and a tuple of rising numbers the edges of bins.

    >>> features = Features({"device": ("phone", "desktop"), "days_since_visit": (1, 7, 30)})
    >>> features.encode({"device": "phone", "days_since_visit": 9}).tolist()
    [1, 6]
    >>> features.describe(features.encode({"days_since_visit": 9}))
    {'device': '(not known)', 'days_since_visit': '7 to 30'}
    >>> features.encode({"browser": "lynx"})
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `visitor` must be declared features only ...
    """

    def __init__(self, declarations: Mapping[str, object]) -> None:
        if not isinstance(declarations, Mapping) or len(declarations) > MAX_FEATURES:
            rule = f"a mapping of at most {MAX_FEATURES} names to what they may be"
            raise InvalidInput.of("features", rule, declarations)
        self._set([_declared(name, declared) for name, declared in declarations.items()])

    def _set(self, features: list[Feature]) -> None:
        self.features = tuple(features)
        self.sizes = tuple(feature.n_values for feature in features)
        self.offsets = tuple(int(start) for start in np.cumsum((0, *self.sizes))[:-1])
        self._names = frozenset(feature.name for feature in features)
        self._of_labels = {
            feature.name: {label: place for place, label in enumerate(feature.labels()) if label}
            for feature in features
            if not isinstance(feature, OpenWords)
        }

    @classmethod
    def of_json(
        cls, declared: Mapping[str, object], words: Mapping[str, Sequence[str]] | None = None
    ) -> Features:
        """Return features that are declared in JSON's words, as those of a pool are.

        `words` are the frequent words of open lists.

        >>> Features.of_json({"device": ["phone"], "country": "text", "new": "bool"}).sizes
        (2, 32, 3)
        """
        kinds = {}
        for name, kind in declared.items():
            if len(name) > MAX_LENGTH:
                rule = f"named by at most {MAX_LENGTH} characters"
                raise InvalidInput.of("features", rule, f"{name[:MAX_LENGTH]}...")
            if isinstance(kind, str):
                if kind not in JSON_TYPES:
                    raise _in_json(InvalidInput.of(f"features[{name!r}]", DECLARATIONS, kind))
                kind = JSON_TYPES[kind]
            elif isinstance(kind, list | tuple) and any(isinstance(one, bool) for one in kind):
                raise _in_json(InvalidInput.of(f"features[{name!r}]", "words or numbers", kind))
            kinds[name] = kind
        try:
            features = cls(kinds)
        except InvalidInput as error:
            raise _in_json(error) from None
        for feature in features.features:
            if isinstance(feature, OpenWords):
                feature.frequent = FrequentWords((words or {}).get(feature.name, ()))
        return features

    @classmethod
    def of_values(cls, values: Mapping[str, Sequence[str]]) -> Features:
        """Return features of which every visitor has a value; none is "not known".

        >>> Features.of_values({"device": ["phone", "desktop"]}).sizes
        (2,)
        """
        features = cls({})
        features._set([Values(name, tuple(labels)) for name, labels in values.items()])
        return features

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self._declared == other._declared

    def __hash__(self) -> int:
        return hash(self._declared)

    def __repr__(self) -> str:
        return repr(declarations(self))

    @property
    def _declared(self) -> tuple[object, ...]:
        return tuple((one.kind, one.name, one.declaration) for one in self.features)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The frequent words of each open list."""
        return {
            feature.name: tuple(feature.frequent.words)
            for feature in self.features
            if isinstance(feature, OpenWords)
        }

    def encode(self, visitor: Mapping[str, object] | None = None) -> Visitor:
        """Return the place of each feature's value; a value of an open list is counted once.

        A feature that is missing, None or NaN is not known; so is a word outside a closed list.
        """
        visitor = {} if visitor is None else visitor
        if not isinstance(visitor, Mapping):
            raise InvalidInput.of("visitor", "a mapping of features to values", visitor)
        if not visitor.keys() <= self._names:
            unknown = next(name for name in visitor if name not in self._names)
            known = ", ".join(feature.name for feature in self.features) or "none is declared"
            raise InvalidInput.of("visitor", f"declared features only ({known})", unknown)
        places = np.array(self.offsets, np.int64)
        for k, feature in enumerate(self.features):
            value = visitor.get(feature.name)
            if value is not None:
                places[k] += feature.place(value)
        return places

    def unknown_words(
        self, visitor: Mapping[str, object], places: Visitor
    ) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield feature, value and known words for values outside a closed list of words."""
        for feature, start, place in zip(self.features, self.offsets, places, strict=True):
            if place == start and isinstance(feature, Words):
                value = visitor.get(feature.name)
                if isinstance(value, str) and value and value not in (NOT_KNOWN, *feature.words):
                    yield feature.name, value, feature.words

    def know(self, visitor: Mapping[str, object]) -> KnownVisitor:
        """Return a caller's visitor with the words known now; nothing is counted."""
        if not visitor.keys() <= self._names:
            unknown = next(name for name in visitor if name not in self._names)
            known = ", ".join(sorted(self._names)) or "none is declared"
            raise InvalidInput.of("visitor", f"declared features only ({known})", unknown[:100])
        places, values, segment = [], {}, {}
        for feature, start in zip(self.features, self.offsets, strict=True):
            value, place = visitor.get(feature.name), 0
            if not (value is None or value in ("", NOT_KNOWN)):
                try:
                    place, stored = feature.known_place(value)
                except InvalidInput as error:
                    raise InvalidInput(str(error), "visitor") from None
                if stored is not None:
                    values[feature.name] = stored
            places.append(start + place)
            segment[feature.name] = feature.labels()[place]
        return KnownVisitor(tuple(places), values, segment)

    def read(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what is stored of a visitor whose values are texts, as in a table."""
        values: dict[str, Any] = dict(texts)
        labelled = {}
        for feature in self.features:
            text = texts.get(feature.name)
            if text is not None:
                values[feature.name] = feature.read(text)
                if isinstance(feature, Bins) and text.strip() in self._of_labels[feature.name]:
                    labelled[feature.name] = values.pop(feature.name)
        return self.know(values).values | labelled

    def stored_places(self, stored: Mapping[str, str], *, is_counted: bool) -> list[int]:
        """Return the places of stored labels; one that is not declared any more is not known.

        Words of open lists are counted where `is_counted`, so that frequent ones get a place.
        """
        places = []
        for feature, start in zip(self.features, self.offsets, strict=True):
            label = stored.get(feature.name)
            place = 0
            if label is not None and not isinstance(feature, OpenWords):
                place = self._of_labels[feature.name].get(label, 0)
            elif label is not None:
                counts = is_counted and label != RARE
                place = feature.place(label) if counts else feature.known_place(label)[0]
            places.append(start + place)
        return places

    def keep_words(self, seen: Iterable[tuple[Mapping[str, str], int]]) -> None:
        """Give the words of open lists that were seen often a place, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        for values, n_seen in seen:
            for value in values.items():
                counts[value] += n_seen
        opened = {one.name: one for one in self.features if isinstance(one, OpenWords)}
        for (name, word), n_seen in counts.most_common():
            if n_seen >= SEEN_OFTEN and name in opened and word != RARE:
                opened[name].frequent.keep(word)

    def let_words_be_replaced(self, protected: Iterable[int]) -> None:
        """Let full open lists find words to replace, except those at protected places."""
        names: dict[str, set[str]] = {}
        for place in protected:
            name, label = self.label(place)
            names.setdefault(name, set()).add(label)
        for feature in self.features:
            if isinstance(feature, OpenWords):
                feature.frequent.replaces = True
                feature.frequent.protected = frozenset(names.get(feature.name, ()))

    def claim_place(self, name: str, word: str) -> None:
        """Let a word wait for a place, however rare it is, if its list is full."""
        for feature in self.features:
            if feature.name == name and isinstance(feature, OpenWords):
                feature.frequent.claim(word)

    @property
    def has_challenger(self) -> bool:
        """Whether a word of an open list is waiting for a place."""
        return any(
            isinstance(feature, OpenWords) and feature.frequent.challenger is not None
            for feature in self.features
        )

    def replace_words(self) -> list[tuple[int, int]]:
        """Give words that are waiting a place; return each such place and that of rare words.

        Visitors with the replaced words count as visitors with rare words.
        """
        return [
            (start + 2 + feature.frequent.replace(), start + SHARED[RARE])
            for feature, start in zip(self.features, self.offsets, strict=True)
            if isinstance(feature, OpenWords) and feature.frequent.challenger is not None
        ]

    def describe(self, visitor: Visitor) -> dict[str, str]:
        """Return the label of each feature's value."""
        rows = zip(self.features, self.offsets, visitor.tolist(), strict=True)
        return {feature.name: feature.labels()[place - start] for feature, start, place in rows}

    def label(self, place: int) -> tuple[str, str]:
        """Return the feature and the label of one place in the list of all values."""
        k = bisect_right(self.offsets, place) - 1
        return self.features[k].name, self.features[k].labels()[place - self.offsets[k]]

    def place(self, name: str, value: Any) -> int:
        """Return the place of one value by its label; a word of an open list gets one for good."""
        for feature, start in zip(self.features, self.offsets, strict=True):
            if feature.name == name:
                is_word = isinstance(value, str) and value not in SHARED
                if isinstance(feature, OpenWords) and is_word:
                    feature.frequent.keep(value)
                labels = feature.labels()
                if str(value) and str(value) in labels:
                    return start + labels.index(str(value))
                known = ", ".join(label for label in labels if label)
                raise InvalidInput.of(name, f"one of its values ({known})", value)
        known = ", ".join(feature.name for feature in self.features) or "none is declared"
        raise InvalidInput.of("feature", f"a declared one ({known})", name)

    def plain(self) -> list[dict[str, Any]]:
        """Return everything to save, as plain values."""
        return [feature.plain() for feature in self.features]

    @classmethod
    def restore(cls, plain: list[dict[str, Any]]) -> Features:
        """Return the features that `plain` was taken from."""
        by_kind: dict[str, Any] = {"open": str, "bool": bool}
        features = cls(
            {
                one["name"]: by_kind.get(one["kind"]) or tuple(one.get("words") or one["edges"])
                for one in plain
            }
        )
        features.take_words(plain)
        return features

    def take_words(self, plain: Sequence[Mapping[str, Any]]) -> None:
        """Take over the words and counts that `plain` returned."""
        for feature, one in zip(self.features, plain, strict=True):
            if isinstance(feature, OpenWords):
                # Earlier versions gave words that cannot be printed a place for good.
                words = [word.encode(errors="backslashreplace").decode() for word in one["words"]]
                budget = one.get("budget", FrequentWords.MAX_BUDGET)
                feature.frequent = FrequentWords(words, one["counts"], budget)


def declarations(features: Features) -> dict[str, object]:
    """Return what `features` was declared with.

    >>> declarations(Features({"new": bool, "days": (1, 7), "country": str, "device": ("phone",)}))
    {'new': <class 'bool'>, 'days': (1.0, 7.0), 'country': <class 'str'>, 'device': ('phone',)}
    """
    return {feature.name: feature.declaration for feature in features.features}


def _in_json(error: InvalidInput) -> InvalidInput:
    """Return an error about one feature as one about the setting that has it, in JSON's words."""
    values = f"a list of 1 to {MAX_VALUES} words or of as many rising numbers"
    return InvalidInput(
        str(error).replace(DECLARATIONS, f'{values}, "{TEXT}" or "{BOOL}"'), "features"
    )


def declared_floors(
    segment_floors: Mapping[str, Mapping[str, float]], declared: Mapping[str, object]
) -> dict[str, dict[str, float]]:
    """Return the floors of segments by the labels of values, for features declared in JSON.

    An undeclared feature and a value that it cannot have raise `InvalidInput`.
    """
    features = {one.name: one for one in Features.of_json(declared).features}
    floors: dict[str, dict[str, float]] = {}
    for name, of_values in segment_floors.items():
        if name not in features:
            known = ", ".join(features) or "none is declared"
            raise InvalidInput.of("segment_floors", f"by declared features ({known})", name[:100])
        floors[name] = {}
        for value, least in of_values.items():
            label = features[name].checked_label(value)
            if label in floors[name]:
                raise InvalidInput.of(
                    "segment_floors", f"one floor for each value of {name}", value
                )
            floors[name][label] = least
        if isinstance(features[name], OpenWords) and len(floors[name].keys() - SHARED) > MAX_WORDS:
            rule = f"of at most {MAX_WORDS} words of {name}, an open list"
            raise InvalidInput.of("segment_floors", rule, len(floors[name]))
    return {name: of_values for name, of_values in floors.items() if of_values}
