"""Choose which links go on a page: the most revenue that keeps a promised number of clicks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from slotwise.errors import SlotwiseError
from slotwise.extras import missing_package
from slotwise.policies import (
    CUCB,
    AnytimeConUCB,
    ConTS,
    ConUCB,
    Exp3M,
    FixedMix,
    KLConUCB,
    LExp,
    PacedBayes,
    PacedKL,
    Policy,
    QueueKL,
    QueueTS,
    SafeConUCB,
    Uniform,
    compiled,
    default_policy,
    make_policy,
)
from slotwise.problem import Problem
from slotwise.rounds import Decision
from slotwise.selector import Selector
from slotwise.version import __version__

if TYPE_CHECKING:
    from slotwise.client import Client
    from slotwise.environments import BernoulliLinks, LogisticLinks, SegmentLinks
    from slotwise.simulation import Results, simulate

__all__ = [
    "CUCB",
    "AnytimeConUCB",
    "BernoulliLinks",
    "Client",
    "ConTS",
    "ConUCB",
    "Decision",
    "Exp3M",
    "FixedMix",
    "KLConUCB",
    "LExp",
    "LogisticLinks",
    "PacedBayes",
    "PacedKL",
    "Policy",
    "Problem",
    "QueueKL",
    "QueueTS",
    "Results",
    "SafeConUCB",
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

# Loaded when first asked for: they bring tables, files or HTTP, which choosing links does not need.
_LATER = {
    "BernoulliLinks": "slotwise.environments",
    "Client": "slotwise.client",
    "LogisticLinks": "slotwise.environments",
    "Results": "slotwise.simulation",
    "SegmentLinks": "slotwise.environments",
    "simulate": "slotwise.simulation",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        try:
            return getattr(importlib.import_module(_LATER[name]), name)
        except ModuleNotFoundError as error:
            raise missing_package(f"`slotwise.{name}`", error) from error
    raise AttributeError(f"module 'slotwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
