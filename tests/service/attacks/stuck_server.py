"""A server in which something is stuck: what, the first argument says. Run as a module."""

from __future__ import annotations

import sys
import threading
from typing import Any

from slotwise.service.api import health
from slotwise.service.logs import start_logs
from slotwise.service.server import ServerStart, serve
from slotwise.service.service import Service
from slotwise.service.settings import Settings

FOREVER = threading.Event()


def block(*arguments: Any, **named: Any) -> None:
    """Block the calling thread for good."""
    FOREVER.wait()


def main() -> None:
    stuck, store = sys.argv[1:]
    start_logs("info")
    if stuck == "loop":
        health.Alive = block  # type: ignore[assignment, misc]
    elif stuck == "store":
        Service.close = block  # type: ignore[method-assign]
    elif stuck == "lock":
        Service.close = block  # type: ignore[method-assign]
        Service.health = block  # type: ignore[method-assign, assignment]

    def announce(start: ServerStart) -> None:
        print(start.url, flush=True)

    serve(Settings(port=0, store=store, stop_within_s=0.5), announce)


if __name__ == "__main__":
    main()
