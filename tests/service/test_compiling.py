"""While a policy is compiled the service listens, says so, and answers in the fallback order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from slotwise.policies import Policy, default_policy
from slotwise.service import service as service_module
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.learning.pool_run import RoundPosition
from slotwise.service.pool import Pool
from slotwise.service.records import DAY_US
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http, problem_of

LINKS = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(1, 5)]


class SlowCompiler:
    """Stands for the compiler: takes until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.policies: list[str] = []

    def __call__(self, pool: Pool) -> None:
        self.policies.append(pool.settings.policy)
        assert self.go_on.wait(300)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowCompiler]:
    slow = SlowCompiler()
    monkeypatch.setattr(service_module, "warm_up", slow)
    yield slow
    slow.go_on.set()


def start(tmp_path: Path) -> BackgroundServer:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'cold.db'}", fold_every_s=3600)
    return BackgroundServer(settings, compile_beside=True)


def wait_until_compiled(server: BackgroundServer) -> None:
    for compiled in server.context.service.first_compiled:
        compiled.result(300)


def make_pool(client: httpx.Client, others: dict[str, Any] | None = None) -> None:
    settings = POOL | {"fallback_order": ["l3", "l2"], "holdout": 0.5} | (others or {})
    client.put("/v1/pools/home", json=settings).raise_for_status()
    client.post("/v1/pools/home/links:batch", json={"links": LINKS}).raise_for_status()


def test_a_cold_service_listens_and_is_ready_when_the_default_is_compiled(
    tmp_path: Path, compiler: SlowCompiler
) -> None:
    with start(tmp_path) as server, http(server.url, server.admin_key) as client:
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        problem = problem_of(answer)
        assert problem["type"] == "compiling"
        assert problem["detail"].startswith(f"{default_policy().name}: compiled once on a machine")
        compiler.go_on.set()
        wait_until_compiled(server)
        assert client.get("/readyz").json() == {
            "ready": True,
            "store_available": True,
            "learning": True,
        }


def test_pages_come_in_the_fallback_order_until_their_policy_is_compiled(
    tmp_path: Path, compiler: SlowCompiler
) -> None:
    with start(tmp_path) as server, http(server.url, server.admin_key) as client:
        make_pool(client)
        for wish, expected in (
            ({}, ["l3", "l2"]),
            ({"exclude": ["l3"]}, ["l2", "l1"]),
            ({"pin": [{"link_id": "l4", "position": 1}]}, ["l4", "l3"]),
        ):
            page = client.post("/v1/pools/home/decide", json=wish).json()
            assert (page["fallback"], page["fallback_reason"]) == (True, "policy-compiling")
            assert [link["link_id"] for link in page["links"]] == expected
            assert {link["propensity"] for link in page["links"]} == {1.0}
            click = {"decision_id": page["decision_id"], "link_id": expected[0]}
            counted = client.post("/v1/events", json={"type": "click", **click})
            assert counted.json() == {"outcome": "accepted"}
        moved = client.patch("/v1/pools/home/links/l3", json={"url": "https://shop.example/new"})
        moved.raise_for_status()
        page = client.post("/v1/pools/home/decide").json()
        assert page["links"][0]["url"] == "https://shop.example/new"
        compiler.go_on.set()
        wait_until_compiled(server)
        service = server.context.service
        service._publisher._compiler.compile(service._publisher.runs["home"].pool).result(300)
        page = client.post("/v1/pools/home/decide").json()
        assert (page["fallback"], page["fallback_reason"]) == (False, "")


def test_a_restart_compiles_the_policies_of_its_pools_before_it_is_ready(
    tmp_path: Path, compiler: SlowCompiler
) -> None:
    with start(tmp_path) as server, http(server.url, server.admin_key) as client:
        key = server.admin_key
        make_pool(client)
    with start(tmp_path) as server, http(server.url, key) as client:
        assert client.get("/readyz").status_code == 503
        assert client.post("/v1/pools/home/decide").json()["fallback_reason"] == "policy-compiling"
        compiler.go_on.set()
        wait_until_compiled(server)
        assert set(compiler.policies[-2:]) == {"uniform", default_policy().name}
        assert client.post("/v1/pools/home/decide").json()["fallback"] is False
        assert client.get("/readyz").status_code == 200


def test_learning_goes_on_while_the_policy_of_a_pool_is_compiled(
    tmp_path: Path, compiler: SlowCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_policy = PolicyRun.started
    started_compiled: list[bool] = []

    def start_compiled(policy: Policy, *rest: Any) -> PolicyRun:
        started_compiled.append(compiler.go_on.is_set())
        return start_policy(policy, *rest)

    monkeypatch.setattr(PolicyRun, "started", start_compiled)
    with start(tmp_path) as server, http(server.url, server.admin_key) as client:
        make_pool(client, {"policy": {"name": default_policy().name}, "holdout": 0.0})
        service = server.context.service
        page = client.post("/v1/pools/home/decide").json()
        click = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        client.post("/v1/events", json={"type": "click", **click}).raise_for_status()
        later_us = time.time_ns() // 1000 + 2 * DAY_US
        service.learn(later_us)
        (group,) = client.get("/v1/pools/home/stats").json()["groups"]
        assert (group["click_views"], group["clicks_per_view"]["mean"]) == (1, 1.0)
        assert service._learner._runs["home"].fed_to == RoundPosition()
        compiler.go_on.set()
        service._publisher._compiler.compile(service._publisher.runs["home"].pool).result(300)
        service.learn(later_us)
        assert service._learner._runs["home"].fed_to.decision_id == page["decision_id"]
    assert started_compiled, "the policy was to be fed"
    assert all(started_compiled), "the learning thread would have waited for the compiler"
