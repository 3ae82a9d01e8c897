"""A small load generator.

Runs in a process of its own, so that it and the server each have a core; reads a `Load` as
JSON from standard input and writes a `Result`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from benchmarks.service.closed_loop import run_closed_loop
from benchmarks.service.load import Load
from benchmarks.service.open_loop import run_open_loop, wake_when_due


def main() -> None:
    load = Load(**json.load(sys.stdin))
    if load.rate:
        wake_when_due()
    result = run_open_loop(load) if load.rate else run_closed_loop(load)
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
