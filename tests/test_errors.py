"""The exception tree: one root, and the built-in that a program expects anyway."""

from __future__ import annotations

import pickle

import pytest

import slotwise
from slotwise import errors

BUILT_IN = {
    "InvalidInput": ValueError,
    "InvalidFeedback": ValueError,
    "UnknownDecision": LookupError,
    "UnknownName": LookupError,
    "UnsupportedState": ValueError,
    "MissingData": FileNotFoundError,
    "MissingPackage": ModuleNotFoundError,
    "InvalidConfig": ValueError,
    "InvalidLog": ValueError,
}


def test_the_tree_is_complete() -> None:
    assert set(errors.__all__) == {"SlotwiseError", *BUILT_IN}
    assert slotwise.SlotwiseError is errors.SlotwiseError


@pytest.mark.parametrize(("name", "built_in"), BUILT_IN.items())
def test_every_error_has_two_parents(name: str, built_in: type[Exception]) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.SlotwiseError)
    assert issubclass(error, built_in)
    assert name in (errors.__doc__ or "")


def test_a_value_of_any_size_makes_one_sentence() -> None:
    for value in ("x" * 10_000, list(range(10**6)), {k: k for k in range(10**5)}, b"x" * 10**5):
        assert len(str(errors.InvalidInput.of("links", "few", value))) < 300


def test_a_message_names_argument_rule_value_and_advice() -> None:
    plain = errors.InvalidInput.of("n_slots", "at least 1", 0)
    assert str(plain) == "`n_slots` must be at least 1, got 0"
    assert plain.argument == "n_slots"
    assert pickle.loads(pickle.dumps(plain)).argument == "n_slots"
    assert errors.InvalidInput("two things are wrong").argument == ""
    advised = errors.InvalidInput.of("pin", "a collection of links", "blog", "write ['blog']")
    assert str(advised) == "`pin` must be a collection of links, got 'blog'; write ['blog']"
