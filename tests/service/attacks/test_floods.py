"""Floods of garbage tokens and keys: they are refused, and genuine visitors are not."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from slotwise.service.http.protocol import HttpProtocol
from slotwise.service.limits import MAX_PIPELINED
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.attacks.conftest import Line
from tests.service.conftest import http, problem_of, until
from tests.service.forked_server import ForkedServer

N_GARBAGE = 600
N_PIPELINED = 400
PIPELINED = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def test_garbage_tokens_do_not_stop_genuine_clicks(server: BackgroundServer) -> None:
    """Every request has one address, as behind a proxy that nobody configured."""
    with http(server.url, server.admin_key) as admin, http(server.url, None) as visitor:
        pages = [admin.post("/v1/pools/home/decide").json() for _ in range(50)]

        def garbage(number: int) -> str:
            path = "/r/" if number % 2 else "/v/"
            method = "GET" if number % 2 else "POST"
            kind: str = problem_of(visitor.request(method, f"{path}v1.x.{number}.0"))["type"]
            return kind

        with ThreadPoolExecutor(4) as senders:
            refused = list(senders.map(garbage, range(N_GARBAGE)))
        assert set(refused) == {"unknown-token", "rate-limited"}
        for page in pages:
            for link in page["links"]:
                followed = visitor.get(link["click_url"])
                assert followed.status_code == 302
                assert followed.headers["location"] == link["url"]


def test_one_genuine_link_can_be_followed_without_end(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin, http(server.url, None) as visitor:
        page = admin.post("/v1/pools/home/decide").json()
        link = page["links"][0]
        before = server.context.metrics.redirects.copy()
        replays = server.context.limits["replays"]
        for number in range(20):
            if number == 10:
                full_s = time.monotonic() + 10
                replays.spend(page["decision_id"], now_s=full_s, n=1_000_000)
            assert visitor.get(link["click_url"]).headers["location"] == link["url"]
        outcomes = server.context.metrics.redirects - before
        assert outcomes["accepted"] == 1
        assert outcomes["duplicate"] == 9
        assert outcomes["repeated"] == 10
        report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
        assert report["clicked"] == [link["link_id"]]


def test_wrong_keys_are_slowed_down_and_right_ones_are_not(server: BackgroundServer) -> None:
    with http(server.url, "sw_ak_" + "A" * 43) as thief, http(server.url, None) as nobody:
        refused = [problem_of(thief.get("/v1/pools"))["type"] for _ in range(100)]
        refused += [problem_of(nobody.get("/v1/pools"))["type"] for _ in range(20)]
    assert refused[0] == "unknown-key"
    assert refused.count("rate-limited") >= 50
    with http(server.url, server.admin_key) as admin:
        assert all(admin.get("/v1/pools").status_code == 200 for _ in range(100))


def test_refusals_are_logged_in_summary(
    server: BackgroundServer, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server.context.refusals.log()
    caplog.clear()
    with caplog.at_level("INFO", "slotwise.service"), http(server.url, "wrong") as thief:
        for _ in range(300):
            thief.get("/v1/pools")
        server.context.refusals.log()
    lines = [record for record in caplog.records if record.name == "slotwise.service"]
    assert [line.getMessage() for line in lines] == ["requests.refused"]
    fields = lines[0].__dict__["fields"]
    assert sum(fields["problems"].values()) == 300
    assert fields["networks"] == {"127.0.0.0/24": 300}
    with http(server.url, server.admin_key) as admin:
        assert 'slotwise_refusals_total{problem="unknown-key"}' in admin.get("/metrics").text


@pytest.mark.parametrize(
    ("forwarded", "is_limited"),
    [(True, False), (False, True)],
    ids=["one visitor each", "no proxy header"],
)
def test_behind_a_trusted_proxy_each_visitor_has_a_budget(
    server: BackgroundServer, forwarded: bool, is_limited: bool
) -> None:
    with http(server.url, None) as proxy:
        kinds = set()
        for number in range(120):
            headers = {"x-forwarded-for": f"6.6.6.6, 198.51.100.{number}"} if forwarded else {}
            kinds.add(problem_of(proxy.get("/v1/pools", headers=headers))["type"])
    assert ("rate-limited" in kinds) is is_limited


def test_who_is_not_a_trusted_proxy_cannot_choose_its_address(tmp_path: Path) -> None:
    settings = Settings(port=0, store=str(tmp_path / "store.db"), refused_keys_per_s=20.0)
    with BackgroundServer(settings) as server, http(server.url, None) as attacker:
        kinds = [
            problem_of(
                attacker.get("/v1/pools", headers={"x-forwarded-for": f"198.51.100.{number}"})
            )["type"]
            for number in range(120)
        ]
    assert "rate-limited" in kinds


def test_one_bad_byte_spoils_one_event_only(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin:
        page = admin.post("/v1/pools/home/decide").json()
        click = {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}
        good = json.dumps({"type": "click", **click}).encode()
        bad = good.replace(b'"click"', b'"cl\xffck"')
        worse = good.replace(page["decision_id"].encode(), b"\xc3\x28")
        body = b'{"events": [' + b",".join([bad, good, worse]) + b"]}"
        json_type = {"content-type": "application/json"}
        answer = admin.post("/v1/events:batch", content=body, headers=json_type)
        assert answer.status_code == 200, answer.text
        outcomes = [one["outcome"] for one in answer.json()["outcomes"]]
        assert outcomes == ["rejected", "accepted", "rejected"]
        single = admin.post("/v1/events", content=bad, headers=json_type)
        assert problem_of(single)["type"] in ("invalid-json", "validation")


def test_a_sale_above_max_revenue_counts_as_max_revenue(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin:
        page = admin.post("/v1/pools/home/decide").json()
        link_id = page["links"][0]["link_id"]
        named = {"decision_id": page["decision_id"], "link_id": link_id}
        sale = {"conversion_id": "large-1", "revenue_micros": 90_000_000, "currency": "EUR"}
        events = [{"type": "click", **named}, {"type": "conversion", **named, **sale}]
        before = server.context.metrics.n_clipped_sales
        answer = admin.post("/v1/events:batch", json={"events": events}).json()
        assert [one["outcome"] for one in answer["outcomes"]] == ["accepted", "accepted"]
        assert answer["outcomes"][1]["reason"] == "above-max-revenue"
        report = admin.get(f"/v1/decisions/{page['decision_id']}").json()
        assert report["revenue_micros"] == {link_id: 50_000_000}
        assert server.context.metrics.n_clipped_sales == before + 1


def test_few_requests_of_a_connection_are_in_flight(
    server: BackgroundServer, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are not read until the server stops sending; then every request has one."""
    most = 0
    parse = HttpProtocol.on_message_complete

    def count(connection: HttpProtocol) -> None:
        nonlocal most
        parse(connection)
        most = max(most, len(connection.pipeline))

    monkeypatch.setattr(HttpProtocol, "on_message_complete", count)
    connections = cast(set[HttpProtocol], server.server.server_state.connections)
    earlier = set(connections)
    one = line()
    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    sender = threading.Thread(target=one.sendall, args=(request * N_PIPELINED,))
    sender.start()
    until(lambda: any(new.flow.write_paused for new in connections - earlier))
    n_answers = 0
    received = b""
    while n_answers < N_PIPELINED:
        received = received[-14:] + one.recv(1 << 20)
        n_answers += received.count(b"HTTP/1.1 200 OK")
    sender.join()
    assert n_answers == N_PIPELINED
    assert most <= MAX_PIPELINED + 32


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_pipelined_requests_fill_no_memory(tmp_path: Path) -> None:
    """80 connections with 14,000 requests each, whose answers nobody reads."""
    server = ForkedServer(tmp_path / "pipelined.db", "--set", "calls_per_s=1e9")
    key = server.admin_key()
    place = server.url.removeprefix("http://").split(":")
    lines: list[socket.socket] = []
    try:
        with http(server.url, key) as admin:
            for _ in range(50):
                assert admin.get("/healthz").status_code == 200
            before = resident_kb(server.pid)
            for _ in range(80):
                line = socket.create_connection((place[0], int(place[1])))
                line.setblocking(False)
                lines.append(line)
            left = {line: 14_000 * len(PIPELINED) for line in lines}
            for _ in range(50):  # as much as the server takes, and it goes on answering others
                for line in lines:
                    with contextlib.suppress(BlockingIOError):
                        left[line] -= line.send(PIPELINED * min(700, left[line] // len(PIPELINED)))
                assert admin.get("/healthz").status_code == 200
            during = resident_kb(server.pid)
            for line in lines:
                line.close()
            for _ in range(50):
                assert admin.get("/healthz").status_code == 200
            until(lambda: resident_kb(server.pid) <= before + 50_000)
        assert during <= before + 50_000
    finally:
        server.kill()
