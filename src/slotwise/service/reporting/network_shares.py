"""Limit what one network can report of a pool with the public page key.

Used by `report_records` and `overview`.
"""

from __future__ import annotations

from threading import Lock

import msgspec

from slotwise.service.records import SECOND_US


class BusiestNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The network from which most of the latest views of a pool were reported."""

    network: str
    views: int
    all_views: int


class NetworkShares:
    """Limits which share of a pool's views one network can report with the public page key.

    A key in a page can be used by anybody, and views and clicks that one machine invents would move
    a pool that has few others. Views above `MAX_SHARE` of the pool's latest views are stored, and
    not learned. Nothing is limited while the other networks have fewer than `MIN_OTHERS` views:
    behind a proxy that is not trusted all visitors have one address. Counts halve every hour.

    >>> shares = NetworkShares()
    >>> honest = [shares.may_learn("home", f"10.0.{k}.0/24", 0) for k in range(200)]
    >>> attack = [shares.may_learn("home", "203.0.113.0/24", 0) for _ in range(300)]
    >>> all(honest), sum(attack), shares.busiest("home").views
    (True, 50, 300)
    """

    MAX_SHARE = 0.2
    MIN_VIEWS = 50
    """Views that every network may report."""
    MIN_OTHERS = 100
    MAX_NETWORKS = 2_000
    """Networks of a pool that are counted; those with fewest views are dropped."""
    HALF_LIFE_US = 3_600 * SECOND_US
    STEP_US = 60 * SECOND_US

    def __init__(self) -> None:
        self._lock = Lock()
        self._pools: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
        """By pool: the views of each network that may be learned, and all."""
        self._faded_us = 0

    def may_learn(self, pool_id: str, network: str, now_us: int) -> bool:
        """Count a view; return whether it may be learned."""
        with self._lock:
            self._fade(now_us)
            learned, seen = self._pools.setdefault(pool_id, ({}, {}))
            self._add(seen, network)
            own, total = learned.get(network, 0.0) + 1.0, sum(learned.values()) + 1.0
            is_over = own > self.MIN_VIEWS and own > self.MAX_SHARE * total
            if is_over and total - own >= self.MIN_OTHERS:
                return False
            self._add(learned, network)
            return True

    def busiest(self, pool_id: str) -> BusiestNetwork | None:
        """Return the network with most views."""
        with self._lock:
            _, seen = self._pools.get(pool_id, ({}, {}))
            if not seen:
                return None
            network = max(seen, key=seen.__getitem__)
            total = round(sum(seen.values()))
            return BusiestNetwork(network=network, views=round(seen[network]), all_views=total)

    def _add(self, counts: dict[str, float], network: str) -> None:
        counts[network] = counts.get(network, 0.0) + 1.0
        if len(counts) > self.MAX_NETWORKS:
            for one in sorted(counts, key=counts.__getitem__)[: self.MAX_NETWORKS // 2]:
                del counts[one]

    def _fade(self, now_us: int) -> None:
        passed_us = now_us - self._faded_us
        if passed_us < self.STEP_US:
            return
        self._faded_us, factor = now_us, 0.5 ** (passed_us / self.HALF_LIFE_US)
        for pool in self._pools.values():
            for counts in pool:
                faded = {one: n * factor for one, n in counts.items() if n * factor >= 0.5}
                counts.clear()
                counts.update(faded)
