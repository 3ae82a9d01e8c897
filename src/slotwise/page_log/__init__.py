"""The log of page views: one format for the selector, the engine and the service."""

from slotwise.page_log.columns import (
    FORMAT_VERSION,
    LEVELS,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    VISITOR_PREFIX,
    log_schema,
)
from slotwise.page_log.writer import LoggedPage, LogWriter

__all__ = [
    "FORMAT_VERSION",
    "LEVELS",
    "OPTIONAL_COLUMNS",
    "REQUIRED_COLUMNS",
    "VISITOR_PREFIX",
    "LogWriter",
    "LoggedPage",
    "log_schema",
]
