"""The score of a page's last link against sorting, however scores are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.compile.decorators import LANES, WORD
from slotwise.selection import passes as passes_module
from slotwise.selection.passes import find_threshold, neighbours

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]
N_LINKS = 150


def spread(kind: str) -> Floats:
    """Return scores of one kind."""
    rng = np.random.default_rng(5)
    even = rng.random(N_LINKS)
    scores: dict[str, Any] = {
        "even": even,
        "few numbers": rng.integers(0, 4, N_LINKS) / 4,
        "all the same": np.full(N_LINKS, 0.25),
        "nothing": np.zeros(N_LINKS),
        "powers": 10.0 ** -rng.integers(0, 300, N_LINKS),
        "dense at one end": even**40,
        "two clusters": np.where(even < 0.3, 1.0 + 1e-9 * even, 1e-9 * even),
        "huge and small": np.where(even < 0.2, 1e150 * even, even),
        "subnormal": 5e-324 * rng.integers(0, 50, N_LINKS),
        "negative": even - 3.0,
        "neighbouring doubles": 0.3 + np.spacing(0.3) * rng.integers(0, 40, N_LINKS),
        "infinite": np.where(even < 0.2, np.inf, even),
        "minus infinite": np.where(even < 0.4, -np.inf, even),
    }
    return np.asarray(scores[kind], np.float64)


KINDS = (
    "even", "few numbers", "all the same", "nothing", "powers", "dense at one end", "two clusters",
    "huge and small", "subnormal", "negative", "neighbouring doubles", "infinite",
    "minus infinite",
)  # fmt: skip


def in_words(scores: Floats) -> Floats:
    """Return scores with a word of minus infinity after them."""
    return np.concatenate([scores, np.full(WORD, -np.inf)])


@compiled_first
@hot
def threshold_from(scores: Floats, n_links: int, n_slots: int, expected: float, gap: float) -> Any:
    below, above, n_above = neighbours(scores, (n_links + LANES - 1) // LANES, expected)
    return find_threshold(scores, n_links, n_slots, below, above, n_above, gap)


@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_are_those_of_sorting(kind: str) -> None:
    scores = spread(kind)
    padded, order = in_words(scores), np.sort(scores)[::-1]
    for n_slots in (1, 2, 15, 60, N_LINKS - 1, N_LINKS):
        last = order[n_slots - 1]
        for expected in (-np.inf, 0.0, last, 1.001 * last, 0.999 * last - 1e-4, 7.0):
            for gap in (1e-15, 1e-3, 1.0):
                found, next_gap = threshold_from(padded, N_LINKS, n_slots, expected, gap)
                assert found == last
                assert 1e-15 <= next_gap <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_no_spread_of_scores_takes_a_pass_for_every_link(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = spread(kind)
    padded, n_blocks = in_words(scores), (N_LINKS + LANES - 1) // LANES
    passes: list[float] = []

    def counted(scores: Floats, n_blocks: int, bound: float) -> Any:
        passes.append(bound)
        return neighbours(scores, n_blocks, bound)

    monkeypatch.setattr(passes_module, "neighbours", counted)
    plain: Any = find_threshold
    plain = getattr(plain, "py_func", plain)
    most = 0
    for n_slots in (1, 15, 60, N_LINKS):
        for expected, gap in ((-np.inf, 1e-3), (0.5, 1e-6), (7.0, 1e-3)):
            around = neighbours(padded, n_blocks, expected)
            passes.clear()
            plain(padded, N_LINKS, n_slots, *around, gap)
            most = max(most, len(passes))
    assert most <= 40
