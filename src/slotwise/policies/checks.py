"""The rules that settings of several policies share."""

from __future__ import annotations

from slotwise.errors import InvalidInput
from slotwise.problem import whole_number

__all__ = ["check_failure_probability", "check_horizon", "check_prior"]


def check_failure_probability(value: float) -> None:
    """Refuse a failure probability that is not one.

    >>> check_failure_probability(0.0)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `failure_probability` must be in (0, 1), got 0.0
    """
    if not 0 < value < 1:
        raise InvalidInput.of("failure_probability", "in (0, 1)", value)


def check_horizon(value: int | None) -> None:
    """Refuse a horizon that is neither open nor a number of rounds."""
    if value is not None:
        whole_number("horizon", value, at_least=1)


def check_prior(value: str) -> None:
    """Refuse a prior nobody knows."""
    if value not in ("uniform", "fitted"):
        raise InvalidInput.of("prior", '"uniform" or "fitted"', value)
