"""Generated requests, a short run; the long one is `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service import fuzz_harness


@pytest.mark.slow
def test_no_generated_request_is_our_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_COMPILE", "auto")  # no request waits for the compiler
    result = fuzz_harness.run(cases=300, folder=tmp_path, seed=1, examples=1)
    assert result["cases"] >= 300


@pytest.mark.slow
def test_no_generated_request_is_our_failure_for_long(tmp_path: Path) -> None:
    fuzz_harness.run(cases=10_000, folder=tmp_path, seed=100)
