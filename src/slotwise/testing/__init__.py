"""Contracts that ship with slotwise: the laws of its parts, as tests for your own parts.

Subclass a contract in your tests, define how your object is made, and run pytest.
"""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.testing`"):
    import pytest

    # failures show their values
    for _contract in ("environment_contract", "policy_play", "policy_hook_laws", "policy_contract"):
        pytest.register_assert_rewrite(f"slotwise.testing.{_contract}")
    from slotwise.testing.environment_contract import EnvironmentContract
    from slotwise.testing.policy_contract import PolicyContract

__all__ = ["EnvironmentContract", "PolicyContract"]
