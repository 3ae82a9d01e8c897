"""Which extra of slotwise brings a package that is not installed. Used by most of the package."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from slotwise.errors import MissingPackage

# Extras that a user wants; `docs` and `dev` only gather others.
OFFERED = ("experiments", "service", "postgresql", "cluster", "compare")


@contextmanager
def naming_extra(needed_by: str) -> Iterator[None]:
    """Turn a missing package inside the block into the error that names its extra.

    >>> with naming_extra("`report`"):
    ...     raise ModuleNotFoundError("No module named 'httpx'", name="httpx")
    Traceback (most recent call last):
    slotwise.errors.MissingPackage: `report` needs the package httpx, which is not installed; ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(needed_by, error) from error


def imported(package: str, needed_by: str) -> Any:
    """Import a package that an extra brings, or raise the error that names the extra."""
    with naming_extra(needed_by):
        return importlib.import_module(package)


def missing_package(needed_by: str, error: ModuleNotFoundError) -> MissingPackage:
    """Return the error that says what `needed_by` lacks and which extra brings it.

    `needed_by` is part of the sentence as it is, for example "the data set `table`". A missing
    module of slotwise itself is a bug, not a missing extra: `error` is then raised again.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("", "slotwise"):
        raise error
    from importlib import metadata  # slow to import, and seldom needed

    extras = extras_with(package, metadata.requires("slotwise") or ())
    problem = f"{needed_by} needs the package {package}, which is not installed"
    if not extras:
        return MissingPackage(f"{problem}; install it with: pip install {package}", name=package)
    ways = " or ".join(f"pip install 'slotwise[{extra}]'" for extra in extras)
    return MissingPackage(f"{problem}; install it with: {ways}", name=package)


def extras_with(package: str, requirements: Iterable[str]) -> list[str]:
    """Return the smallest extras that bring the import package `package`.

    An extra that contains another one of them, as `postgresql` contains `service`, is left out.

    >>> extras_with("prometheus_client", ["prometheus-client>=0.21; extra == 'service'"])
    ['service']
    """
    packages: dict[str, set[str]] = {extra: set() for extra in OFFERED}
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", requirement)
        if name and extra and extra[1] in packages:
            packages[extra[1]].add(normalized(name[0]))
    found = [extra for extra in OFFERED if normalized(package) in packages[extra]]
    return [
        extra for extra in found if not any(packages[other] < packages[extra] for other in found)
    ]


def normalized(name: str) -> str:
    """Return `name` as package indexes compare it: lower case, dashes only."""
    return re.sub(r"[-_.]+", "-", name).lower()
