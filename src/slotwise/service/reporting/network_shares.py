"""Limit what one network can teach a pool through the public page key.

A key in a page can be used by anybody. Somebody who invents visitors chooses which pages they see
and what they click, so a link that is rarely shown needs few invented clicks to look best, and the
posterior rates of the policy follow within seconds. Two shares of the latest hours are limited:

- views: those above `MAX_SHARE` of the pool's are stored and not learned
- clicks of learned views, link by link: those above `MAX_SHARE` of the link's are stored as invalid

One network can therefore reduce a link's click rate to 4/5 of its value at most, and raise it to
5/4, apart from `MIN_VIEWS` and `MIN_CLICKS`. Used by `api`, `counts_since_start` and `overview`.
"""

from __future__ import annotations

from threading import Lock

import msgspec

from slotwise.service.access.tokens import ClickToken
from slotwise.service.records import SECOND_US

MAX_SHARE = 0.2
MIN_VIEWS = 50
"""Views that every network may report."""
MIN_CLICKS = 2
"""Clicks on a link that every network may report."""
MIN_OTHERS = 100
"""Views of other networks below which nothing is limited: behind a proxy that is not trusted all
visitors have one address."""
MAX_COUNTS = 2_000
"""Networks of a pool that are counted, and networks of its links; the smallest are dropped."""
MAX_VERDICTS = 10_000
"""Latest clicks, and views that are not learned, about 2 MB."""
HALF_LIFE_US = 3_600 * SECOND_US
STEP_US = 60 * SECOND_US
"""How often counts are discounted."""

ONE_NETWORK = "one-network"
"""Why a click above the limit does not count."""


class BusiestNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The network from which most of the latest views of a pool were reported."""

    network: str
    views: int
    all_views: int


class _Counts:
    """Counts by key, and their sum. Old counts are discounted; the smallest are dropped."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, ...], float] = {}
        self.total = 0.0

    def add(self, *key: str) -> None:
        self.of[key] = self.of.get(key, 0.0) + 1.0
        self.total += 1.0
        if len(self.of) > MAX_COUNTS:
            for one in sorted(self.of, key=self.of.__getitem__)[: MAX_COUNTS // 2]:
                del self.of[one]

    def discount(self, factor: float) -> None:
        self.of = {key: n * factor for key, n in self.of.items() if n * factor >= 0.5}
        self.total *= factor

    def with_one_more(self, *key: str) -> float:
        return self.of.get(key, 0.0) + 1.0


class _PoolShares:
    """The latest views and clicks of one pool that were reported with a page key."""

    def __init__(self) -> None:
        self.seen, self.learned = _Counts(), _Counts()
        """Views by network: all, and those that may be learned."""
        self.clicks, self.link_clicks = _Counts(), _Counts()
        """Clicks that count, by link and network, and by link."""

    def discount(self, factor: float) -> None:
        for counts in (self.seen, self.learned, self.clicks, self.link_clicks):
            counts.discount(factor)

    def is_limited(self, network: str) -> bool:
        """Return whether enough views come from other networks."""
        return self.learned.total - self.learned.of.get((network,), 0.0) >= MIN_OTHERS


class NetworkShares:
    """The views and clicks that each network has reported, and which of them count.

    >>> shares = NetworkShares()
    >>> honest = [shares.may_learn("home", f"10.0.{k}.0/24", f"d{k}", 0) for k in range(200)]
    >>> attack = [shares.may_learn("home", "203.0.113.0/24", f"e{k}", 0) for k in range(300)]
    >>> all(honest), sum(attack), shares.busiest("home").views
    (True, 50, 300)
    >>> clicks = [ClickToken("home", f"e{k}", 0, 1, "l7", 7) for k in range(5)]
    >>> [shares.may_click(click, "203.0.113.0/24", 0) for click in clicks]
    [True, True, False, False, False]
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pools: dict[str, _PoolShares] = {}
        self._verdicts: dict[tuple[str, ...], bool] = {}
        """The latest views that are not learned, and the latest clicks: whether they count."""
        self._discounted_us = 0

    def may_learn(self, pool_id: str, network: str, decision_id: str, now_us: int) -> bool:
        """Count a view that a page key has reported; return whether it may be learned."""
        with self._lock:
            self._discount(now_us)
            pool = self._pools.setdefault(pool_id, _PoolShares())
            pool.seen.add(network)
            own, total = pool.learned.with_one_more(network), pool.learned.total + 1.0
            if own > max(MIN_VIEWS, MAX_SHARE * total) and pool.is_limited(network):
                self._remember((decision_id,), may_count=False)
                return False
            pool.learned.add(network)
            return True

    def may_click(self, token: ClickToken, network: str, now_us: int) -> bool:
        """Count a click on a link of a page; return whether it may count.

        The same click again has the same answer. Clicks of views that are not learned are neither
        counted nor limited. A pool whose pages are requested by a server has no views here, so its
        clicks are not limited.
        """
        with self._lock:
            self._discount(now_us)
            pool, click = self._pools.get(token.pool_id), (token.decision_id, token.link_id)
            if pool is None or (token.decision_id,) in self._verdicts:
                return True
            if click not in self._verdicts:
                own = pool.clicks.with_one_more(token.link_id, network)
                total = pool.link_clicks.with_one_more(token.link_id)
                is_over = own > max(MIN_CLICKS, MAX_SHARE * total)
                may_count = not (is_over and pool.is_limited(network))
                if may_count:
                    pool.clicks.add(token.link_id, network)
                    pool.link_clicks.add(token.link_id)
                self._remember(click, may_count)
            return self._verdicts[click]

    def busiest(self, pool_id: str) -> BusiestNetwork | None:
        """Return the network with most views."""
        with self._lock:
            pool = self._pools.get(pool_id)
            if pool is None or not pool.seen.of:
                return None
            most = max(pool.seen.of, key=pool.seen.of.__getitem__)
            views, total = round(pool.seen.of[most]), round(pool.seen.total)
            return BusiestNetwork(network=most[0], views=views, all_views=total)

    def _remember(self, key: tuple[str, ...], may_count: bool) -> None:
        self._verdicts[key] = may_count
        if len(self._verdicts) > MAX_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]

    def _discount(self, now_us: int) -> None:
        passed_us = now_us - self._discounted_us
        if passed_us < STEP_US:
            return
        self._discounted_us, factor = now_us, 0.5 ** (passed_us / HALF_LIFE_US)
        for pool in self._pools.values():
            pool.discount(factor)
