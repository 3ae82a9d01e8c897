"""Revisions of pools, links and rules: a change of what somebody else has changed is refused."""

from __future__ import annotations

import httpx
import pytest

from tests.service.conftest import problem_of

CASES = [
    ("/v1/pools/{}", "PATCH", {"holdout": 0.1}, {"holdout": 0.2}),
    ("/v1/pools/{}/links/l1", "PATCH", {"title": "A"}, {"title": "B"}),
    (
        "/v1/pools/{}/rules",
        "PUT",
        {"rules": [{"name": "a", "links": ["l1"], "at_most": 1}]},
        {"rules": []},
    ),
]


@pytest.mark.parametrize(("path", "method", "mine", "theirs"), CASES)
def test_a_change_of_something_outdated_is_refused(
    admin: httpx.Client, pool: str, path: str, method: str, mine: object, theirs: object
) -> None:
    path = path.format(pool)
    read = admin.get(path)
    tag = {"if-match": read.headers["etag"]}
    changed = admin.request(method, path, json=mine, headers=tag)
    assert changed.status_code == 200, changed.text
    assert changed.headers["etag"] != tag["if-match"]
    problem = problem_of(admin.request(method, path, json=theirs, headers=tag))
    assert (problem["status"], problem["type"]) == (412, "outdated")
    assert "somebody else changed" in problem["detail"]
    again = admin.get(path)
    assert again.headers["etag"] == changed.headers["etag"]
    present = {"if-match": again.headers["etag"]}
    assert admin.request(method, path, json=theirs, headers=present).status_code == 200
    assert admin.request(method, path, json=mine, headers={"if-match": "*"}).status_code == 200
    assert admin.request(method, path, json=theirs).status_code == 200


@pytest.mark.parametrize("tag", ['"17"', 'W/"17"', "17", '"x"', '"1", "2"'])
def test_another_tag_changes_nothing(admin: httpx.Client, pool: str, tag: str) -> None:
    for method, path in (("DELETE", ""), ("DELETE", "/links/l1"), ("PUT", "/links/new")):
        body = {"url": "https://shop.example/new"} if method == "PUT" else None
        address = f"/v1/pools/{pool}{path}"
        sent = admin.request(method, address, headers={"if-match": tag}, json=body)
        assert problem_of(sent)["type"] == "outdated"
    assert admin.get(f"/v1/pools/{pool}").json()["archived"] is False
    assert admin.get(f"/v1/pools/{pool}/links/l1").json()["retired"] is False
    assert admin.get(f"/v1/pools/{pool}/links/new").status_code == 404
