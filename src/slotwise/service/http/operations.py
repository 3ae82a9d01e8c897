"""The declaration of one operation: all that routing, checking and OpenAPI know about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from slotwise.service.http.exchange import Answer, Request, StreamAnswer
from slotwise.service.records import Scope

if TYPE_CHECKING:
    from slotwise.service.api.context import ServiceContext

__all__ = ["Handler", "Meter", "Operation", "OperationLink"]

Handler = Callable[["ServiceContext", Request], Awaitable[Answer | StreamAnswer | msgspec.Struct]]
Meter = Literal["decide", "events", "clicks", "calls"]


@dataclass(frozen=True)
class OperationLink:
    """A value of this operation's answer that another operation takes.

    `values` are OpenAPI runtime expressions by parameter; `body` one for fields of the body.
    """

    to: str
    values: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one address.

    `handler` takes the running service and a checked request. It returns a record, which is
    answered as JSON with `status`, or an `Answer` of its own, or raises a problem.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    scope: Scope | None
    """Which keys may call it; None lets everybody."""
    open_on_loopback: bool = False
    """Whether somebody at this very machine may call it without a key."""
    meter: Meter = "calls"
    """Which rate limit counts its calls."""
    body: Any = None
    body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    path_choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of a path's names where there are only a few; others are answered 404."""
    answer: Any = None
    status: int = 200
    content_types: tuple[str, ...] = ("application/json",)
    problems: tuple[str, ...] = ()
    """Slugs that only this operation's own work can bring about."""
    example: Any = None
    answer_example: Any = None
    links: tuple[OperationLink, ...] = ()
