"""From a method and a path to the operation that answers it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from slotwise.errors import InvalidInput
from slotwise.service.http.operations import Operation
from slotwise.service.http.problems import FieldError, RequestProblem

__all__ = ["ID_PATTERN", "Router"]

ID_PATTERN = r"^[A-Za-z0-9._:-]{1,64}$(?!\n)"
# In Python `$` also matches before a final newline, which no id may have.
_is_id = re.compile(ID_PATTERN).fullmatch
_METHODS = "methods"
_VALUE = "{}"


class Router:
    """A tree of path segments; `{name}` segments are ids, and the token of a click link."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root: dict[str, Any] = {}
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
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

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """Return the operation and the values in its path, or refuse with 404, 405 or 422."""
        node = self._root
        values = []
        for segment in path.split("/")[1:]:
            below = node.get("/" + segment)
            if below is None:
                below = node.get(_VALUE)
                if below is None or not segment:
                    raise RequestProblem("unknown-route", "see /openapi.json for what is here")
                values.append(segment)
            node = below
        methods = node.get(_METHODS)
        if methods is None:
            raise RequestProblem("unknown-route", "see /openapi.json for what is here")
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
            if name != "token" and not _is_id(value):
                rule = f"`{name}` must match [A-Za-z0-9._:-]{{1,64}}, got {value[:80]!r}"
                error = FieldError(rule, parameter=name)
                raise RequestProblem("validation", rule, errors=[error])
        return operation, dict(zip(names, values, strict=True))
