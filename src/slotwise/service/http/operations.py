"""The declaration of one operation: all that routing, checking and OpenAPI know about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from slotwise.service.http.exchange import Answer, Key, Request, StreamAnswer

__all__ = ["Handler", "Headers", "Operation", "OperationLink"]

Context = TypeVar("Context")
Headers = tuple[tuple[bytes, bytes], ...]
Handler = Callable[[Context, Request[Key]], Awaitable[Answer | StreamAnswer | msgspec.Struct]]


@dataclass(frozen=True)
class OperationLink:
    """A value of this operation's answer that another operation takes.

    `values` are OpenAPI runtime expressions by parameter; `body` one for fields of the body.
    """

    to: str
    values: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation(Generic[Context, Key]):
    """One method of one address.

    `handler` takes the context of the application and a checked request. It returns a record,
    which is answered as JSON with `status`, or an `Answer`, or raises a problem.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler[Context, Key]
    scope: str | None
    """The scope that a key needs; None: no key is needed."""
    open_on_loopback: bool = False
    """Whether a person at this machine may call it without a key."""
    meter: str | None = "calls"
    """The rate limit that counts its calls; None: the handler does it itself."""
    body: Any = None
    body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    path_choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The allowed values of names in the path; any other value is answered with 404."""
    answer: Any = None
    status: int = 200
    content_types: tuple[str, ...] = ("application/json",)
    problems: tuple[str, ...] = ()
    """Problems that this operation itself can answer with, beside those of every operation."""
    refusal_headers: Callable[[Context, Request[Key]], Headers] | None = None
    """Makes headers for every problem answer; it must not raise."""
    example: Any = None
    answer_example: Any = None
    links: tuple[OperationLink, ...] = ()
