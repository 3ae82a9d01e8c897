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
    "slotwise.exported_rounds": "internal; its names are described with `slotwise.client`",
    "slotwise.extras": "internal; it names the extra of a missing package in errors",
    "slotwise.features": "internal; `Selector` describes how features are declared",
    "slotwise.frequent_words": "internal; it finds the frequent words of open lists of features",
    "slotwise.player": "internal; `Selector` and the service play policies through it",
    "slotwise.service": "used over HTTP; the routes have their own page",
    "slotwise.problem": "internal; `slotwise.Problem` is described with `slotwise`",
    "slotwise.version": "its only name is `slotwise.__version__`",
}
"""The other modules of the first two levels, and why they are not public."""


FOR_AUTHORS = (
    *("Policy", "CountingPolicy", "State", "Counts", "Feedback", "Estimates", "Mix", "Search"),
    *("compiled", "new_counts", "new_mix", "new_search", "take_top_links"),
    *("NOBODY", "NO_SLOTS"),
)
"""Names of `slotwise.policies` that are for authors of policies and have a page of their own."""

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

    A name that another page describes has a row with a link to it in a table at the top.
    """
    places = {name: _described_at(module, name) for name in public_names(module)}
    rows = [
        [f"[`{name}`]({place}.{name}){{ #{module}.{name} }}", _sentence(module, name)]
        for name, place in places.items()
        if place
    ]
    listed = [table(["name", "what it is"], rows)] if rows else []
    return "\n\n".join([*listed, *(_directive(module, one) for one in places if not places[one])])


def author_names_reference() -> str:
    """Return the directives of what authors of policies build on."""
    return "\n\n".join(_directive("slotwise.policies", name) for name in FOR_AUTHORS)


def _described_at(module: str, name: str) -> str:
    """Return the page and the module where a name is described, if that is on another page."""
    if module == "slotwise.policies":
        if name in FOR_AUTHORS:
            return f"policy.md#{module}"
        return "problem.md#slotwise.problem" if name == "Problem" else ""
    if module != "slotwise":
        return ""
    found = [one for one in PUBLIC_MODULES[1:] if name in importlib.import_module(one).__all__]
    return f"{found[0].rpartition('.')[2]}.md#{found[0]}" if found else ""


def _sentence(module: str, name: str) -> str:
    documented = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    return documented.partition("\n")[0]


def _directive(module: str, name: str) -> str:
    public = getattr(importlib.import_module(module), name)
    is_policy = isinstance(public, type) and public in POLICIES.values()
    # All policies have the methods of `Policy`, and another page lists their settings.
    without = "\n    options:\n      members: false" if is_policy else ""
    return f"::: {module}.{name}{without}"
