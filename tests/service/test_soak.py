"""The short form of `make soak`: every fault once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service import soak


@pytest.mark.system
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="processes are watched in /proc")
def test_every_fault_once_loses_nothing_and_counts_nothing_twice() -> None:
    result = soak.run(minutes=None, seed=1)
    assert set(result["faults"].values()) == {1}
    assert len(result["faults"]) == 8
    assert result["acknowledged"] >= 8 * 50
