"""The experiments that come with slotwise, found by name.

Commands use it through `slotwise.simulation`. Used by `series`.
"""

from __future__ import annotations

from pathlib import Path

from slotwise.errors import MissingData, UnknownName, did_you_mean

PACKAGE = Path(__file__).parent.parent


def shipped_experiments() -> dict[str, Path]:
    """Return the file of every shipped experiment by its name.

    They are inside an installed package, and next to `src` in a source checkout.

    >>> "figure-1-coupon" in shipped_experiments()
    True
    """
    for folder in (PACKAGE / "experiments", PACKAGE.parent.parent / "experiments"):
        found = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        if found:
            return found
    raise MissingData(f"no experiment files in {PACKAGE}; install slotwise again")


def experiment_path(file_or_name: str | Path) -> Path:
    """Return the file given, or the shipped experiment of that name.

    >>> experiment_path("figure-1-coupon").name
    'figure-1-coupon.toml'
    """
    path = Path(file_or_name)
    if path.suffix or path.exists():
        return path
    shipped = shipped_experiments()
    if path.name in shipped and path.name == str(file_or_name):
        return shipped[path.name]
    advice = did_you_mean(path.name, shipped, "'")
    raise UnknownName(
        f"no experiment file or shipped experiment is called {file_or_name}; {advice}"
    )
