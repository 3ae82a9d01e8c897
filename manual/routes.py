"""Every route of the service with its bodies, answers and problems, as OpenAPI describes them."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

from manual.markdown import code, fence, table
from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.api.context import Operation
from slotwise.service.http.openapi import openapi_document

SECTIONS = (
    ("Pools", "/v1/pools"),
    ("Feedback", "/v1/events"),
    ("Decisions", "/v1/decisions"),
    ("Click links", "/r/"),
    ("Keys", "/v1/keys"),
    ("Browsers", ("/dashboard", "/slotwise.js", "/v/")),
    ("Running it", "/"),
)
"""Headings with what the addresses below them start with; the first that fits takes it."""


def routes_reference() -> str:
    """Return the table of all calls, then a section for each with everything it takes."""
    operations = list(ALL_OPERATIONS)
    document = openapi_document(operations)
    parts = [_overview(operations)]
    for heading, _ in SECTIONS:
        inside = [one for one in operations if _heading(one) == heading]
        if inside:
            parts.append(f"## {heading}")
            parts += [_section(operation, document) for operation in inside]
    return "\n\n".join(parts)


def _heading(operation: Operation) -> str:
    return next(name for name, beginnings in SECTIONS if operation.path.startswith(beginnings))


def _anchor(operation: Operation) -> str:
    return operation.name.replace("_", "-")


def _overview(operations: list[Operation]) -> str:
    rows = [
        [
            f"[`{one.method} {one.path}`](#{_anchor(one)})",
            one.scope or "none",
            one.summary,
        ]
        for one in operations
    ]
    return table(["call", "key scope", "what it does"], rows)


def _section(operation: Operation, document: Mapping[str, Any]) -> str:
    described = document["paths"][operation.path][operation.method.lower()]
    heading = f"### `{operation.method} {operation.path}` {{ #{_anchor(operation)} }}"
    parts = []
    query = [one for one in described.get("parameters", ()) if one["in"] == "query"]
    if query:
        rows = [
            [code(one["name"]), _type(one["schema"], document), meaning_of(one["schema"], document)]
            for one in query
        ]
        parts.append(table(["in the address", "type", "meaning"], rows))
    body = described.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        parts.append(_body(body["schema"], document))
        if "example" in body:
            parts.append(fence(json.dumps(body["example"], indent=2), "json"))
    answer = described["responses"][str(operation.status)].get("content", {})
    example = answer.get("application/json", {}).get("example")
    kinds = ", ".join(code(kind) for kind in answer) or "no body"
    parts.append(f"Answers {operation.status} with {kinds}.")
    if example is not None:
        parts.append(fence(json.dumps(example, indent=2), "json"))
    if operation.problems:
        named = ", ".join(f"[`{slug}`](problems.md#{slug})" for slug in operation.problems)
        parts.append(f"Problems of its own: {named}.")
    # It opens on a click: some answers are hundreds of lines long.
    summary = f"<summary>{html.escape(operation.summary)}. {_who(operation)}</summary>"
    return "\n\n".join([heading, f'<details markdown="1">\n{summary}', *parts, "</details>"])


def _who(operation: Operation) -> str:
    if operation.scope is None:
        return "Needs no key."
    here = ", or none on the machine itself" if operation.open_on_loopback else ""
    return f"Needs a key with scope <code>{operation.scope}</code>{here}."


def _body(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the fields of a body; one that may have several shapes gets a table for each."""
    found = _resolved(schema, document)
    shapes = found.get("anyOf") or found.get("oneOf") or [found]
    parts = []
    for shape in shapes:
        each = _resolved(shape, document)
        required = set(each.get("required", ()))
        rows = [
            [
                code(name),
                _type(field, document),
                "required" if name in required else _json(field.get("default")),
                meaning_of(field, document),
            ]
            for name, field in each.get("properties", {}).items()
        ]
        parts.append(table(["field", "type", "default", "meaning"], rows))
    return "\n\n".join(parts)


def meaning_of(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return what a value is for; one that may be left out says it in the type it has else."""
    found = _resolved(schema, document)
    options = [found, *(_resolved(one, document) for one in found.get("anyOf", ()))]
    return next((one["description"] for one in options if "description" in one), "")


def _json(default: object) -> str:
    return "left out" if default is None else code(json.dumps(default))


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    named: Mapping[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]
    return {**named, **{key: value for key, value in schema.items() if key != "$ref"}}


def _type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the type of a value in a few words, with its bounds."""
    schema = _resolved(schema, document)
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(code(json.dumps(value)) for value in values)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(option, document) for option in options)
    kind = schema.get("type", "anything")
    if kind == "array" and "items" in schema:
        return f"list of {_type(schema['items'], document)}"
    if kind == "object" and "properties" in schema:
        return "object of " + ", ".join(code(name) for name in schema["properties"])
    bounds = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
        "maxLength": "at most {} characters",
    }
    said = [words.format(schema[key]) for key, words in bounds.items() if key in schema]
    return ", ".join([str(kind), *said])
