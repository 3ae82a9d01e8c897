"""Marked links are listed in their order, however many there are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.selection.passes import list_marked

pytestmark = pytest.mark.compiled


@compiled_first
@hot
def listing(marks: NDArray[np.bool_], listed: NDArray[np.int64]) -> int:
    """List in compiled code."""
    return list_marked(marks, listed)


@pytest.mark.parametrize("n_links", [1, 2, 63, 64, 65, 100, 127, 128, 129, 271, 1_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.97, 1.0])
def test_all_that_is_marked(n_links: int, share: float) -> None:
    rng = np.random.default_rng(n_links)
    for _ in range(20):
        marks = rng.random(n_links) < share
        listed = np.full(n_links + 1, -1)
        count = listing(marks, listed)
        assert listed[:count].tolist() == np.flatnonzero(marks).tolist()


def test_nothing_is_written_beyond_the_room() -> None:
    listed = np.full(80, -7)
    assert listing(np.ones(70, np.bool_), listed) == 70
    assert listed[71:].tolist() == [-7] * 9
