"""Selector: a policy, what it has learned, chance and link ids in one object to embed."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.policies import NO_SLOTS, NOBODY, Policy, default_policy
from slotwise.policies.counts import Counts, new_counts
from slotwise.problem import Problem, is_finite_number, whole_number
from slotwise.rounds import Decision, Link
from slotwise.selection import dense_probabilities, dependent_rounding, draw_page
from slotwise.selection.compiled import direct
from slotwise.selector.batch import read_batch
from slotwise.selector.exploring import explored
from slotwise.selector.open_pages import OpenPage, OpenPages
from slotwise.selector.page_journal import PageJournal
from slotwise.selector.pool import Pool
from slotwise.selector.price_of_floor import PriceOfFloor, price_of_floor
from slotwise.selector.probabilities import Probabilities
from slotwise.selector.report import CLICK, REVENUE, Report, link_reports, page_report
from slotwise.selector.restricted import restricted_probabilities
from slotwise.selector.selector_file import load_selector, save_selector

__all__ = ["Selector"]

NO_LINKS: tuple[Link, ...] = ()


class Selector:
    """Choose links for page views and learn from what came of them.

    Links are any hashable ids. Without a `policy` the best one that needs no horizon and no
    tuning is used (`slotwise.default_policy`). `max_revenue` is the most a click can bring, in
    your money; it scales revenue to [0, 1], and what lies above is clipped and counted in the
    report.
    `max_open_pages` bounds the memory for pages whose feedback never comes: beyond it the
    oldest are forgotten, and counted; feedback that comes for them later is ignored.
    `explore` is the share of the page that random links get, so that every link keeps a small
    probability and the log can be evaluated (`log_to`); it costs that share of what the policy's
    page brings above a random one. 0 turns it off.

    Safe to use from several threads: every method is one step, so the outcome is that of the
    same calls in some order, and no page, click or sale is lost or counted twice. Which order
    that is, and so which page a thread gets, is up to the threads. Each process needs a
    selector of its own.

    >>> from slotwise.policies import CUCB
    >>> selector = Selector(links=["sale", "new", "blog"], n_slots=2, policy=CUCB(), seed=7)
    >>> page = selector.select()
    >>> selector.update(page, clicks=[page.shown[0]], revenue={page.shown[0]: 0.4})
    >>> sum(link.views for link in selector.report().links)
    2
    """

    def __init__(
        self,
        links: Iterable[Link],
        n_slots: int,
        *,
        policy: Policy | None = None,
        click_floor: float = 0.0,
        max_revenue: float = 1.0,
        max_open_pages: int = 1_000_000,
        explore: float = 0.0,
        seed: int | None = None,
    ) -> None:
        policy = default_policy() if policy is None else policy
        if not isinstance(policy, Policy):
            rule = "a policy with its settings, such as ConUCB(horizon=50_000)"
            raise InvalidInput.of("policy", rule, policy)
        if not (is_finite_number(max_revenue) and max_revenue > 0):
            raise InvalidInput.of("max_revenue", "a positive finite number", max_revenue)
        max_pages = whole_number("max_open_pages", max_open_pages, at_least=1)
        if not (is_finite_number(explore) and 0 <= explore <= 1):
            raise InvalidInput.of("explore", "from 0 to 1", explore)
        if seed is not None:
            seed = whole_number("seed", seed, at_least=0)
        self._pool = Pool(links)
        self._problem = Problem(len(self._pool), n_slots, click_floor)
        self._policy = policy
        self._state: Any = policy.start(self._problem)
        self._rng = np.random.default_rng(seed)
        self._max_revenue = float(max_revenue)
        self._explore = float(explore)
        self._n_clipped = 0
        self._n_pool_changes = 0
        self._journal: PageJournal | None = None
        self._pages = OpenPages(max_pages)
        self._own_counts = new_counts(self._problem)
        self._lock = threading.RLock()
        self._make_room()

    def _make_room(self) -> None:
        """Set up what every page view uses again."""
        n_slots = self._problem.n_slots
        self._shown = np.zeros(n_slots, np.int64)
        self._chances = np.zeros(n_slots)
        self._one_view = np.ones(n_slots)
        policy, state, chances = type(self._policy), self._state, self._chances
        self._choose = direct(policy.choose, state, NOBODY, self._rng)
        self._draw = direct(draw_page, state.mix, self._rng, self._shown, chances)
        shown = self._shown
        self._teach = direct(
            policy.learn, state, NOBODY, CLICK, shown, NO_SLOTS, chances, chances, chances
        )

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that can be shown now."""
        return self._pool.links

    @property
    def problem(self) -> Problem:
        """The problem as it stands now: links, slots, floor."""
        return self._problem

    @property
    def policy(self) -> Policy:
        """The policy that decides."""
        return self._policy

    @property
    def _counts(self) -> Counts:
        """The counts of the policy, or the selector's own where the policy keeps none."""
        return getattr(self._state, "counts", self._own_counts)

    # Deciding

    def select(
        self, exclude: Iterable[Link] = NO_LINKS, pin: Iterable[Link] = NO_LINKS
    ) -> Decision:
        """Choose the links of one page.

        Pinned links are on the page and excluded ones are not; the floor program is solved for
        the rest of the page, so the floor is still kept where it can be.
        """
        with self._lock:
            if pin is not NO_LINKS or exclude is not NO_LINKS:
                pinned = self._pool.places("pin", pin)
                excluded = self._pool.places("exclude", exclude)
                if len(pinned) or len(excluded):
                    return self._select_restricted(pinned, excluded)
            self._choose(self._state, NOBODY, self._rng)
            if self._explore or self._journal is not None:
                chances = explored(dense_probabilities(self._state.mix), self._explore)
                return self._draw_from(chances)
            self._draw(self._state.mix, self._rng, self._shown, self._chances)
            shown = self._pool.links_at(self._shown.tolist())
            page_id = self._pages.issue(shown, tuple(self._chances.tolist()))
            mix = Probabilities.of_mix(self._pool.links, self._state.mix)
            return Decision(page_id, shown, mix)

    def _draw_from(self, probabilities: NDArray[np.float64]) -> Decision:
        """Draw a page with these inclusion probabilities, one for each link of the pool."""
        places = dependent_rounding(probabilities, self._rng).tolist()
        shown = self._pool.links_at(places)
        chances = tuple(probabilities[places].tolist())
        page_id = self._pages.issue(shown, chances)
        page = Decision(page_id, shown, Probabilities.of_array(self._pool.links, probabilities))
        if self._journal is not None:
            least = float(probabilities.min())
            number = self._pages.n_issued
            self._journal.issued(number, page, chances, least, self._n_pool_changes)
        return page

    def _check_restrictions(self, pinned: NDArray[np.int64], excluded: NDArray[np.int64]) -> None:
        n_slots = self._problem.n_slots
        if len(pinned) > n_slots:
            raise InvalidInput.of("pin", f"at most {n_slots} links, one a slot", len(pinned))
        both = np.intersect1d(pinned, excluded)
        if len(both):
            link = self._pool.links[both[0]]
            raise InvalidInput.of("pin", "links that are not excluded", link)
        n_left = len(self._pool) - len(excluded)
        if n_left < n_slots:
            rule = f"few enough links to leave {n_slots} for the page"
            raise InvalidInput.of("exclude", rule, len(excluded))

    def _select_restricted(
        self, pinned: NDArray[np.int64], excluded: NDArray[np.int64]
    ) -> Decision:
        self._check_restrictions(pinned, excluded)
        self._choose(self._state, NOBODY, self._rng)
        probabilities = restricted_probabilities(
            dense_probabilities(self._state.mix),
            self._policy.estimates(self._state),
            self._problem.n_slots,
            self._problem.click_floor,
            pinned,
            excluded,
        )
        is_free = np.ones(len(probabilities), bool)
        is_free[pinned] = False
        is_free[excluded] = False
        return self._draw_from(explored(probabilities, self._explore, is_free))

    # Learning

    def update(
        self,
        page: Decision | str,
        clicks: Iterable[Link] | None = None,
        revenue: Mapping[Any, float] | None = None,
    ) -> None:
        """Settle what is known of a page, given as the decision or its id.

        `clicks` are the links that were clicked, `revenue` what each link earned; an empty one
        says that there were none, None that it is not known yet. Levels may come one at a time
        and in either order. Saying the same twice changes nothing; saying something else is
        refused. After an error everything is as before.
        """
        with self._lock:
            found = self._pages.find(page)
            if found is None:
                return
            settled = found.copy()
            new_clicks = clicks is not None and settled.settle_clicks(clicks)
            new_revenue = revenue is not None and settled.settle_revenue(revenue)
            self._pages.put(settled)
            is_settled = settled.clicked is not None and settled.revenue is not None
            if self._journal is not None and is_settled:
                self._journal.settled(settled)
            if new_clicks or new_revenue:
                self._learn_page(settled, new_clicks, new_revenue)

    def _learn_page(self, page: OpenPage, new_clicks: bool, new_revenue: bool) -> None:
        shown, with_chances = self._pool.known(page.shown, page.chances)
        if not shown:
            return
        places = self._pool.places_of(shown)
        chances = np.array(with_chances)
        views = self._one_view[: len(shown)]
        if new_clicks and page.clicked is not None:
            clicked = np.zeros(len(shown))
            for link in page.clicked:
                if link in shown:
                    clicked[shown.index(link)] = 1.0
            self._learn(CLICK, places, chances, views, clicked)
        if new_revenue and page.revenue is not None:
            earned = np.zeros(len(shown))
            for link, amount in page.revenue.items():
                if link in shown:
                    self._n_clipped += amount > self._max_revenue
                    earned[shown.index(link)] = min(1.0, amount / self._max_revenue)
            self._learn(REVENUE, places, chances, views, earned)

    def _scaled(
        self, revenue: NDArray[np.float64], clicks: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return revenue as a share of the most that so many clicks can bring, clipped."""
        with np.errstate(over="ignore"):
            scaled: NDArray[np.float64] = revenue / self._max_revenue
        over = scaled > clicks
        if over.any():
            self._n_clipped += int(over.sum())
            scaled[over] = clicks[over]
        return scaled

    def _learn(
        self,
        level: int,
        places: NDArray[np.int64],
        chances: NDArray[np.float64],
        views: NDArray[np.float64],
        outcomes: NDArray[np.float64],
    ) -> None:
        self._teach(self._state, NOBODY, level, places, NO_SLOTS, chances, views, outcomes)
        if self._counts is self._own_counts:
            self._own_counts.views[level, places] += views
            self._own_counts.sums[level, places] += outcomes

    def update_batch(
        self,
        views: Mapping[Any, int],
        clicks: Mapping[Any, int] | None = None,
        revenue: Mapping[Any, float] | None = None,
    ) -> None:
        """Learn from many page views at once, given as counts per link.

        `views` says how often each link was shown, `clicks` how often it was clicked and
        `revenue` what those clicks earned in all; links without an entry had none. None leaves
        that level open: then give the same `views` again with the level that was missing.
        Counts have no ids, so it is up to the caller to give each of them once. Policies that
        need every page, with its probabilities, refuse counts.
        """
        with self._lock:
            if not self._policy.needs.takes_counts:
                advice = "give it every page with `update`"
                rule = "a policy that learns from counts"
                raise InvalidInput.of("policy", rule, self._policy.name, advice)
            batch = read_batch(views, clicks, revenue)
            places = self._pool.places("views", batch.links)
            certain = np.ones(len(places))
            if batch.clicks is not None:
                self._learn(CLICK, places, certain, batch.views, batch.clicks)
            if batch.revenue is not None:
                most_clicks = batch.views if batch.clicks is None else batch.clicks
                earned = self._scaled(batch.revenue, most_clicks)
                self._learn(REVENUE, places, certain, batch.views, earned)

    # Changing the pool

    def add_links(self, links: Iterable[Link]) -> None:
        """Let more links be shown; what is known of the others stays."""
        with self._lock:
            self._move_to(self._pool.with_links(links))
            self._n_pool_changes += 1

    def retire(self, links: Iterable[Link]) -> None:
        """Show these links no more; what is known of the others stays.

        Feedback that still comes for them is accepted and teaches nothing.
        """
        with self._lock:
            self._move_to(self._pool.without_links(links, self._problem.n_slots))
            self._n_pool_changes += 1

    def _move_to(self, pool: Pool) -> None:
        problem = Problem(len(pool), self._problem.n_slots, self._problem.click_floor)
        kept = pool.places_in(self._pool)
        state = self._policy.move(self._state, problem, kept)
        counts = new_counts(problem)
        stays = kept >= 0
        counts.views[:, stays] = self._own_counts.views[:, kept[stays]]
        counts.sums[:, stays] = self._own_counts.sums[:, kept[stays]]
        self._pool, self._problem, self._state = pool, problem, state
        self._own_counts = counts

    # Telling

    def report(self) -> Report:
        """Return what is known: of each link, of the page, of the floor and of the feedback.

        Looking changes nothing: the next pages are the same with and without a report.
        """
        with self._lock:
            # on copies: how a state is arranged decides the order of links, chance the next page
            state = self._policy.restore(self._problem, self._policy.knowledge(self._state))
            self._choose(state, NOBODY, copy.deepcopy(self._rng))
            chances = explored(dense_probabilities(state.mix), self._explore)
            return Report(
                policy=self._policy.name,
                links=link_reports(self.links, self._counts, chances, self._max_revenue),
                page=page_report(self._counts, chances, self._problem, self._max_revenue),
                n_pages=self._pages.n_issued,
                n_open_pages=len(self._pages),
                n_forgotten_pages=self._pages.n_forgotten,
                n_clipped=self._n_clipped,
            )

    def frontier(self) -> PriceOfFloor:
        """Return the best revenue for every click floor at the present estimates, with a band.

        What the floor costs, and what another one would: in money a page view.
        """
        with self._lock:
            return price_of_floor(self._counts, self._problem, self._max_revenue)

    # Logging

    def log_to(self, path: str | os.PathLike[str], *, max_waiting: int = 100_000) -> None:
        """Log the pages from now on to the folder at `path`, for `slotwise evaluate`.

        A page is written when its clicks and its revenue are settled and no page before it is
        open; one that is still open after `max_waiting` others is logged as unsettled and left out
        of evaluations. So settle every page, also one without clicks. Files of 500,000 rows
        appear whole; `flush_log` writes what is ready, `close_log` everything.
        """
        waiting = whole_number("max_waiting", max_waiting, at_least=1)
        with self._lock:
            self.close_log()
            self._journal = PageJournal(path, self._policy.name, self._max_revenue, waiting)

    def flush_log(self) -> None:
        """Write the settled pages that no open page stands before."""
        with self._lock:
            if self._journal is not None:
                self._journal.flush()

    def close_log(self) -> None:
        """Write the rest of the log, open pages as unsettled, and log no more."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    # Keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file: links, policy, knowledge, open pages and chance.

        `Selector.load` goes on from there page for page: saving arranges what is known as
        loading will, so this selector and the loaded one choose the same from here on.
        """
        with self._lock:
            knowledge = self._policy.knowledge(self._state)
            save_selector(self, Path(path), knowledge)
            self._state = self._policy.restore(self._problem, knowledge)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selector:
        """Return the selector that `save` wrote."""
        return load_selector(cls, Path(path))
