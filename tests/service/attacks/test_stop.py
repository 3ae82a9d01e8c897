"""SIGTERM ends the service in time, whatever is stuck, and the log says what was lost."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.service.attacks.conftest import WAIT_S


@pytest.mark.parametrize("stuck", ["loop", "store", "lock"])
def test_a_stuck_service_ends_at_sigterm(tmp_path: Path, stuck: str) -> None:
    module = "tests.service.attacks.stuck_server"
    process = subprocess.Popen(
        [sys.executable, "-m", module, stuck, f"sqlite:///{tmp_path / 'stuck.db'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        address = httpx.URL(process.stdout.readline().strip())
        where = (address.host, address.port or 80)
        with socket.create_connection(where, timeout=WAIT_S) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            if stuck != "loop":
                assert line.recv(65536)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=WAIT_S) == 1
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    [forced] = [line for line in lines if line["event"] == "stop.forced"]
    assert forced["level"] == "warning"
    assert "connections" in forced
    lost = [line["waiting_writes"] for line in lines if line["event"] == "stop.lost"]
    assert lost == ([] if stuck == "lock" else [0])
