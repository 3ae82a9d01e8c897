"""Running sums in compiled code against the same in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import compiled_first, hot
from slotwise.selection.mix import new_places
from slotwise.selection.passes import running_sums

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

SIZES = [0, 1, 7, 8, 9, 32, 63, 64, 65, 127, 128, 225, 271, 290]


@compiled_first
@hot
def compiled_sums(entries: Floats, n: int, n_slots: int, sums: Floats, places: Links) -> int:
    return running_sums(entries, n, n_slots, sums, places)


def scratch(n_entries: int) -> tuple[Floats, Links]:
    """Return arrays with a mark behind what may be written."""
    sums, places = np.zeros(n_entries + 2), np.append(new_places(n_entries), 0)
    sums[-1], places[-1] = -7.0, -7
    return sums, places


@pytest.mark.parametrize("n_entries", SIZES)
@pytest.mark.parametrize("n_slots", [1, 4, 15, 60, 500])
def test_sums_and_places_are_those_of_the_twin(n_entries: int, n_slots: int) -> None:
    rng = np.random.default_rng(n_entries + 1_000 * n_slots)
    entries = np.minimum(1.0, rng.gamma(0.5, size=n_entries + 3) * n_slots / (n_entries + 1))
    entries[rng.random(len(entries)) < 0.1] = 0.0
    (sums, places), (expected, listed) = scratch(n_entries), scratch(n_entries)
    n_places = compiled_sums(entries, n_entries, n_slots, sums, places)
    assert n_places == running_sums(entries, n_entries, n_slots, expected, listed)
    assert places[:n_places].tolist() == listed[:n_places].tolist()
    assert sums[:-1].tolist() == expected[:-1].tolist()
    assert (sums[-1], places[-1]) == (-7.0, -7)


def test_all_entries_sure_leave_the_memory_behind_them_alone() -> None:
    for n_entries in SIZES:
        sums, places = scratch(n_entries)
        assert compiled_sums(np.ones(n_entries), n_entries, n_entries, sums, places) == n_entries
        assert places[:n_entries].tolist() == list(range(n_entries))
        assert (sums[-1], places[-1]) == (-7.0, -7)


def test_sums_never_decrease_and_stay_where_nothing_is_added() -> None:
    rng = np.random.default_rng(3)
    for n_slots in (1, 3, 15, 60):
        entries = rng.dirichlet(np.full(271, 0.4)) * n_slots
        entries[rng.random(271) < 0.3] = 0.0
        sums, places = scratch(271)
        compiled_sums(entries, 271, n_slots, sums, places)
        added = np.diff(sums[:272])
        is_open = (entries > 1e-9) & (entries < 1.0 - 1e-9)
        assert (added[is_open] > 0.0).all()
        assert (added[~is_open] == 0.0).all()
        assert np.abs(added - entries)[is_open].max() <= 2.0**-53 * max(1, n_slots)
