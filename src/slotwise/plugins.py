"""Policies and data sets of other packages: by entry point, or as "module:name".

Used by `policies`, `cli` and `environments`.
"""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from typing import Any

from slotwise.errors import UnknownName


def entry_point_names(group: str) -> list[str]:
    """Return the names that installed packages offer under a group, such as "slotwise.policies"."""
    return sorted({point.name for point in metadata.entry_points(group=group)})


def look_for_modules_in(folder: str) -> None:
    """Find "module:name" in this folder, too, after everything that Python finds without it."""
    if folder not in sys.path:
        sys.path.append(folder)


def find_outside(group: str, name: str) -> object:
    """Return the object of "module:name", or of the entry point `name`; None if there is neither.

    >>> find_outside("slotwise.policies", "slotwise.policies.uniform_and_fixed:Uniform").name
    'uniform'
    >>> find_outside("slotwise.policies", "nobody.has:It")
    Traceback (most recent call last):
    slotwise.errors.UnknownName: 'nobody.has:It' cannot be imported: No module named 'nobody'
    """
    module, colon, attribute = name.partition(":")
    try:
        if colon:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
            return found
        points = metadata.entry_points(group=group, name=name)
        return next(iter(points)).load() if points else None
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"{name!r} cannot be imported: {error}") from error
