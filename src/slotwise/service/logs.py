"""Structured logs: one JSON object a line, or readable lines on a terminal.

Lines contain no keys, tokens or whole addresses by construction: a line is built from the route's
template (not the path, which may contain a click token), the key's public id and a shortened
address. Used by `api`, `cli` and `settings`.
"""

from __future__ import annotations

import ipaddress
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

LogLevel = Literal["debug", "info", "warning", "error"]

_encode = msgspec.json.Encoder().encode
_NAME = "slotwise.service"


class _JsonLines(logging.Formatter):
    """Formats a record, also those that libraries log through `logging`, as one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        return _encode(line | _fields_of(record)).decode()


class _ReadableLines(logging.Formatter):
    """Formats a record as one line for people: local time, level, event and fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")  # noqa: DTZ006 (local)
        fields = (f"{name}={_plain(value)}" for name, value in _fields_of(record).items())
        return " ".join([at, f"{record.levelname.lower():<7}", record.getMessage(), *fields])


def _plain(value: object) -> str:
    """Return a value as text on one line, without control characters; JSON where it has spaces."""
    text = str(value)
    plain = isinstance(value, str | int | float) and text.isprintable() and " " not in text
    return text if plain and text else _encode(value).decode()


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields of an event, and the type and place of a failure.

    Not the arguments of a failure: they may quote a request.
    """
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info:
        failure, _, trace = record.exc_info
        fields["failure"] = failure.__name__ if failure else ""
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            fields["at"] = f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
    return fields


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the present standard error: the stream at the start may be closed."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def start_logs(level: LogLevel, stream: TextIO | None = None) -> None:
    """Send the service's logs and the server's to `stream` (standard error).

    Lines are JSON, or readable ones where the stream is a terminal. What the server does at every
    start and stop is logged with the level debug only.
    """
    handler = logging.StreamHandler(stream) if stream else _StandardError()
    is_terminal = handler.stream.isatty()
    handler.setFormatter(_ReadableLines() if is_terminal else _JsonLines())
    for name, least in ((_NAME, level), ("uvicorn.error", "warning" if level == "info" else level)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least.upper())
        logger.propagate = False


class ServiceLog:
    """Writes named events with fields.

    >>> ServiceLog().info("pool.change", pool_id="home")
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger(_NAME)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event."""
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: object) -> None:
        """Log something that an operator may want to check."""
        self._logger.warning(event, extra={"fields": fields})

    def failure(self, event: str, error: BaseException, **fields: object) -> None:
        """Log a failure of the service with its type and place."""
        self._logger.error(event, extra={"fields": fields}, exc_info=error)


def short_address(address: str) -> str:
    """Return the network of an address: enough to detect a flood, not to identify a visitor.

    >>> short_address("203.0.113.77"), short_address("2001:db8:1:2::3"), short_address("x")
    ('203.0.113.0/24', '2001:db8:1::/48', '')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    prefix = 24 if parsed.version == 4 else 48
    return str(ipaddress.ip_network((parsed, prefix), strict=False))
