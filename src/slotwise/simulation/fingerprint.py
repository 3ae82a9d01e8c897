"""Digests of what determines the numbers of a run: the code and the environment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from slotwise.environments import Environment
from slotwise.selection.compiling.source_digest import LENGTH, digest_sources

__all__ = ["code_fingerprint", "environment_fingerprint"]

DECIDING = (
    "problem.py",
    "selection",
    "policies",
    "environments",
    "simulation/engine.py",
    "simulation/experiment.py",
    "simulation/optimum.py",
)
"""The parts of the package that can change a number of a run."""


def code_fingerprint() -> str:
    """Return a digest of the sources that determine numbers, equal for equal sources."""
    return digest_sources(DECIDING)


def environment_fingerprint(environment: Environment, n_rounds: int) -> str:
    """Return a digest of everything that determines the outcomes of an environment.

    >>> from slotwise.environments import BernoulliLinks, LateFeedback
    >>> links = BernoulliLinks([0.5, 0.2], [0.1, 0.9])
    >>> late, later = LateFeedback(links, 1, 2), LateFeedback(links, 1, 3)
    >>> environment_fingerprint(late, 100) == environment_fingerprint(later, 100)
    False
    """
    digest = hashlib.sha256()
    serving = environment.serving
    for name in (serving.__module__, serving.__qualname__, *environment.levels):
        digest.update(f"{name};".encode())
    world = environment.world(n_rounds)
    numbers = (environment.views_per_round, environment.delays, environment.rates(n_rounds))
    for value in _leaves((world, numbers)):
        array = np.asarray(value)
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:LENGTH]


def _leaves(value: Any) -> Iterable[Any]:
    """Yield the arrays and numbers inside tuples of tuples."""
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
