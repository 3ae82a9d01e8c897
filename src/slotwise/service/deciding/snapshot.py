"""One published version of a pool: the pages it draws until the next version."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.counting.rates import LinkRates, floor_report, solve_page
from slotwise.service.deciding.page_mix import PageMix, uniform_probabilities
from slotwise.service.learning.policy_run import PolicyRun
from slotwise.service.pool import problem_of
from slotwise.service.records import FloorReport, PoolSettings

__all__ = ["NO_WISH", "Published", "Snapshot", "Wish", "decode_published"]

PUBLISHED_FORMAT = 1

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

MAX_KEPT_WISHES = 256
MIN_KEPT_WISHES = 16
KEPT_LINKS = 500_000
"""Pages with wishes that a version keeps are few when they have many links each."""
MANY_LINKS = 1_000
POLICY_FAILED = "policy-failed"
POLICY_COMPILING = "policy-compiling"
EMPTY_POOL = "empty-pool"


class Wish(NamedTuple):
    """What a caller wants of its page, beyond the pool's settings."""

    exclude: frozenset[str] = frozenset()
    pinned: tuple[tuple[int, str], ...] = ()
    """Positions and links, by position."""
    slots: int | None = None


NO_WISH = Wish()


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A version as it is stored: all that is needed to draw its pages again."""

    version: int
    published_us: int
    pool_changed_us: int = -1
    """When the settings that it was made for were saved: others need another version.

    The first stores did not say so: their versions are drawn from until the next is published.
    """
    policy: str
    link_ids: tuple[str, ...]
    probabilities: bytes
    click_rates: bytes
    revenue_rates: bytes
    click_variances: bytes
    shadow_price: float | None
    floor: FloorReport
    fallback: str
    format: int = PUBLISHED_FORMAT


class Snapshot:
    """The probabilities of all links of one version, and pages for callers with wishes.

    `run` is the policy as it was when the version was published; without it (after a restart,
    before the first fold) wishes are answered from the estimates.
    """

    def __init__(
        self, pool: PoolSettings, published: Published, run: PolicyRun | None = None
    ) -> None:
        self.published = published
        self.version = published.version
        self.policy = published.policy
        self.link_ids = published.link_ids
        self.probabilities = np.frombuffer(published.probabilities)
        self.rates = LinkRates(
            np.frombuffer(published.click_rates),
            np.frombuffer(published.revenue_rates),
            np.frombuffer(published.click_variances),
        )
        self.n_pages = 0
        """Pages decided from this version and not yet noted as open."""
        self._pool = pool
        self._run = run
        self._places = {link_id: place for place, link_id in enumerate(self.link_ids)}
        self._scores = self.rates.revenue + (published.shadow_price or 0.0) * self.rates.clicks
        self._standing = tuple(
            sorted((pin.position, pin.link_id) for pin in pool.pins if pin.link_id in self._places)
        )
        self._pages: dict[Wish, PageMix] = {}
        self._holdout_pages: dict[Wish, PageMix] = {}
        self._rng = np.random.default_rng(published.version)
        if published.fallback:
            self._pages[NO_WISH] = self._fallback_page(NO_WISH, published.fallback)
        else:
            self._pages[NO_WISH] = PageMix(
                self.link_ids, self.probabilities, published.floor, self._scores
            )
        self._usual_page = self._pages[NO_WISH]
        if self._standing:
            self._usual_page = self._solve(self._with_standing_pins(NO_WISH))

    def page(self, wish: Wish) -> PageMix:
        """Return the page of a wish; solved at its first use, then kept."""
        if wish == NO_WISH:
            return self._usual_page
        wish = self._with_standing_pins(wish)
        page = self._pages.get(wish)
        if page is None:
            page = self._solve(wish)
            self._keep(self._pages, wish, page)
        return page

    def holdout_page(self, wish: Wish) -> PageMix:
        """Return the page of a wish for a visitor of the holdout: uniform play."""
        wish = self._with_standing_pins(wish)
        if self.published.fallback == POLICY_COMPILING:  # drawing is compiled, too
            return self.page(wish)
        page = self._holdout_pages.get(wish)
        if page is None:
            rest, n_slots = self._rest(wish)
            if not rest:
                return self.page(wish)
            chances = uniform_probabilities(len(rest), n_slots)
            places = np.array([self._places[link_id] for link_id in rest])
            floor = self._floor_report(wish, places, chances)
            page = PageMix(rest, chances, floor, pinned=dict(wish.pinned))
            self._keep(self._holdout_pages, wish, page)
        return page

    def chances(self) -> Floats:
        """Return the chance of each link to be on the page of a visitor without wishes."""
        if not self._standing:
            return self.probabilities
        wish = self._with_standing_pins(NO_WISH)
        rest, _ = self._rest(wish)
        chances = np.zeros(len(self.link_ids))
        chances[[self._places[link_id] for link_id in rest]] = self._usual_page.probabilities
        chances[[self._places[link_id] for _, link_id in wish.pinned]] = 1.0
        return chances

    def shares(self) -> dict[str, float]:
        """Return the chances by link."""
        return dict(zip(self.link_ids, self.chances().tolist(), strict=True))

    def _with_standing_pins(self, wish: Wish) -> Wish:
        """Add the pool's own pins, as far as the caller leaves their links and positions free."""
        if not self._standing:
            return wish
        slots = self._pool.slots if wish.slots is None else wish.slots
        pinned = dict(wish.pinned)
        taken = {*wish.exclude, *pinned.values()}
        for position, link_id in self._standing:
            if position <= slots and position not in pinned and link_id not in taken:
                pinned[position] = link_id
        return wish._replace(pinned=tuple(sorted(pinned.items())))

    def _keep(self, pages: dict[Wish, PageMix], wish: Wish, page: PageMix) -> None:
        """Keep a page; the one kept longest makes room."""
        by_size = KEPT_LINKS // max(len(self.link_ids), 1)
        if len(pages) > min(MAX_KEPT_WISHES, max(MIN_KEPT_WISHES, by_size)):
            del pages[next(key for key in pages if key != NO_WISH)]
        pages[wish] = page

    def _rest(self, wish: Wish) -> tuple[list[str], int]:
        """Return the links that may fill the free slots, and how many slots are free."""
        pinned = {link_id for _, link_id in wish.pinned}
        rest = [
            link_id
            for link_id in self.link_ids
            if link_id not in wish.exclude and link_id not in pinned
        ]
        slots = self._pool.slots if wish.slots is None else wish.slots
        return rest, min(max(slots - len(pinned), 0), len(rest))

    def _solve(self, wish: Wish) -> PageMix:
        """Solve the program again for the rest of the page."""
        rest, n_slots = self._rest(wish)
        places = np.array([self._places[link_id] for link_id in rest], dtype=np.int64)
        pinned = dict(wish.pinned)
        if n_slots == 0:
            chances = np.zeros(len(rest))
            fallback = "" if pinned else EMPTY_POOL
            floor = self._floor_report(wish, places, chances)
            return PageMix(rest, chances, floor, pinned=pinned, fallback=fallback)
        if self.published.fallback:
            return self._fallback_page(wish, self.published.fallback)
        clicks_pinned = sum(
            self.rates.clicks[self._places[link_id]]
            for link_id in pinned.values()
            if link_id in self._places
        )
        click_floor = max(0.0, self._pool.click_floor - float(clicks_pinned))
        try:
            chances = self._probabilities_of(rest, places, n_slots, click_floor)
        except Exception:
            _log.exception("policy %s failed for a page with wishes", self.policy)
            return self._fallback_page(wish, POLICY_FAILED)
        floor = self._floor_report(wish, places, chances)
        return PageMix(rest, chances, floor, self._scores[places], pinned)

    def _probabilities_of(
        self, rest: Sequence[str], places: NDArray[np.int64], n_slots: int, click_floor: float
    ) -> Floats:
        rates = LinkRates(*(column[places] for column in self.rates))
        if self._run is not None:
            problem = problem_of(len(rest), n_slots, click_floor)
            with suppress(InvalidInput):  # a mix that is given link by link fits no other page
                run = self._run.moved(problem, rest)
                n_draws = 16 if len(rest) > MANY_LINKS else 64
                return run.probabilities(self._rng, n_draws, rates)
        return solve_page(rates, n_slots, click_floor).probabilities

    def _floor_report(self, wish: Wish, places: NDArray[np.int64], chances: Floats) -> FloorReport:
        probabilities = np.zeros(len(self.link_ids))
        probabilities[places] = chances
        for _, link_id in wish.pinned:
            if link_id in self._places:
                probabilities[self._places[link_id]] = 1.0
        n_slots = round(float(probabilities.sum()))
        return floor_report(self.rates, probabilities, n_slots, self._pool.click_floor)

    def _fallback_page(self, wish: Wish, reason: str) -> PageMix:
        """Return the page of the pool's fallback order, then of the order of registration."""
        rest, n_slots = self._rest(wish)
        order = {link_id: rank for rank, link_id in enumerate(self._pool.fallback_order)}
        rank = np.array([order.get(link_id, len(order) + k) for k, link_id in enumerate(rest)])
        chances = np.zeros(len(rest))
        chances[np.argsort(rank, kind="stable")[:n_slots]] = 1.0
        places = np.array([self._places[link_id] for link_id in rest], dtype=np.int64)
        floor = self._floor_report(wish, places, chances)
        return PageMix(rest, chances, floor, -rank.astype(np.float64), dict(wish.pinned), reason)


def decode_published(stored: bytes) -> Published:
    """Read a version as `msgspec.msgpack.encode` wrote it, in this or an earlier format."""
    published_format = msgspec.msgpack.decode(stored, type=_Numbered).format
    if published_format > PUBLISHED_FORMAT:
        raise UnsupportedState(
            f"a published version has format {published_format}, this version of slotwise knows "
            f"up to {PUBLISHED_FORMAT}; use the version that wrote it, or a newer one"
        )
    return msgspec.msgpack.decode(stored, type=Published)


class _Numbered(msgspec.Struct):
    format: int = 1
