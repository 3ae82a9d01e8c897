"""How soon a program without stored machine code is fast in the default mode.

On the clock, because two processes share the cores: measure on idle ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from benchmarks.measuring import Row, at_most

N_PAGES, EVERY = 100_000, 100
LATE_S = 5.0
"""What starting interpreted may cost beyond the factor, for the start of another process."""

PAGES = f"""
import json, random, time
start = time.perf_counter()
import slotwise
selector = slotwise.Selector(range(271), 15, click_floor=4.0, seed=1)
chance, times = random.Random(1), []
for number in range({N_PAGES}):
    page = selector.select()
    clicked = [link for link in page.shown if chance.random() < 0.02 + 0.001 * link]
    selector.update(page, clicks=clicked, revenue={{link: 0.5 for link in clicked}})
    if number % {EVERY} == {EVERY} - 1:
        times.append(time.perf_counter() - start)
print(json.dumps(times))
"""

SOLVES = f"""
import json, time
import numpy as np
start = time.perf_counter()
from slotwise.selection import solve
value, clicks = np.random.default_rng(1).random((2, 271))
times = []
for number in range({N_PAGES}):
    solve(value, clicks, 15, 9.0)
    if number % {EVERY} == {EVERY} - 1:
        times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def switching() -> list[Row]:
    """Measure programs with an empty cache, on all cores, on one, and compiled first."""
    first, default = _times(PAGES, compile_first=True), _times(PAGES)
    alone, solves = _times(PAGES, one_core=True), _times(SOLVES)
    allowed = f"1.3 x {first[-1]:.1f} s + {LATE_S:g} s"
    return [
        at_most("compiled speed of a Selector, K = 271", "empty cache", _ready(default), 20.0, "s"),
        at_most("the same on one core", "empty cache", _ready(alone), 40.0, "s"),
        at_most(
            "100,000 pages, interpreted first",
            f"{default[-1]:.1f} s, {allowed} allowed",
            (default[-1] - LATE_S) / first[-1],
            1.3,
            "of compiling first",
        ),
        at_most("compiled speed of solve, K = 271", "empty cache", _ready(solves), 20.0, "s"),
    ]


def _times(program: str, *, compile_first: bool = False, one_core: bool = False) -> list[float]:
    """Run a program with an empty cache; return when every hundredth page was done."""
    with tempfile.TemporaryDirectory() as empty:
        mode = "first" if compile_first else "auto"
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty, "SLOTWISE_COMPILE": mode}
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            env=environment,
            preexec_fn=_on_one_core() if one_core else None,
            stdout=subprocess.PIPE,
        )
    times: list[float] = json.loads(done.stdout)
    return times


def _on_one_core() -> Callable[[], None]:
    core = min(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {core})


def _ready(times: list[float]) -> float:
    """Return when pages were first shown at half the speed of the last ones."""
    spans = np.diff(times, prepend=0.0)
    is_fast = spans <= 2.0 * np.median(spans[-len(spans) // 5 :])
    return times[int(np.argmax(is_fast))]
