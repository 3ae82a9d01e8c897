"""The columns of a log of page views: Parquet, one row for each link shown.

Rows stand in the order of `time_us`, and the rows of one page stand together. A log is one file
or a folder of files (`*.parquet`), read in the order of their names. The version of the format
is in the file's metadata; a file without it is read as version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from slotwise.extras import naming_extra

if TYPE_CHECKING:  # pyarrow comes with extras; choosing links does not need it
    import pyarrow

__all__ = [
    "FORMAT_KEY",
    "FORMAT_VERSION",
    "LEVELS",
    "MAX_REVENUE_KEY",
    "OPTIONAL_COLUMNS",
    "REQUIRED_COLUMNS",
    "VISITOR_PREFIX",
    "log_schema",
]

FORMAT_VERSION = 1
"""The version of the format that this slotwise reads and writes."""
FORMAT_KEY = b"slotwise.log.version"
MAX_REVENUE_KEY = b"slotwise.log.max_revenue"
VISITOR_PREFIX = "visitor."
"""The names of columns with features of visitors begin with this."""
LEVELS = ("clicked", "revenue")
"""The levels of feedback that every log has, in order; further ones stand under their names."""

REQUIRED_COLUMNS: Mapping[str, str] = {
    "page_id": "string",
    "time_us": "int64",
    "slot": "int32",
    "link": "string",
    "probability": "float64",
    "clicked": "bool",
    "revenue": "float64",
}
"""The columns that every log has, with their types."""
OPTIONAL_COLUMNS: Mapping[str, str] = {
    "min_probability": "float64",
    "pool_changes": "int64",
    "slot_probability": "float64",
    "random_order": "bool",
    "currency": "string",
    "policy": "string",
    "version": "int64",
    "settled": "bool",
}
"""The columns that a log may have, with their types."""


def log_schema(
    optional: Iterable[str] = (),
    features: Iterable[str] = (),
    levels: Iterable[str] = (),
    max_revenue: float | None = None,
) -> pyarrow.Schema:
    """Return the schema of a log with these optional columns, visitor features and levels.

    `max_revenue` is the most that one view of a link can bring, in the money of the log.

    >>> log_schema(["settled"], features=["country"]).names[-2:]
    ['settled', 'visitor.country']
    """
    with naming_extra("a log of page views"):
        import pyarrow

    columns = dict(REQUIRED_COLUMNS)
    columns |= {name: OPTIONAL_COLUMNS[name] for name in optional}
    columns |= {VISITOR_PREFIX + feature: "string" for feature in features}
    columns |= dict.fromkeys(levels, "float64")
    metadata = {FORMAT_KEY: str(FORMAT_VERSION).encode()}
    if max_revenue is not None:
        metadata[MAX_REVENUE_KEY] = repr(float(max_revenue)).encode()
    fields = [(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()]
    return pyarrow.schema(fields, metadata=metadata)
