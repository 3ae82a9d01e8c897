from __future__ import annotations

import math

import numpy as np
import pytest

from slotwise.compile import compiled_first, hot
from slotwise.selection.passes import total_of, total_of_products

pytestmark = pytest.mark.compiled


@compiled_first
@hot
def total_from_python(numbers: np.ndarray) -> float:
    return total_of(numbers)


@compiled_first
@hot
def products_from_python(numbers: np.ndarray, factors: np.ndarray) -> float:
    return total_of_products(numbers, factors)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 15, 60])
def test_totals_are_sums_and_exact_for_whole_numbers(size: int) -> None:
    rng = np.random.default_rng(size)
    whole = rng.integers(0, 1000, size).astype(np.float64)
    assert total_from_python(whole) == math.fsum(whole)
    amounts = rng.random(size)
    assert total_from_python(amounts) == pytest.approx(math.fsum(amounts), rel=1e-15)
    factors = rng.random(size)
    for total in (total_of_products, products_from_python):
        assert total(amounts, factors) == total_of(amounts * factors)  # bit for bit
