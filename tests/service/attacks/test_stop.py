"""SIGTERM ends the service in time, whatever is stuck, and the log says what was lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.attacks.conftest import WAIT_S
from tests.service.attacks.stuck_server import StuckServer


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StuckServer]]:
    """Servers in which something is stuck: sent SIGTERM together, so that tests wait once."""
    folder = tmp_path_factory.mktemp("stuck")
    servers = {
        stuck: StuckServer(stuck, folder / f"{stuck}.db")
        for stuck in ("loop", "store", "lock", "writer", "opening")
    }
    with contextlib.ExitStack() as opened:
        for stuck, server in servers.items():
            opened.callback(server.process.kill)
            opened.enter_context(server.stdout)
            if stuck == "opening":  # it stops itself
                continue
            address = httpx.URL(server.stdout.readline().strip())
            if stuck == "writer":
                server.writer = int(server.stdout.readline())
                opened.callback(_let_go_on, server.writer)
                continue
            where = (address.host, address.port or 80)
            line = opened.enter_context(socket.create_connection(where, timeout=WAIT_S))
            line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            if stuck == "loop":
                assert server.stdout.readline() == "stuck\n"
            else:
                assert line.recv(65536)
        for stuck, server in servers.items():
            if stuck != "opening":
                os.kill(server.pid, signal.SIGTERM)
        for server in servers.values():
            server.process.join(WAIT_S)
        yield servers


def _let_go_on(writer: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(writer, signal.SIGCONT)


def test_a_process_that_writes_no_more_is_left_behind(stopped: dict[str, StuckServer]) -> None:
    """It keeps the lock: what it was told to write it may still write."""
    server = stopped["writer"]
    assert server.process.exitcode == 1
    with (
        contextlib.closing(os.fdopen(os.open(f"{server.store}.lock", os.O_RDONLY))) as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(server.writer, signal.SIGCONT)
    SqliteStore(server.store).close()  # it has ended
    [lost] = [line for line in server.logged() if line["event"] == "stop.lost"]
    assert lost["level"] == "warning"


@pytest.mark.parametrize("stuck", ["loop", "store", "lock"])
def test_a_stuck_service_ends_at_sigterm(stopped: dict[str, StuckServer], stuck: str) -> None:
    assert stopped[stuck].process.exitcode == 1
    lines = stopped[stuck].logged()
    [forced] = [line for line in lines if line["event"] == "stop.forced"]
    assert forced["level"] == "warning"
    assert "connections" in forced
    lost = [line["waiting_writes"] for line in lines if line["event"] == "stop.lost"]
    assert lost == ([] if stuck == "lock" else [0])


def test_a_signal_while_the_store_is_opened_ends_the_service_cleanly(
    stopped: dict[str, StuckServer],
) -> None:
    lines = stopped["opening"].logged()
    assert "stop.forced" not in [line["event"] for line in lines]
    assert stopped["opening"].process.exitcode == 0, lines
    SqliteStore(stopped["opening"].store).close()  # the lock is free


def test_a_request_that_a_stop_cuts_off_gets_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a 503, after which clients try again; it was a 500."""
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'stop.db'}", stop_within_s=0.5)
    is_reading, is_answered = Event(), Event()

    def read_for_long(decision_id: str) -> None:
        is_reading.set()
        is_answered.wait(WAIT_S)

    with ThreadPoolExecutor(1) as beside:
        with BackgroundServer(settings) as server:
            server.server.config.timeout_graceful_shutdown = 0.2  # type: ignore[assignment]
            monkeypatch.setattr(server.context.service.reporter, "decision", read_for_long)
            headers = {"authorization": f"Bearer {server.admin_key}"}
            answer = beside.submit(
                httpx.get, f"{server.url}/v1/decisions/d", headers=headers, timeout=WAIT_S
            )
            answer.add_done_callback(lambda _: is_answered.set())
            assert is_reading.wait(WAIT_S)
        assert answer.result().status_code == 503
        assert answer.result().json()["type"].endswith("stopping")
        assert answer.result().headers["retry-after"] == "1"
