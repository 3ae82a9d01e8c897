"""Requests that were refused, summarised so that a flood of them does not fill the log.

Used by `app`, `context` and `server`.
"""

from __future__ import annotations

from collections import Counter

from slotwise.service.logs import ServiceLog, short_address

SUMMARISED = frozenset(
    [
        "missing-key",
        "unknown-key",
        "wrong-scope",
        "wrong-host",
        "other-origin",
        "unknown-token",
        "unknown-route",
        "rate-limited",
    ]
)
"""Problems that anybody can cause any number of times: a line for each would fill the disk."""
_EVERY_S = 60.0
_MAX_NETWORKS = 1_000
_NAMED_NETWORKS = 3


class Refusals:
    """What was refused since the start, and since the last line in the log."""

    def __init__(self, log: ServiceLog) -> None:
        self.total: Counter[str] = Counter()
        self._log = log
        self._logged: Counter[str] = Counter()
        self._networks: Counter[str] = Counter()
        self._due_s = 0.0

    def note(self, problem: str, client: str) -> None:
        """Count one refused request."""
        self.total[problem] += 1
        if problem in SUMMARISED:
            network = short_address(client)
            if network in self._networks or len(self._networks) < _MAX_NETWORKS:
                self._networks[network] += 1

    def log_if_due(self, now_s: float) -> None:
        """Write the line of the last minute, if anything was refused in it."""
        if now_s >= self._due_s:
            self._due_s = now_s + _EVERY_S
            self.log()

    def log(self) -> None:
        """Write what was refused since the last line."""
        new = self.total - self._logged
        if new:
            most = dict(self._networks.most_common(_NAMED_NETWORKS))
            self._log.warning("requests.refused", problems=dict(new), networks=most)
            self._logged = self.total.copy()
            self._networks.clear()
