from __future__ import annotations

import json
import math
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slotwise.errors import InvalidInput
from slotwise.features import NOT_KNOWN, RARE, Features
from slotwise.frequent_words import (
    MAX_COUNTED,
    MAX_LENGTH,
    MAX_MASS,
    MAX_WORDS,
    REPLACE_EVERY,
    SEEN_OFTEN,
    FrequentWords,
)

SHOP = {
    "device": ("phone", "desktop"),
    "country": str,
    "returning": bool,
    "days_since_visit": (1, 7, 30),
}


def places(features: Features, **visitor: object) -> list[int]:
    """Return each feature's value, counted from the feature's own first one."""
    found: list[int] = (features.encode(visitor) - np.array(features.offsets)).tolist()
    return found


def test_every_kind_of_feature_has_a_place_for_every_value() -> None:
    features = Features(SHOP)
    assert features.sizes == (3, 2 + MAX_WORDS, 3, 5)
    assert places(features) == [0, 0, 0, 0]
    assert places(features, device="desktop", returning=True, days_since_visit=1) == [2, 0, 2, 2]
    assert places(features, device="fridge", country="DE", returning=False) == [0, 1, 1, 0]
    assert [places(features, days_since_visit=n)[3] for n in (-1, 0.99, 1, 7, 29, 30, 1e9)] == [
        *(1, 1, 2, 3, 3, 4, 4)
    ]


def test_what_is_missing_or_unknown_is_a_value_and_no_error() -> None:
    features = Features(SHOP)
    nothing = features.encode(None)
    for visitor in (
        {},
        {"device": None, "country": None, "returning": None, "days_since_visit": None},
        {"days_since_visit": math.nan},
        {"days_since_visit": np.float32("nan")},
        {"days_since_visit": Decimal("nan")},
        {"device": ""},
        {"device": "x" * 1000},
    ):
        assert features.encode(visitor).tolist() == nothing.tolist()
    assert features.describe(nothing) == dict.fromkeys(SHOP, NOT_KNOWN)
    assert places(features, days_since_visit=10**400)[3] == 4
    assert places(features, days_since_visit=-(10**400))[3] == 1
    assert places(features, days_since_visit=np.int16(8), returning=np.True_) == [0, 0, 2, 3]


