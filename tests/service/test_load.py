"""The client of the service's benchmark: it counts every delay of the server."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from threading import Event

import httpx
import pytest

from benchmarks.service.load import Load, Received, answer_in
from benchmarks.service.open_loop import run_open_loop
from tests.loopback_server import LoopbackServer

ANSWER_S = 0.005
SET_TIMER_SLACK, GET_TIMER_SLACK = 29, 30
"""PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of prctl(2)."""


class SlowHandler(BaseHTTPRequestHandler):
    """Answers a request after a while."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        Event().wait(ANSWER_S)
        self.send_response(200 if self.path == "/good" else 500)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


@pytest.fixture
def load() -> Iterator[Load]:
    server = LoopbackServer(SlowHandler)
    address = httpx.URL(server.url)
    good, bad = (f"GET /{name} HTTP/1.1\r\nHost: x\r\n\r\n" for name in ("good", "bad"))
    yield Load(address.host, address.port or 80, [good] * 79 + [bad], 60.0, once=True, rate=4_000)
    server.close()


def test_a_request_that_finds_no_free_connection_counts_from_then(load: Load) -> None:
    """80 requests are due within some 20 ms and answered one after the other, 5 ms each."""
    result = run_open_loop(replace(load, connections=1))
    assert (result.n_answers, result.n_failures, result.answer_bytes) == (80, 1, 2)
    assert result.p50_ms > 1000 * (40 * ANSWER_S) / 2
    assert result.p99_ms > 1000 * (79 * ANSWER_S) / 2
    assert result.per_s <= 1 / ANSWER_S


def test_with_enough_connections_nothing_waits_but_for_its_answer(load: Load) -> None:
    result = run_open_loop(replace(load, connections=80))
    assert result.n_answers == 80
    assert result.p50_ms >= 1000 * ANSWER_S * 0.9


def test_a_load_leaves_the_timers_of_its_thread_alone(load: Load) -> None:
    """Timers without slack make all later threads of a process switch without a pause."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "prctl"):
        pytest.skip("this system has no slack of timers")
    libc.prctl(SET_TIMER_SLACK, 0, 0, 0, 0)  # the default of this thread
    before = libc.prctl(GET_TIMER_SLACK, 0, 0, 0, 0)
    run_open_loop(replace(load, connections=80))
    assert libc.prctl(GET_TIMER_SLACK, 0, 0, 0, 0) == before


def test_an_answer_is_whole_when_its_body_is() -> None:
    whole = b"HTTP/1.1 302 Found\r\nContent-Length: 3\r\nx: y\r\n\r\nabc"
    assert answer_in(whole) == Received(is_failure=False, n_bytes=3)
    for length in range(len(whole)):
        assert answer_in(whole[:length]) is None
    assert answer_in(whole.replace(b"302", b"503")) == Received(is_failure=True, n_bytes=3)
