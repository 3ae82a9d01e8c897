"""The OpenAPI description: generated, committed, and true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.api.context import Operation
from slotwise.service.http.openapi import openapi_document
from slotwise.service.http.problems import PROBLEMS

DOCUMENT = openapi_document(ALL_OPERATIONS)
COMMITTED = Path("docs/openapi.json")


def test_the_committed_description_is_the_generated_one() -> None:
    """Fix it with `python -m slotwise.service.api > docs/openapi.json`; look at the diff."""
    assert json.loads(COMMITTED.read_text()) == DOCUMENT


def test_the_service_answers_the_description(visitor: httpx.Client) -> None:
    assert visitor.get("/openapi.json").json() == DOCUMENT


def test_components_have_plain_names() -> None:
    """A name with a module in it would change when a file moves, and generated clients with it."""
    names = DOCUMENT["components"]["schemas"]
    assert len(names) > 30
    assert not [name for name in names if not name.isidentifier()]


def described(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][operation.path][operation.method.lower()]
    return found


def check(schema: dict[str, Any], value: object) -> None:
    whole = schema | {"components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(value)


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
def test_examples_keep_their_schema(operation: Operation) -> None:
    description = described(operation)
    if operation.body is not None:
        content = description["requestBody"]["content"]["application/json"]
        check(content["schema"], content["example"])
    for status, answer in description["responses"].items():
        for content_type, content in answer.get("content", {}).items():
            if status == str(operation.status) and content_type == "application/json":
                assert "example" in content or operation.answer is dict
            if "example" in content:
                check(content["schema"], content["example"])


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_that_takes_a_body_shows_one(operation: Operation) -> None:
    assert (operation.body is None) == (operation.example is None)


def test_links_lead_to_operations_and_their_parameters() -> None:
    by_name = {operation.name: operation for operation in ALL_OPERATIONS}
    n_links = 0
    for operation in ALL_OPERATIONS:
        for link in operation.links:
            n_links += 1
            target = described(by_name[link.to])
            names = {parameter["name"] for parameter in target.get("parameters", ())}
            assert set(link.values) <= names
    assert n_links >= 10


def test_operations_have_different_names() -> None:
    assert len({operation.name for operation in ALL_OPERATIONS}) == len(ALL_OPERATIONS)


def test_every_problem_of_an_operation_is_one() -> None:
    for operation in ALL_OPERATIONS:
        assert set(operation.problems) <= set(PROBLEMS)
