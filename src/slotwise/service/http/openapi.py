"""The OpenAPI 3.1 description, generated from the operations and their types. Used by `api`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from slotwise.service.http.problems import PROBLEMS, ProblemAnswer
from slotwise.service.http.routing import Operation
from slotwise.service.limits import ID_PATTERN, MAX_ID_CHARS, MAX_SEALED_CHARS
from slotwise.version import __version__

REFERENCE = "#/components/schemas/{name}"
"""The template of a reference to a schema."""
_PATH_VALUE = re.compile(r"\{(\w+)\}")
_TOKEN = {"type": "string", "minLength": 1, "maxLength": MAX_SEALED_CHARS, "pattern": "^[^/]+$"}
_ID = {"type": "string", "pattern": ID_PATTERN, "minLength": 1, "maxLength": MAX_ID_CHARS}


def openapi_document(operations: Iterable[Operation[Any, Any]]) -> dict[str, Any]:
    """Return the whole description."""
    operations = list(operations)
    types: list[Any] = [ProblemAnswer]
    for operation in operations:
        types += [one for one in (operation.body, operation.answer) if one not in (None, dict)]
        if operation.protocol_errors is not None:
            types.append(operation.protocol_errors.body)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schema_of = {str(one): schema for one, schema in zip(types, schemas, strict=True)}
    components[ProblemAnswer.__name__]["properties"]["type"] = {"enum": list(PROBLEMS)}

    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, schema_of)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "slotwise",
            "version": __version__,
            "summary": "Which links go on a page: most revenue under a click floor",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key with the scope that the operation names",
                }
            },
        },
    }
    portable: dict[str, Any] = _portable(msgspec.to_builtins(document))
    return portable


def _operation(operation: Operation[Any, Any], schema_of: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.scope:
        described["security"] = [{"key": []}]
        described["description"] = f"Needs a key with scope `{operation.scope}`."
        if operation.open_on_loopback:
            described["security"].append({})
            described["description"] += " On the machine itself it needs none."
    parameters = [*_path_parameters(operation), *_query_parameters(operation)]
    if operation.has_tag:
        parameters.append({"name": "If-None-Match", "in": "header", "schema": {"type": "string"}})
    if operation.has_revision and operation.method != "GET":
        about = "The ETag that was read: 412 if somebody else changed it since"
        schema = {"type": "string"}
        tag = {"name": "If-Match", "in": "header", "description": about, "schema": schema}
        parameters.append(tag)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"schema": schema_of[str(operation.body)]}
        if operation.example is not None:
            content["example"] = operation.example
        described["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": content},
        }
    described["responses"] = {
        str(operation.status): _success(operation, schema_of),
        **({"304": {"description": "Nothing has changed"}} if operation.has_tag else {}),
        **_problem_answers(operation, schema_of),
    }
    return described


def _path_parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    others: dict[str, Any] = {"token": _TOKEN}
    for name, values in operation.path_choices.items():
        others[name] = {"type": "string", "enum": list(values)}
    return [
        {"name": name, "in": "path", "required": True, "schema": others.get(name, _ID)}
        for name in _PATH_VALUE.findall(operation.path)
    ]


def _query_parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = msgspec.json.schema(operation.query, ref_template=REFERENCE)
    properties = schema["$defs"][operation.query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": described}
        for name, described in properties.items()
    ]


def _success(operation: Operation[Any, Any], schema_of: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": operation.summary}
    if operation.status == 302:
        location = {"description": "The link's registered address", "schema": {"type": "string"}}
        answer["headers"] = {"Location": location}
    if operation.has_tag:
        tag = {"description": "Send it as If-None-Match next time", "schema": {"type": "string"}}
        answer["headers"] = {"ETag": tag}
    if operation.has_revision:
        tag = {"description": "Send it as If-Match with a change", "schema": {"type": "string"}}
        answer["headers"] = {"ETag": tag}
    content: dict[str, Any] = {}
    for content_type in operation.content_types:
        is_text = content_type.startswith("text/")
        content[content_type] = {"schema": {"type": "string"}} if is_text else {}
        if content_type in ("application/json", "application/jsonl"):
            schema = {"type": "object"} if operation.answer is dict else None
            schema = schema or schema_of[str(operation.answer)]
            content[content_type]["schema"] = schema
        if content_type == "application/json" and operation.answer is not dict:
            content[content_type]["example"] = sample(inspect.type_info(operation.answer))
    if content:
        answer["content"] = content
    if operation.links:
        answer["links"] = {
            f"{operation.name}.{link.to}": {
                "operationId": link.to,
                **({"parameters": dict(link.values)} if link.values else {}),
                **({"requestBody": dict(link.body)} if link.body else {}),
            }
            for link in operation.links
        }
    return answer


_SAMPLES: dict[str, Any] = {
    "pool_id": "home",
    "link_id": "l1",
    "links": "l1",
    "own_page": "l1",
    "decision_id": "4rV0tQ9dR2m1",
    "key_id": "5f0c9a7d3b21e884",
    "policy": "paced-bayes",
    "currency": "EUR",
    "url": "https://shop.example/1",
    "click_url": "http://127.0.0.1:8460/r/v2.…",
    "allowed_hosts": "shop.example",
    "title": "Spring sale",
    "slots": 3,
    "views": 1000,
    "clicks": 30,
}
"""Example values of fields with these names."""


def sample(kind: inspect.Type, name: str = "") -> object:
    """Return an example of a value of a type; `name` is that of its field.

    >>> sample(inspect.type_info(dict[str, int] | None)), sample(inspect.StrType(), "pool_id")
    ({}, 'home')
    """
    match kind:
        case inspect.Metadata():
            return sample(kind.type, name)
        case inspect.StructType() | inspect.DataclassType():
            return {one.encode_name: sample(one.type, one.name) for one in kind.fields}
        case inspect.UnionType():
            some = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            return sample(some[0], name)
        case inspect.CollectionType():
            some_item = sample(kind.item_type, name)
            return [] if some_item is None else [some_item]
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return False
        case inspect.IntType():
            return _SAMPLES.get(name, 12_500_000 if name.endswith("_micros") else 1)
        case inspect.FloatType():
            return 0.5
        case inspect.DictType():
            return {}
        case inspect.StrType() if not name.endswith("_at"):
            return _SAMPLES.get(name, name if kind.min_length or kind.pattern else "")
        case inspect.StrType() | inspect.DateTimeType():
            return "2026-01-05T10:00:00Z"
    return None


def _problem_answers(
    operation: Operation[Any, Any], schema_of: Mapping[str, Any]
) -> dict[str, Any]:
    slugs = {"rate-limited", "internal", "store-away", *operation.problems}
    if operation.scope:
        slugs |= {"missing-key", "unknown-key", "wrong-scope"}
    if operation.body is not None:
        slugs |= {"invalid-json", "body-too-large", "unsupported-media-type"}
        slugs |= {"validation", "too-deep"}
    if operation.query is not None or _PATH_VALUE.search(operation.path):
        slugs |= {"validation", "head-too-large"}
    by_protocol: dict[str, Any] = {}
    if (errors := operation.protocol_errors) is not None:
        content = {"application/json": {"schema": schema_of[str(errors.body)]}}
        for slug in filter(slugs.__contains__, errors.statuses):
            described = {"description": PROBLEMS[slug].title, "content": content}
            by_protocol[str(errors.statuses[slug])] = described
        slugs -= errors.statuses.keys()
    by_status: dict[int, list[str]] = {}
    for slug in PROBLEMS:
        if slug in slugs:
            by_status.setdefault(PROBLEMS[slug].status, []).append(slug)
    return by_protocol | {
        str(status): {
            "description": "; ".join(f"`{slug}`: {PROBLEMS[slug].title}" for slug in found),
            "content": {
                "application/problem+json": {
                    "schema": schema_of[str(ProblemAnswer)],
                    "example": {
                        "type": found[0],
                        "title": PROBLEMS[found[0]].title,
                        "status": status,
                    },
                }
            },
        }
        for status, found in sorted(by_status.items())
    }


def _portable(schema: object) -> Any:
    """Adapt parts written for Python: patterns, and docstrings beyond their first line.

    In ECMAScript `$` never matches before a final newline.
    """
    if isinstance(schema, dict):
        portable = {name: _portable(value) for name, value in schema.items()}
        if isinstance(pattern := portable.get("pattern"), str):
            portable["pattern"] = pattern.replace(r"$(?!\n)", "$")
        if isinstance(description := portable.get("description"), str):
            portable["description"] = description.partition("\n\n")[0]
        return portable
    if isinstance(schema, list | tuple):
        return [_portable(item) for item in schema]
    return schema
