"""Features of so many values each, for tests in which their names do not matter."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.features import Features


def features_of(sizes: Sequence[int]) -> Features:
    """Return features f0, f1, ... with values v0, v1, ...; every visitor has one of each."""
    return Features.of_values(
        {f"f{k}": [f"v{value}" for value in range(size)] for k, size in enumerate(sizes)}
    )
