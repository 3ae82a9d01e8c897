"""The best candidates against sorting."""

from __future__ import annotations

import numpy as np
import pytest

from slotwise.compile import compiled_first, hot
from slotwise.selection.page_search import FEW, Search, new_search, put_best_first

pytestmark = pytest.mark.compiled


@compiled_first
@hot
def put(search: Search, begin: int, end: int, n_wanted: int) -> None:
    put_best_first(search, begin, end, n_wanted)


@pytest.mark.parametrize("n_levels", [1, 3, 10**9], ids=["all tie", "3 values", "all differ"])
@pytest.mark.parametrize("n_candidates", [1, 2, FEW, FEW + 1, 200])
def test_the_best_come_first_and_the_worst_of_them_last(n_candidates: int, n_levels: int) -> None:
    rng = np.random.default_rng(n_candidates)
    begin = 5
    end = begin + n_candidates
    for n_wanted in {1, n_candidates // 2 + 1, n_candidates}:
        keys, ties = rng.integers(0, n_levels, (2, end + 3)) / n_levels
        search = new_search(end + 3)
        entry, first, second = search.entry, search.first, search.second
        entry[:], first[:], second[:] = np.arange(end + 3), keys, ties
        put(search, begin, end, n_wanted)
        assert sorted(entry[begin:end]) == list(range(begin, end))
        assert (first.tolist(), second.tolist()) == (keys[entry].tolist(), ties[entry].tolist())
        outside = [*range(begin), *range(end, end + 3)]
        assert entry[outside].tolist() == outside
        best = sorted(zip(keys[begin:end], ties[begin:end], strict=True), reverse=True)
        found = list(zip(first[begin:end], second[begin:end], strict=True))
        assert sorted(found[:n_wanted], reverse=True) == best[:n_wanted]
        assert found[n_wanted - 1] == best[n_wanted - 1]
