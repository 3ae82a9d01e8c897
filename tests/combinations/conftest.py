"""Random floors are often out of reach, of which a selector warns."""

from __future__ import annotations

from pathlib import Path

import pytest

UNREACHABLE = "ignore::slotwise.selector.floor_advice.FloorUnreachable"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(UNREACHABLE))
