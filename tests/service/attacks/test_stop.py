"""SIGTERM ends the service in time, whatever is stuck, and the log says what was lost."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.attacks.conftest import WAIT_S


def start(stuck: str, store: Path) -> subprocess.Popen[str]:
    module = "tests.service.attacks.stuck_server"
    return subprocess.Popen(
        [sys.executable, "-m", module, stuck, f"sqlite:///{store}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_writes_no_more_is_left_behind(tmp_path: Path) -> None:
    """It keeps the lock: what it was told to write it may still write."""
    with start("writer", tmp_path / "stuck.db") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        writer = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WAIT_S) == 1
        with (
            contextlib.closing(os.fdopen(os.open(tmp_path / "stuck.db.lock", os.O_RDONLY))) as lock,
            pytest.raises(BlockingIOError),
        ):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(writer, signal.SIGCONT)
        SqliteStore(tmp_path / "stuck.db").close()  # it has ended
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    [lost] = [line for line in lines if line["event"] == "stop.lost"]
    assert lost["level"] == "warning"


@pytest.mark.parametrize("stuck", ["loop", "store", "lock"])
def test_a_stuck_service_ends_at_sigterm(tmp_path: Path, stuck: str) -> None:
    process = start(stuck, tmp_path / "stuck.db")
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        address = httpx.URL(process.stdout.readline().strip())
        where = (address.host, address.port or 80)
        with socket.create_connection(where, timeout=WAIT_S) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            if stuck == "loop":
                assert process.stdout.readline() == "stuck\n"
            else:
                assert line.recv(65536)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=WAIT_S) == 1
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    [forced] = [line for line in lines if line["event"] == "stop.forced"]
    assert forced["level"] == "warning"
    assert "connections" in forced
    lost = [line["waiting_writes"] for line in lines if line["event"] == "stop.lost"]
    assert lost == ([] if stuck == "lock" else [0])


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


STOPPED_WHILE_OPENING = """
import os, signal, sys
from slotwise.service import server
from slotwise.service.settings import Settings

class Stopped(server._Run):
    def __init__(self, *arguments, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        while not signal.getitimer(signal.ITIMER_REAL)[0]:
            pass  # until the thread of signals has read it
        super().__init__(*arguments, **named)

server._Run = Stopped
server.serve(Settings(port=0, store=sys.argv[1], stop_within_s=60), lambda start: None)
"""


def test_a_signal_while_the_store_is_opened_ends_the_service_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPPED_WHILE_OPENING, f"sqlite:///{tmp_path / 'new.db'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "stop.forced" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
    SqliteStore(tmp_path / "new.db").close()  # the lock is free
