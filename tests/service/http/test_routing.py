"""Paths that were found before are found again without a search."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.http import routing
from slotwise.service.http.problems import RequestProblem
from slotwise.service.http.routing import Router


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Router:
    monkeypatch.setattr(routing, "_MAX_FOUND", 3)
    return Router(ALL_OPERATIONS)


def found(router: Router, method: str, path: str) -> tuple[str, dict[str, str]]:
    operation, values = router.find(method, path)
    return operation.name, dict(values)


def refuse(*_: Any) -> None:
    raise AssertionError("searched again")


def test_a_path_is_searched_once_for_each_method(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        ("POST", "/v1/pools/home/decide"),
        ("GET", "/v1/pools/home"),
        ("PUT", "/v1/pools/home"),
    ]
    first = [found(router, *one) for one in asked]
    monkeypatch.setattr(router, "_search", refuse)
    assert [found(router, *one) for one in asked] == first
    assert first[0] == ("decide", {"pool_id": "home"})
    assert len({name for name, _ in first}) == 3


def test_what_is_kept_is_bounded_and_never_a_refusal(router: Router) -> None:
    for number in range(10):
        assert found(router, "GET", f"/v1/pools/p{number}")[1] == {"pool_id": f"p{number}"}
        assert len(router._found) <= 3
    kept = set(router._found)
    refused = ("/v1/nothing", "/v1/pools/two words", "/v1/pools/p1/decide/x")
    for path in refused:
        for _ in range(2):
            with pytest.raises(RequestProblem):
                router.find("GET", path)
    with pytest.raises(RequestProblem):
        router.find("PATCH", "/v1/pools")
    assert set(router._found) == kept


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/r/v2.k1~home~d1~1700000000000~8-0~00ff~2~l9"),
        ("GET", "/v1/decisions/d1"),
        ("POST", "/ofrep/v1/evaluate/flags/" + "x" * 60_000),
    ],
)
def test_paths_of_one_visitor_and_of_any_length_are_not_kept(
    router: Router, method: str, path: str
) -> None:
    router.find(method, path)
    assert not router._found
