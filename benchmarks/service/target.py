"""A service to be measured, in a process of its own, with a constant answer beside its own.

Reads settings as JSON from the first argument, and from a second one the admin key of a store that
has one already; prints where it is, and stops when its
standard input is closed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import msgspec

from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.http.exchange import Answer
from slotwise.service.server import BackgroundServer, tune_interpreter
from slotwise.service.settings import Settings
from slotwise.service.storage.writer_process import ProcessStore

CONSTANT: dict[int, Answer] = {}


async def constant(context: ServiceContext, request: Request) -> Answer:
    """Answer as many bytes of JSON as the path says: routed, keyed and counted like any other."""
    size = int(request.path_values["size"])
    if size not in CONSTANT:
        CONSTANT[size] = Answer(b'{"x":"' + b"x" * (size - 8) + b'"}')
    return CONSTANT[size]


async def cpu_seconds(context: ServiceContext, request: Request) -> Answer:
    """Say how long all threads of this process have been computing."""
    return Answer(str(time.process_time()).encode())


async def writer_cpu_seconds(context: ServiceContext, request: Request) -> Answer:
    """Say how long the process that writes the store has been computing."""
    store = context.service.store
    assert isinstance(store, ProcessStore)
    assert store._writer is not None
    stat = Path(f"/proc/{store._writer._process.pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return Answer(str((int(user) + int(system)) / os.sysconf("SC_CLK_TCK")).encode())


OPERATIONS = (
    Operation(
        method="POST",
        path="/constant/{size}",
        name="constant",
        summary="Answer a constant",
        handler=constant,
        scope="decide",
        meter="decide",
        answer=dict,
    ),
    Operation(
        method="GET",
        path="/cpu-seconds",
        name="cpu_seconds",
        summary="Say how long the process has been computing",
        handler=cpu_seconds,
        scope="decide",
        answer=float,
    ),
    Operation(
        method="GET",
        path="/writer-cpu-seconds",
        name="writer_cpu_seconds",
        summary="Say how long the process that writes has been computing",
        handler=writer_cpu_seconds,
        scope="decide",
        answer=float,
    ),
)


def main() -> None:
    settings = msgspec.convert(json.loads(sys.argv[1]), Settings)
    tune_interpreter()
    with BackgroundServer(settings, OPERATIONS, separate_writer=True) as server:
        key = sys.argv[2] if len(sys.argv) > 2 else server.admin_key
        print(json.dumps({"url": server.url, "key": key}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