@pytest.mark.parametrize(
    ("visitor", "message"),
    [
        ({"browser": "lynx"}, r"`visitor` must be declared features only \(device, country, ret"),
        ({"device": 3}, r"`visitor\['device'\]` must be a word or None, got 3"),
        ({"country": b"DE"}, r"`visitor\['country'\]` must be a word or None, got b'DE'"),
        ({"country": ["DE"]}, r"`visitor\['country'\]` must be a word or None"),
        ({"returning": "yes"}, r"`visitor\['returning'\]` must be True, False or None, got 'yes'"),
        ({"returning": 1}, r"`visitor\['returning'\]` must be True, False or None, got 1"),
        ({"days_since_visit": "9"}, r"`visitor\['days_since_visit'\]` must be a number or None"),
        ({"days_since_visit": True}, r"`visitor\['days_since_visit'\]` must be a number or None"),
        ({"days_since_visit": 1j}, r"`visitor\['days_since_visit'\]` must be a number or None"),
        ({"days_since_visit": [1.0]}, r"`visitor\['days_since_visit'\]` must be a number or None"),
        (["phone"], "`visitor` must be a mapping of features to values"),
        ({"returning": "y" * 5000}, "`visitor"),
    ],
)
def test_what_cannot_be_meant_is_refused(visitor: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}") as error:
        Features(SHOP).encode(visitor)  # type: ignore[arg-type]
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"link": str}, "`features` must be named by a letter .* and not all, clicks, link,"),
        ({"1st": str}, "`features` must be named by a letter"),
        ({"a" * 41: str}, "`features` must be named by a letter"),
        ({3: str}, "`features` must be named by a letter"),
        ({"a": int}, r"`features\['a'\]` must be str, bool, a tuple of 1 to 64 words or"),
        ({"a": ()}, r"`features\['a'\]` must be str, bool"),
        ({"a": "phone"}, r"`features\['a'\]` must be str, bool"),
        ({"a": (1, "b")}, r"`features\['a'\]` must be str, bool"),
        ({"a": (2, 1)}, r"`features\['a'\]` must be str, bool"),
        ({"a": (1, math.nan)}, r"`features\['a'\]` must be str, bool"),
        ({"a": (True, 2)}, r"`features\['a'\]` must be str, bool"),
        ({"a": ("b", "b")}, r"`features\['a'\]` must be different words"),
        ({"a": tuple(map(str, range(65)))}, r"`features\['a'\]` must be str, bool"),
        ({f"f{k}": str for k in range(17)}, "`features` must be a mapping of at most 16 names"),
        (["device"], "`features` must be a mapping of at most 16 names"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(declaration: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        Features(declaration)  # type: ignore[arg-type]


def test_a_word_of_an_open_list_gets_a_place_when_it_was_seen_often() -> None:
    features = Features({"country": str})
    seen = [places(features, country="DE")[0] for _ in range(SEEN_OFTEN + 1)]
    assert seen == [1] * (SEEN_OFTEN - 1) + [2, 2]
    assert features.label(2) == ("country", "DE")
    assert features.label(1) == ("country", RARE)
    assert places(features, country="FR") == [1]


@pytest.mark.slow
def test_a_million_values_leave_no_trace() -> None:
    features = Features({"session": str})
    for k in range(1_000_000):
        if k % 10 == 0:
            features.encode({"session": "often"})
        features.encode({"session": f"seen once {k}"})
    frequent = features.features[0].frequent  # type: ignore[attr-defined]
    assert frequent.words == ["often"]
    assert len(frequent.counts) <= MAX_COUNTED
    assert sys.getsizeof(frequent.counts) < 20_000


def test_long_words_are_rare_and_places_are_bounded() -> None:
    features = Features({"country": str})
    for _ in range(2 * SEEN_OFTEN):
        assert places(features, country="x" * (MAX_LENGTH + 1)) == [1]
        for k in range(MAX_WORDS + 5):
            assert 1 <= places(features, country=f"c{k}")[0] < features.sizes[0]
    frequent = features.features[0].frequent  # type: ignore[attr-defined]
    assert len(frequent.words) == MAX_WORDS
    assert frequent.counts == {}
    assert places(features, country=f"c{MAX_WORDS + 4}") == [1]


@pytest.mark.parametrize("word", ["\ud800x", "D\nE", "\x1b[2J", "\u202eDE"])
def test_words_that_cannot_be_printed_are_rare(word: str) -> None:
    features = Features({"country": str})
    for _ in range(2 * SEEN_OFTEN):
        assert features.describe(features.encode({"country": word})) == {"country": RARE}
    assert features.features[0].plain() == {**features.plain()[0], "words": [], "counts": {}}


def test_words_that_an_earlier_version_kept_can_be_printed() -> None:
    kept = {"name": "country", "kind": "open", "words": ["\ud800x", "DE"], "counts": {}}
    features = Features.restore([kept])
    assert features.features[0].labels()[:4] == [NOT_KNOWN, RARE, "\\ud800x", "DE"]
    assert places(features, country="DE") == [3]


@given(st.lists(st.sampled_from("abcdefgh"), max_size=400), st.integers(0, 400))
def test_features_survive_saving_at_any_point(words: list[str], at: int) -> None:
    never_saved = Features({"w": str, **SHOP})
    saved = Features({"w": str, **SHOP})
    for k, word in enumerate(words):
        if k == at:
            saved = Features.restore(json.loads(json.dumps(saved.plain())))
        one, other = never_saved.encode({"w": word}), saved.encode({"w": word})
        assert one.tolist() == other.tolist()
    assert saved.plain() == never_saved.plain()
    assert saved.sizes == never_saved.sizes


@given(st.lists(st.integers(0, 400), min_size=1, max_size=3000))
def test_no_word_is_counted_too_often(stream: list[int]) -> None:
    frequent = FrequentWords()
    for number in stream:
        frequent.place(str(number))
    for word in frequent.words:
        assert stream.count(int(word)) >= SEEN_OFTEN
    for word, n in frequent.counts.items():
        assert 1 <= n <= stream.count(int(word))


def replacing(words: int = MAX_WORDS) -> FrequentWords:
    """Return a list whose places are taken by words that were seen often once."""
    frequent = FrequentWords()
    frequent.replaces = True
    for k in range(words * SEEN_OFTEN):
        frequent.place(f"junk {k % words}")
    assert len(frequent.words) == words
    return frequent


def see(frequent: FrequentWords, word: str) -> None:
    frequent.place(word)
    if frequent.challenger is not None:
        frequent.replace()


def test_words_that_are_seen_now_take_the_places_of_words_seen_once() -> None:
    frequent = replacing()
    for k in range(300 * MAX_WORDS):
        see(frequent, f"real {k % MAX_WORDS}")
    assert sorted(frequent.words) == sorted(f"real {k}" for k in range(MAX_WORDS))
    assert sum(frequent.counts.values()) < MAX_MASS


def test_a_list_changes_only_when_it_is_told_to() -> None:
    frequent = replacing()
    before = list(frequent.words)
    for _ in range(500):
        frequent.place("real")
    assert frequent.challenger == "real"
    assert frequent.words == before
    place = frequent.replace()
    assert frequent.words[place] == "real"
    assert [word for k, word in enumerate(frequent.words) if k != place] == [
        word for k, word in enumerate(before) if k != place
    ]


def test_protected_words_are_never_replaced() -> None:
    frequent = replacing()
    frequent.protected = frozenset(frequent.words)
    for _ in range(500):
        see(frequent, "real")
    assert frequent.challenger is None
    frequent.protected = frozenset(frequent.words[:-1])
    see(frequent, "real")
    assert frequent.words[-1] == "real"


@pytest.mark.parametrize("n_attackers", [1, 10, 40, 300, 100_000])
def test_a_flood_never_replaces_a_word_in_one_of_thirty_views(n_attackers: int) -> None:
    """However many other words come: 31 of 32 views are the attacker's."""
    frequent, rng = replacing(MAX_WORDS - 1), np.random.default_rng(7)
    for _ in range(SEEN_OFTEN):
        frequent.place("real")
    assert frequent.words[-1] == "real"
    for k in range(30_000):
        see(frequent, "real" if k % 30 == 0 else f"flood {rng.integers(n_attackers)}")
        assert "real" in frequent.words
    assert len(frequent.counts) <= MAX_WORDS + MAX_COUNTED


@pytest.mark.slow
def test_a_million_words_leave_a_full_list_as_it_was() -> None:
    frequent = replacing()
    before = list(frequent.words)
    for k in range(1_000_000):
        see(frequent, f"seen once {k}")
    assert frequent.words == before
    assert len(frequent.counts) <= MAX_WORDS + MAX_COUNTED
    for _ in range(10 * SEEN_OFTEN):
        see(frequent, "real")
    assert "real" in frequent.words


def test_a_word_seen_once_may_be_the_one_at_which_counts_are_halved() -> None:
    words = FrequentWords()
    words.replaces = True
    for number in range(30 * 50):
        words.place(f"w{number % 30}")
    while sum(words.counts.values()) < MAX_MASS - 1:
        words.place("w0")
    assert words.place("seen once") is None
    assert "seen once" not in words.counts
    assert sum(words.counts.values()) < MAX_MASS


def test_words_are_replaced_at_a_bounded_rate() -> None:
    """Each word that had a place has counters of its own for good."""
    frequent, seen = replacing(), set[str]()
    for k in range(200_000):
        see(frequent, f"flood {k // 400}")  # as fast as words can become frequent
        seen.update(frequent.words)
    assert len(seen) <= 2 * MAX_WORDS + 200_000 // REPLACE_EVERY


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 4_000))
def test_replacing_survives_saving_at_any_point(seed: int, at: int) -> None:
    def fresh() -> Features:
        features = Features({"w": str})
        features.features[0].frequent = replacing()  # type: ignore[attr-defined]
        return features

    never_saved, saved = fresh(), fresh()
    words = np.random.default_rng(seed).zipf(1.5, 4_000).tolist()
    for k, word in enumerate(words):
        if k == at:
            saved = Features.restore(json.loads(json.dumps(saved.plain())))
            saved.let_words_be_replaced(())
        for features in (never_saved, saved):
            features.encode({"w": str(word)})
            if features.has_challenger:
                assert features.replace_words()[0][1] == 1
    assert saved.plain() == never_saved.plain()
    assert never_saved.words["w"] != fresh().words["w"]


