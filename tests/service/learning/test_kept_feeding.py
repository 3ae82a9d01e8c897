"""The loop in which a service learns is compiled once on a machine, not in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import slotwise
from slotwise.compile.decorators import is_compiled
from slotwise.policies import Uniform

PROGRAM = """
from slotwise.policies import policy_class
from slotwise.service.learning import policy_run
from slotwise.service.pool import Pool
from slotwise.service.records import PoolSettings
from slotwise.service.warm_up import warm_up

pool = PoolSettings("toy", 2, 0.3, 1_000_000, "EUR", 1, 1, "queue-ts", {"horizon": 100})
warm_up(Pool.of(pool))
loop = policy_run._feed_of(policy_class("queue-ts").learn)
print(len(loop.signatures), sum(loop.stats.cache_hits.values()))
"""


@pytest.mark.skipif(not is_compiled(Uniform.learn), reason="nothing is compiled")
def test_a_second_process_reads_the_loop_from_disk(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)
    environment["PYTHONPATH"] = str(Path(slotwise.__file__).parents[1])
    told = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert told == [["1", "0"], ["1", "1"]]
