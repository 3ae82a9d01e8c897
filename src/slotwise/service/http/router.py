"""Find the operation for a method and a path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotwise.errors import InvalidInput
from slotwise.service.http.operations import Operation
from slotwise.service.http.problems import RequestProblem, broken_rule
from slotwise.service.limits import ID_RULE, is_id

__all__ = ["Router"]

_METHODS = "methods"
_VALUE = "{}"
_WHAT_IS_HERE = "the dashboard is at /, and /openapi.json lists all calls"


class Router:
    """A tree of path segments; a `{name}` segment is an id, or the token of a click link."""

    def __init__(self, operations: Iterable[Operation[Any, Any]]) -> None:
        self._root: dict[str, Any] = {}
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation[Any, Any]) -> None:
        names = []
        node = self._root
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node = node.setdefault(_VALUE, {})
            else:
                node = node.setdefault("/" + segment, {})
        methods = node.setdefault(_METHODS, {})
        if operation.method in methods:
            taken = f"{operation.method} {operation.path}"
            raise InvalidInput.of("operations", "one for each method and path", taken)
        methods[operation.method] = (operation, tuple(names))

    def find(self, method: str, path: str) -> tuple[Operation[Any, Any], dict[str, str]]:
        """Return the operation and the values in its path, or refuse with 404, 405 or 422."""
        node = self._root
        values = []
        for segment in path.split("/")[1:]:
            below = node.get("/" + segment)
            if below is None:
                below = node.get(_VALUE)
                if below is None or not segment:
                    raise RequestProblem("unknown-route", _WHAT_IS_HERE)
                values.append(segment)
            node = below
        methods = node.get(_METHODS)
        if methods is None:
            raise RequestProblem("unknown-route", _WHAT_IS_HERE)
        found = methods.get(method)
        if found is None:
            allowed = ", ".join(methods)
            raise RequestProblem(
                "method-not-allowed",
                f"`method` must be one of {allowed}, got {method[:20]!r}",
                headers=[(b"allow", allowed.encode())],
            )
        operation, names = found
        for name, value in zip(names, values, strict=True):
            if name != "token" and not is_id(value):
                rule = f"`{name}` must be {ID_RULE}, got {value[:80]!r}"
                raise broken_rule(rule, parameter=name)
        return operation, dict(zip(names, values, strict=True))
