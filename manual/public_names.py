"""All public names: those that public modules list in `__all__`."""

from __future__ import annotations

import importlib
import inspect

from manual.markdown import table
from slotwise.policies import POLICIES

PUBLIC_MODULES = (
    "slotwise",
    "slotwise.client",
    "slotwise.environments",
    "slotwise.environments.datasets",
    "slotwise.errors",
    "slotwise.evaluation",
    "slotwise.features",
    "slotwise.figures",
    "slotwise.metrics",
    "slotwise.page_log",
    "slotwise.policies",
    "slotwise.problem",
    "slotwise.rounds",
    "slotwise.selection",
    "slotwise.selector",
    "slotwise.simulation",
    "slotwise.testing",
)
"""The modules whose names programs may import; all others are internal."""

NOT_PUBLIC = {
    "slotwise.__main__": "run by `python -m slotwise`; the commands have their own page",
    "slotwise.arrays": "internal; it names the types of arrays",
    "slotwise.cli": "used in a shell; the commands have their own page",
    "slotwise.compile": "internal; the decorator for policies is slotwise.policies.compiled",
    "slotwise.plugins": "internal; it finds policies and data sets of other packages",
    "slotwise.extras": "internal; it names the extra of a missing package in errors",
    "slotwise.features": "internal; `Selector` describes how features are declared",
    "slotwise.player": "internal; `Selector` and the service play policies through it",
    "slotwise.service": "used over HTTP; the routes have their own page",
    "slotwise.problem": "internal; `slotwise.Problem` is described with `slotwise`",
    "slotwise.version": "its only name is `slotwise.__version__`",
}
"""The other modules of the first two levels, and why they are not public."""


FIRST_NAMES = ("Selector", "simulate")
"""What most programs start with; a page describes these before its other names."""


def public_names(module: str) -> list[str]:
    """Return the public names of a module: those of `FIRST_NAMES`, then all others in its order.

    >>> public_names("slotwise")[:3]
    ['Selector', 'simulate', 'CUCB']
    """
    return sorted(importlib.import_module(module).__all__, key=lambda name: name not in FIRST_NAMES)


def names_reference(module: str) -> str:
    """Return one directive per name; mkdocstrings replaces it with the documentation.

    The page of `slotwise` itself lists names that another page describes, with links to it.
    """
    names = public_names(module)
    described = {name: _described_at(name) for name in names} if module == "slotwise" else {}
    rows = [
        [f"[`{name}`]({page}#{where}.{name}){{ #{module}.{name} }}", _sentence(module, name)]
        for name, (page, where) in described.items()
        if where
    ]
    directives = [
        _directive(module, name) for name in names if not described.get(name, ("", ""))[1]
    ]
    return "\n\n".join([*([table(["name", "what it is"], rows)] if rows else []), *directives])


def _described_at(name: str) -> tuple[str, str]:
    """Return the page and the module where a name of `slotwise` is described, or nothing."""
    for module in PUBLIC_MODULES[1:]:
        if name in importlib.import_module(module).__all__:
            return f"{module.rpartition('.')[2]}.md", module
    return "", ""


def _sentence(module: str, name: str) -> str:
    documented = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    return documented.partition("\n")[0]


def _directive(module: str, name: str) -> str:
    public = getattr(importlib.import_module(module), name)
    is_policy = isinstance(public, type) and public in POLICIES.values()
    # All policies have the methods of `Policy`, and another page lists their settings.
    without = "\n    options:\n      members: false" if is_policy else ""
    return f"::: {module}.{name}{without}"
