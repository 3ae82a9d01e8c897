"""Choose which links go on a page: the most revenue that keeps a promised number of clicks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from slotwise.errors import SlotwiseError
from slotwise.extras import missing_package
from slotwise.version import __version__

if TYPE_CHECKING:
    from slotwise.client import Client
    from slotwise.environments import BernoulliLinks, LogisticLinks, SegmentLinks
    from slotwise.policies import (
        CUCB,
        ConUCB,
        Exp3M,
        FixedMix,
        LExp,
        PacedBayes,
        Policy,
        Uniform,
        compiled,
        default_policy,
        make_policy,
    )
    from slotwise.problem import Problem, Rule
    from slotwise.rounds import Decision
    from slotwise.selector import Selector
    from slotwise.simulation import Results, simulate

__all__ = [
    "CUCB",
    "BernoulliLinks",
    "Client",
    "ConUCB",
    "Decision",
    "Exp3M",
    "FixedMix",
    "LExp",
    "LogisticLinks",
    "PacedBayes",
    "Policy",
    "Problem",
    "Results",
    "Rule",
    "SegmentLinks",
    "Selector",
    "SlotwiseError",
    "Uniform",
    "__version__",
    "compiled",
    "default_policy",
    "make_policy",
    "simulate",
]

# Imported at first use, so that a program loads only what it needs: tables, files and HTTP are not
# needed to choose links, and a compiler is not needed to store them.
_HOMES = {
    "BernoulliLinks": "slotwise.environments",
    "Client": "slotwise.client",
    "Decision": "slotwise.rounds",
    "LogisticLinks": "slotwise.environments",
    "Problem": "slotwise.problem",
    "Results": "slotwise.simulation",
    "Rule": "slotwise.problem",
    "SegmentLinks": "slotwise.environments",
    "Selector": "slotwise.selector",
    "simulate": "slotwise.simulation",
}
"""The module of each name in `__all__` that is not in `slotwise.policies`."""
_PACKAGES = ("features", "page_log", "policies", "problem", "rounds", "selection", "selector")
"""Modules that are attributes of `slotwise`; each is imported at its first use."""


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"slotwise.{name}")
    if name in __all__:
        module = _HOMES.get(name, "slotwise.policies")
        try:
            found = globals()[name] = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise missing_package(f"`slotwise.{name}`", error) from error
        return found
    raise AttributeError(f"module 'slotwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
