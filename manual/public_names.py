"""Every public name: what the modules that programs import list in `__all__`."""

from __future__ import annotations

import importlib

__all__ = ["NOT_PUBLIC", "PUBLIC_MODULES", "names_reference", "public_names"]

PUBLIC_MODULES = (
    "slotwise",
    "slotwise.client",
    "slotwise.environments",
    "slotwise.environments.datasets",
    "slotwise.errors",
    "slotwise.evaluation",
    "slotwise.figures",
    "slotwise.metrics",
    "slotwise.page_log",
    "slotwise.policies",
    "slotwise.problem",
    "slotwise.rounds",
    "slotwise.selection",
    "slotwise.selector",
    "slotwise.simulation",
    "slotwise.simulation.leaderboard",
    "slotwise.testing",
)
"""The modules whose names programs may import; all others are slotwise's own business."""

NOT_PUBLIC = {
    "slotwise.cli": "typed in a shell: the commands have a page of their own",
    "slotwise.extras": "which extra to install: its one sentence is that of an error",
    "slotwise.service": "called over HTTP: the routes have a page of their own",
    "slotwise.version": "its one name is `slotwise.__version__`",
}
"""The other modules of the first two levels, and why their names are not listed."""


def public_names(module: str) -> list[str]:
    """Return the names that a module lists as its own, in its order."""
    return list(importlib.import_module(module).__all__)


def names_reference(module: str) -> str:
    """Return a directive for each name, which mkdocstrings replaces by its documentation."""
    return "\n\n".join(f"::: {module}.{name}" for name in public_names(module))
