"""The exception tree: everything slotwise raises on purpose.

    SlotwiseError
    ├── InvalidInput         (ValueError)           an argument breaks its rule
    ├── InvalidFeedback      (ValueError)           feedback that cannot belong to its page
    ├── UnknownDecision      (LookupError)          feedback for a page this selector never chose
    ├── UnknownName          (LookupError)          a policy, data set or metric nobody registered
    ├── UnsupportedState     (ValueError)           a saved file that this version cannot read
    ├── MissingData          (FileNotFoundError)    a file or column a data set needs is not there
    ├── MissingPackage       (ModuleNotFoundError)  a package that an extra brings is not installed
    ├── InvalidLog           (ValueError)           a log of page views that breaks a rule
    └── InvalidConfig        (ValueError)           a settings file, named with its key

Every message names the argument, the rule and the value, then says what to do. The two checks of
numbers that arguments of all layers need, and the advice for misspelt names, are here as well. Used
by most of the package.
"""

from __future__ import annotations

import difflib
import math
import operator
import reprlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

__all__ = [
    "InvalidConfig",
    "InvalidFeedback",
    "InvalidInput",
    "InvalidLog",
    "MissingData",
    "MissingPackage",
    "SlotwiseError",
    "UnknownDecision",
    "UnknownName",
    "UnsupportedState",
]


_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = 200


class SlotwiseError(Exception):
    """The root of every error that slotwise raises on purpose."""


class InvalidInput(SlotwiseError, ValueError):
    """An argument breaks its rule.

    >>> raise InvalidInput.of("n_slots", "at least 1", 0)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `n_slots` must be at least 1, got 0
    """

    def __init__(self, message: str = "", argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument
        """The name of the argument, empty where the error is about more than one."""
        self.others: tuple[InvalidInput, ...] = ()
        """What is wrong with other arguments, where all were checked."""

    @classmethod
    def of(cls, name: str, rule: str, value: object, advice: str = "") -> InvalidInput:
        """Build the message "`name` must be *rule*, got *value*" with optional advice.

        A long value is shortened.
        """
        message = f"`{name}` must be {rule}, got {_SHORT.repr(value)}"
        return cls(f"{message}; {advice}" if advice else message, argument=name)


class InvalidFeedback(SlotwiseError, ValueError):
    """Feedback that cannot belong to its page: a link not shown, revenue without a click."""


class UnknownDecision(SlotwiseError, LookupError):
    """Feedback for a page that this selector never chose."""


class UnknownName(SlotwiseError, LookupError):
    """A policy, data set or metric that nobody registered."""


class UnsupportedState(SlotwiseError, ValueError):
    """A saved file that this version of slotwise cannot read."""


class MissingData(SlotwiseError, FileNotFoundError):
    """A file or column that a data set needs is not at the given place."""


class MissingPackage(SlotwiseError, ModuleNotFoundError):
    """A package is not installed; the message says which extra of slotwise brings it."""


class InvalidConfig(SlotwiseError, ValueError):
    """A settings file breaks a rule; the message starts with the file and the key."""


class InvalidLog(SlotwiseError, ValueError):
    """A log of page views breaks a rule; the message starts with the file and names the row."""


def check_all(*checks: Callable[[], object]) -> None:
    """Make every check; raise the first error, which has those of other arguments as `others`.

    >>> import functools
    >>> one = functools.partial(whole_number, "n_slots", 0, 1)
    >>> other = functools.partial(whole_number, "n_links", 0, 1)
    >>> try:
    ...     check_all(one, other)
    ... except InvalidInput as error:
    ...     print([str(one) for one in (error, *error.others)])
    ['`n_slots` must be at least 1, got 0', '`n_links` must be at least 1, got 0']
    """
    broken: dict[str, InvalidInput] = {}
    for check in checks:
        try:
            check()
        except InvalidInput as error:
            for one in (error, *error.others):
                broken.setdefault(one.argument, one)
    if broken:
        first, *others = broken.values()
        first.others = tuple(others)
        raise first


def did_you_mean(name: str, known: Iterable[str], quote: str = "`") -> str:
    """Return advice for a name that is not known: the closest one, or all of them.

    >>> did_you_mean("floor", ["slots", "click_floor"]), did_you_mean("x", ["slots", "floor"])
    ('did you mean `click_floor`?', 'known are slots, floor')
    >>> did_you_mean("figure-1", ["figure-3", "figure-1-coupon"])
    'did you mean `figure-1-coupon`?'
    """
    names = list(known)
    close = [one for one in names if name in one.split("_")]
    close = close or [one for one in names if len(name) > 2 and one.startswith(name)]
    close = close or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {quote}{close[0]}{quote}?" if close else f"known are {', '.join(names)}"


def whole_number(name: str, value: Any, at_least: int) -> int:
    """Return `value` as an int; `name` is the argument at fault if it is not one.

    >>> whole_number("n_slots", 2.5, at_least=1)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `n_slots` must be a whole number, got 2.5
    """
    if isinstance(value, bool):
        raise InvalidInput.of(name, "a whole number", value)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput.of(name, "a whole number", value) from None
    if number < at_least:
        raise InvalidInput.of(name, f"at least {at_least}", number)
    return number


def is_finite_number(value: object) -> bool:
    """Return whether `value` is a real number, neither NaN nor infinite; booleans are rejected."""
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return False
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):
        return False  # an int beyond every float, a signalling NaN
