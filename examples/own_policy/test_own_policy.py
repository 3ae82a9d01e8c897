"""The laws of policies, which come with slotwise."""

from own_policy import FollowClicks

from slotwise.testing import PolicyContract


class TestFollowClicks(PolicyContract):
    def make_policy(self, problem):
        return FollowClicks()
