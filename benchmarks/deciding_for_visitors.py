"""Pages for visitors from Python: what features add to a decision, and what they keep in memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.measuring import Row, at_most
from slotwise import Selector

N_SLOTS, FLOOR = 15, 2.0
N_LEARNED, N_TIMED = 1_000, 2_000
SMALL, LARGE = 271, 10_000


class Declared(NamedTuple):
    """Features as a selector takes them, all of them lists of words."""

    title: str
    features: Mapping[str, tuple[str, ...]]

    def visitor(self, rng: np.random.Generator) -> dict[str, str]:
        """Draw a visitor of whom every feature is known."""
        return {name: words[rng.integers(len(words))] for name, words in self.features.items()}


def _words(n_words: int) -> tuple[str, ...]:
    return tuple(f"w{k}" for k in range(n_words))


WITHOUT = Declared("no features", {})
SEGMENTS = Declared("24 segments", {"group": _words(24)})
FEATURES = Declared("8 features", {f"feature{k}": _words(7) for k in range(8)})
"""With the value that is not known, 64 values."""


def _median_page(n_links: int, declared: Declared) -> float:
    """Return the median processor time of a page, while the selector learns from every page."""
    selector = Selector(
        range(n_links), N_SLOTS, click_floor=FLOOR, features=declared.features, seed=1
    )
    rng = np.random.default_rng(2)
    spent = []
    for view in range(N_LEARNED + N_TIMED):
        visitor = declared.visitor(rng)
        start = time.process_time()
        page = selector.select(visitor=visitor) if visitor else selector.select()
        if view >= N_LEARNED:
            spent.append(time.process_time() - start)
        clicked = [link for link in page.shown if rng.random() < 0.2]
        selector.update(page, clicks=clicked, revenue=dict.fromkeys(clicked[:1], 0.5))
    return float(np.median(spent))


def _megabytes() -> float:
    """Return what a selector for the large pool with 64 values keeps after some pages."""
    rng = np.random.default_rng(3)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    selector = Selector(
        range(LARGE), N_SLOTS, click_floor=FLOOR, features=FEATURES.features, seed=1
    )
    for _ in range(50):
        page = selector.select(visitor=FEATURES.visitor(rng))
        selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.5})
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 1e6


def deciding_for_visitors() -> list[Row]:
    """Measure decisions with features against those without, and in a large pool."""
    rows = []
    plain = _median_page(SMALL, WITHOUT)
    for declared in (SEGMENTS, FEATURES):
        name, spent = f"select for a visitor, {declared.title}", _median_page(SMALL, declared)
        described = f"{spent * 1e6:.1f} µs against {plain * 1e6:.1f} µs without features"
        rows.append(at_most(f"{name}, K = {SMALL}", described, spent / plain, 3.0))
    for declared in (SEGMENTS, FEATURES):
        name, spent = f"select for a visitor, {declared.title}", _median_page(LARGE, declared)
        described = "processor time in the median, called from Python"
        rows.append(at_most(f"{name}, K = 10^4", described, spent * 1e6, 100.0, "µs"))
    described = "the selector, with what it has learned"
    name = "memory of a pool with 64 feature values, K = 10^4"
    rows.append(at_most(name, described, _megabytes(), 50.0, "MB"))
    return rows
