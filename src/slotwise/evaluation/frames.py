"""polars, which makes the frames, or the sentence that says how to install it."""

from __future__ import annotations

from types import ModuleType

from slotwise.extras import missing_package

__all__ = ["polars_or_error"]


def polars_or_error() -> ModuleType:
    """Return polars: the service and the command line evaluate without it."""
    try:
        import polars
    except ModuleNotFoundError as error:
        raise missing_package("a frame of an evaluation", error) from error
    return polars