def test_values_are_found_by_their_labels() -> None:
    features = Features(SHOP)
    assert features.label(features.place("device", "phone")) == ("device", "phone")
    assert features.label(features.place("returning", True)) == ("returning", "True")
    assert features.label(features.place("days_since_visit", "7 to 30")) == (
        "days_since_visit",
        "7 to 30",
    )
    assert features.place("country", "DE") == features.encode({"country": "DE"})[1]
    with pytest.raises(
        InvalidInput, match=r"^`device` must be one of its values \(\(not known\), p"
    ):
        features.place("device", "fridge")
    with pytest.raises(InvalidInput, match=r"^`feature` must be a declared one \(device, country"):
        features.place("browser", "lynx")


@pytest.mark.parametrize(("word", "label"), [("", NOT_KNOWN), (NOT_KNOWN, NOT_KNOWN), (RARE, RARE)])
def test_the_name_of_a_shared_value_is_no_word(word: str, label: str) -> None:
    features = Features({"country": str})
    for _ in range(100):  # a word seen so often gets a value of its own
        visitor = features.encode({"country": word})
    assert features.describe(visitor) == {"country": label}
    assert features.features[0].plain()["words"] == []
    assert features.place("country", label) == features.offsets[0] + (label == RARE)
    with pytest.raises(InvalidInput, match="must be different words other than"):
        Features({"country": ("DE", word)})
