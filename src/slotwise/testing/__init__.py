"""Contracts that ship with slotwise: the laws of its parts as tests for your own.

Subclass a contract in your tests, say how to make what you wrote, and run pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from slotwise.extras import naming_extra

if TYPE_CHECKING:
    from slotwise.testing.environment_contract import EnvironmentContract
    from slotwise.testing.policy_contract import PolicyContract
    from slotwise.testing.store_contract import StoreContract

__all__ = ["EnvironmentContract", "PolicyContract", "StoreContract"]

# Loaded when first asked for: to test a policy nobody needs what a store needs.
HOMES = {
    "EnvironmentContract": "slotwise.testing.environment_contract",
    "PolicyContract": "slotwise.testing.policy_contract",
    "StoreContract": "slotwise.testing.store_contract",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_extra(f"`slotwise.testing.{name}`"):
        return getattr(importlib.import_module(HOMES[name]), name)
