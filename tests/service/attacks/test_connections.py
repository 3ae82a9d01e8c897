"""Connections that send too much, too slowly, or nothing: bounded, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from slotwise.service import server as server_module
from slotwise.service.limits import MAX_HEAD_BYTES, MAX_HEADERS
from slotwise.service.server import BackgroundServer
from tests.service.attacks.conftest import Line, all_received
from tests.service.conftest import http

LIMITS = {"head_within_s": 0.5, "body_within_s": 0.5, "read_within_s": 0.5}
HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(scope="module", autouse=True)
def every_tick_looks_at_the_limits() -> Iterator[None]:
    """Nobody waits for the end of a second in which a limit was broken."""
    with patch.object(server_module, "_TICKS_PER_S", 1):
        yield


def send_all(line: socket.socket, data: bytes) -> None:
    """Send as much as the server takes: it may close the connection before the end."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        line.sendall(data)


def problem_in(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head, answer[:300]
    problem: dict[str, Any] = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % problem["status"])
    return problem


def n_refused(server: BackgroundServer, problem: str) -> int:
    return server.context.refusals.total[problem]


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n",
        HEAD + b"x: " + b"y" * (2 * MAX_HEAD_BYTES) + b"\r\n\r\n",
        HEAD + b"x: " + b"y" * (20 * MAX_HEAD_BYTES),
        HEAD + b"x" * (20 * MAX_HEAD_BYTES),
        b"GET /" + b"x" * (20 * MAX_HEAD_BYTES),
        HEAD + b"".join(b"x%d: %s\r\n" % (n, b"y" * 2000) for n in range(90)) + b"\r\n",
    ],
    ids=["many headers", "long", "endless value", "endless name", "endless path", "large in sum"],
)
def test_a_head_that_is_too_large_is_refused(line: Line, sent: bytes) -> None:
    one = line()
    send_all(one, sent)
    answer = all_received(one)
    if answer:  # a reset may overtake the answer where more was sent than read
        assert problem_in(answer)["type"] in ("head-too-large", "invalid-http")


def test_endless_headers_take_no_memory(server: BackgroundServer, line: Line) -> None:
    before = n_refused(server, "head-too-large")
    one = line()
    n_sent = 0
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        one.sendall(HEAD + b"x: ")
        while n_sent < 200_000_000:
            one.sendall(b"y" * 65536)
            n_sent += 65536
    assert n_sent < 100_000_000, "far more was taken than any socket buffer holds"
    assert n_refused(server, "head-too-large") == before + 1


def test_endless_trailers_are_refused(server: BackgroundServer, line: Line) -> None:
    before = n_refused(server, "head-too-large")
    one = line()
    send_all(one, b"POST /v1/events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    send_all(one, b"x: " + b"y" * (20 * MAX_HEAD_BYTES))
    all_received(one)
    assert n_refused(server, "head-too-large") == before + 1


@pytest.mark.parametrize("trailer", ["authorization: Bearer {}", "cookie: {}", "x-request-id: t"])
def test_trailers_are_no_headers(server: BackgroundServer, line: Line, trailer: str) -> None:
    """Both requests come in one piece, so that trailers are parsed before the first is handled."""
    one = line()
    one.sendall(
        b"GET /v1/pools HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
        + trailer.format(server.admin_key).encode()
        + b"\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    first, _, second = all_received(one).partition(b"HTTP/1.1 200")
    assert first.startswith(b"HTTP/1.1 401")
    assert b"missing-key" in first
    assert b"x-request-id: t\r\n" not in first
    assert second


def test_who_does_not_go_on_is_cut_off(server: BackgroundServer, line: Line) -> None:
    before = n_refused(server, "timeout")
    post = b"POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    sent = {
        "silent": b"",
        "half a line": b"GET /hea",
        "half a head": HEAD + b"x: y\r\n",
        "half a body": post % 1000 + b"{",
        "second head": HEAD + b"\r\n" + b"GET /hea",
        "second body": HEAD + b"\r\n" + post % 9,
    }
    lines = {name: line() for name in sent}
    for name, one in lines.items():
        one.sendall(sent[name])
    for name, one in lines.items():
        one.settimeout(60)
        try:
            all_received(one)
        except TimeoutError:
            pytest.fail(f"{name}: still open")
    assert n_refused(server, "timeout") == before + len(sent)


def test_a_byte_at_a_time_does_not_help(server: BackgroundServer, line: Line) -> None:
    before = n_refused(server, "timeout")
    one = line()
    one.settimeout(0.05)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for byte in HEAD + b"x: " + b"y" * 60_000:
            one.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                if not one.recv(1):
                    break
    assert n_refused(server, "timeout") == before + 1


def test_who_does_not_read_is_cut_off(server: BackgroundServer, line: Line) -> None:
    before = n_refused(server, "timeout")
    one = line()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    while n_refused(server, "timeout") == before:
        try:
            one.settimeout(1)
            one.sendall(request)
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
    assert n_refused(server, "timeout") == before + 1


def test_idle_connections_stay_open_between_requests(line: Line) -> None:
    """The limits are for requests that began: a pool of connections may rest."""
    one, silent = line(), line()
    one.sendall(HEAD + b"\r\n")
    assert one.recv(65536).startswith(b"HTTP/1.1 200")
    all_received(silent)  # longer than any of the limits
    one.sendall(HEAD + b"\r\n")
    assert one.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_client_that_closes_its_half_gets_all_its_answers(line: Line) -> None:
    one = line()
    one.sendall((HEAD + b"\r\n") * 3)
    one.shutdown(socket.SHUT_WR)
    assert all_received(one).count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("name", [b"host", b"Authorization", b"Origin"])
def test_a_header_that_names_one_thing_is_given_once(line: Line, name: bytes) -> None:
    one = line()
    one.sendall(HEAD + name + b": a\r\n" + name + b": b\r\nconnection: close\r\n\r\n")
    assert problem_in(all_received(one))["type"] == "invalid-http"


@pytest.mark.parametrize(
    ("path", "headers", "refusal"),
    [
        ("/dashboard/session", {"origin": "https://other.example"}, "other-origin"),
        ("/dashboard/session", {"content-length": "1025"}, "body-too-large"),
        ("/v1/pools/home/page", {"origin": "https://other.example"}, "wrong-host"),
        ("/v1/pools/home/page", {"content-length": "16385"}, "body-too-large"),
    ],
)
def test_a_request_is_refused_by_its_head_before_its_body_is_sent(
    server: BackgroundServer, line: Line, path: str, headers: dict[str, str], refusal: str
) -> None:
    with http(server.url, server.admin_key) as admin:
        made = admin.post("/v1/keys", json={"scopes": ["page"], "pool_id": "home"}).json()
    common = {
        "host": "x",
        "connection": "close",
        "content-type": "application/json",
        "content-length": "1000",
        "authorization": f"Bearer {made['key']}",
        "origin": "https://shop.example" if path.endswith("page") else "http://x",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in (common | headers).items())
    one = line()
    one.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode())
    assert problem_in(all_received(one))["type"] == refusal


def test_a_crowd_is_refused_and_leaves_room_when_it_goes(
    server: BackgroundServer, line: Line
) -> None:
    crowd = [line() for _ in range(60)]
    answers = [all_received(one) for one in crowd]
    refused = [answer for answer in answers if answer]
    assert len(refused) >= 20
    assert {problem_in(answer)["type"] for answer in refused} == {"too-many-connections"}
    assert httpx.get(f"{server.url}/healthz").status_code == 200
