"""Requests made from the OpenAPI description, valid, invalid and in sequences: no 5xx.

    python -m tests.service.fuzz_harness --cases 100000

Every answer must also have a documented status, content type and shape, and what breaks the
schema must be refused. Three rules of schemathesis do not apply: a request can keep the
schema and still break a rule that JSON Schema cannot say (a host that is not allowed), an
item of a batch of events is refused by itself, not with its batch, and what is deleted here
is archived and can still be read. A request that is too long for the server is refused as such
(413, 431), whatever else is wrong with it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slotwise.cli.progress import progress_bar
from tests.service.crash_harness import POOL, Server, client_of

CONFIG = """
[checks.positive_data_acceptance]
enabled = false

[checks.use_after_free]
enabled = false

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 413, 415, 422, 428, 431]

[[operations]]
include-name = "POST /v1/events:batch"
checks.negative_data_rejection.enabled = false
"""
MAX_MEMORY_MB = 1500


def prepare(url: str, key: str) -> None:
    """Make what the examples of the description name."""
    with client_of(url, key) as client:
        client.put("/v1/pools/home", json=POOL).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(1, 10)]
        client.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        constraints = {"decision_id": "4rV0tQ9dR2m1", "pin": [{"link_id": "l9", "position": 1}]}
        client.post("/v1/pools/home/decide", json=constraints).raise_for_status()


def fuzz(url: str, key: str, folder: Path, *, seed: int, examples: int) -> int:
    """Run all phases once and return the number of requests; raise if an answer is wrong."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
        *("--header", f"Authorization: Bearer {key}"),
        *("--phases", "examples,coverage,fuzzing,stateful", "--mode", "all"),
        *("--seed", str(seed), "--max-examples", str(examples)),
        *("--max-redirects", "0", "--request-timeout", "60", "--no-color", "--warnings", "off"),
        *("--suppress-health-check", "all"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated, done.stdout[-2_000:]
    return int(generated.group(1))


def memory_mb(pid: int) -> float | None:
    """Return the memory a process has taken at most, where the system tells."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
    return int(peak) / 1024


def run(
    cases: int,
    folder: Path,
    *,
    seed: int = 1,
    examples: int = 100,
    tell: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Send at least `cases` requests and return what was sent; `tell` is told the share done."""
    quick = ("calls_per_s=1e6", "clicks_per_s=1e6", "plan_within_s=0.05")
    server = Server(folder / "fuzz.db", *(part for one in quick for part in ("--set", one)))
    try:
        key = server.admin_key()
        server.wait_until_ready()
        prepare(server.url, key)
        sent = rounds = 0
        while sent < cases:
            sent += fuzz(server.url, key, folder, seed=seed + rounds, examples=examples)
            rounds += 1
            tell(min(1.0, sent / cases))
        memory = memory_mb(server.process.pid)
        assert memory is None or memory < MAX_MEMORY_MB, f"{memory} MB"
    finally:
        server.stop()
    return {"cases": sent, "rounds": rounds, "server_errors": 0, "peak_memory_mb": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=100, help="of an operation, each round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotwise-fuzz-") as folder:
        with progress_bar("ask and look") as tell:
            result = run(
                arguments.cases,
                Path(folder),
                seed=arguments.seed,
                examples=arguments.examples,
                tell=tell,
            )
        print(json.dumps(result))


if __name__ == "__main__":
    main()
