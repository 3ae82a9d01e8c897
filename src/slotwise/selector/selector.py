"""Selector: a policy, what it has learned, a random generator and link ids, to embed."""

from __future__ import annotations

import copy
import dataclasses
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Never

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import code_for
from slotwise.errors import InvalidInput
from slotwise.features import Features, Visitor
from slotwise.policies import NO_SLOTS, NOBODY, Policy
from slotwise.policies.atomic_learning import copied_state, may_raise
from slotwise.policies.policy import Counts, add_counts, moved_counts, new_counts, policy_for
from slotwise.problem import Problem, whole_number
from slotwise.rounds import AnyLink, Decision, Link
from slotwise.selection import dense_probabilities, dependent_rounding, draw_page
from slotwise.selection.mix import explored
from slotwise.selection.vectors.uniforms import chance_of
from slotwise.selector.link_pool import (
    Pool,
    by_level,
    checked_floors_by,
    checked_levels,
    checked_policy,
    checked_share,
    refuse_unknown,
)
from slotwise.selector.open_pages import CLICKS_AND_REVENUE, Batch, OpenPage, OpenPages, read_batch
from slotwise.selector.page_journal import PageJournal
from slotwise.selector.page_slots import PageSlots
from slotwise.selector.pages_ahead import PagesAhead
from slotwise.selector.probabilities import Probabilities
from slotwise.selector.report import (
    Delivered,
    Money,
    PriceOfFloor,
    Report,
    link_reports,
    page_report,
    price_of_floor,
)
from slotwise.selector.restrictions import (
    Restrictions,
    checked_restrictions,
    restricted_probabilities,
)
from slotwise.selector.selector_file import load_selector, save_selector
from slotwise.selector.visits import Visits

NO_LINKS: tuple[Link, ...] = ()


class Selector(Generic[AnyLink]):
    """Choose links for page views and learn from what came of them.

    Links are any hashable ids. `policy` is a policy with its settings or the name of one; without
    it the best one that needs no horizon and no tuning is used (`slotwise.default_policy`).
    `horizon` is how many page views there will be, for policies that plan for a number of them.
    `max_revenue` is the most a click can bring, in your money; it scales revenue to [0, 1], and
    what lies above is clipped and counted in the report.
    `levels` names what can happen to a link, each step a part of the one before it, when that is
    not a click and its revenue; `update` then takes the levels by name: of the last one money, of
    the others the links that reached it. `floors`, `rate_floors` and `rewards` are those of
    `slotwise.Problem`.
    `max_open_pages` bounds the memory for pages whose feedback never comes: beyond it the
    oldest are forgotten, and counted; feedback that comes for them later is ignored.
    `explore` is the share of the page that random links get, so that every link keeps a small
    probability and the log can be evaluated (`log_to`); it costs that share of what the policy's
    page brings above a random one. 0 turns it off.

    `features` declares what may be said of a visitor (`slotwise.features.Features`), for
    `select(visitor=...)`; the floor is kept on average over all page views. `floors_by` asks for
    clicks a page view of some visitors: `{"country": {"DE": 0.3}}`. `slot_weights` says how often a
    link is clicked in each slot relative to the average slot: a list, "learn", or None where all
    slots are alike. The links worth most then go to the best slots.

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
        links: Iterable[AnyLink],
        n_slots: int,
        *,
        policy: Policy | str | None = None,
        click_floor: float = 0.0,
        levels: Sequence[str] | None = None,
        floors: Mapping[str, float] | None = None,
        rate_floors: Mapping[str, float] | None = None,
        rewards: Mapping[str, float] | None = None,
        horizon: int | None = None,
        max_revenue: float = 1.0,
        max_open_pages: int = 1_000_000,
        explore: float = 0.0,
        features: Mapping[str, Any] | None = None,
        slot_weights: Sequence[float] | str | None = None,
        floors_by: Mapping[str, Mapping[Any, float]] | None = None,
        seed: int | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, Selector.__init__)
        asked = checked_policy(policy)
        self._money = Money(max_revenue)
        max_pages = whole_number("max_open_pages", max_open_pages, at_least=1)
        self._explore = checked_share("explore", explore)
        if seed is not None:
            seed = whole_number("seed", seed, at_least=0)
        self._pool = Pool(links)
        declared = Features({} if features is None else features)
        self._problem = Problem(
            len(self._pool),
            n_slots,
            click_floor,
            levels=checked_levels(levels),
            horizon=horizon,
            floors=floors or {},
            rate_floors=rate_floors or {},
            rewards=rewards or {},
            feature_sizes=declared.sizes,
            slot_weights=slot_weights,  # type: ignore[arg-type]
            value_floors=checked_floors_by(floors_by, declared, n_slots),
        )
        self._slots = PageSlots(self._problem)
        self._visits = Visits(declared, self._problem.n_levels)
        self._levels = None if levels is None else self._problem.levels
        self._level_names = self._levels or CLICKS_AND_REVENUE
        self._policy = asked
        self._player = policy_for(asked, self._problem)
        self._state: Any = self._player.start(self._problem)
        self._rng = np.random.default_rng(seed)
        self._delivered = Delivered()
        self._n_pool_changes = 0
        self._journal: PageJournal | None = None
        self._pages = OpenPages(max_pages, level_names=self._level_names)
        self._retired: dict[Link, None] = {}
        self._own_counts = new_counts(self._problem)
        self._lock = threading.RLock()
        self._make_room()

    def _make_room(self) -> None:
        """Set up what every page view uses again."""
        n_slots = self._problem.n_slots
        self._shown, self._drawn = page, drawn = np.zeros(n_slots, np.int64), np.zeros(n_slots)
        policy, state = type(self._player), self._state
        self._may_raise = may_raise(policy)
        self._choose = code_for(policy.choose, state, NOBODY, policy.rng_of_choice(self._rng))
        self._chance = chance_of(self._rng)
        self._draw = code_for(draw_page, state.mix, self._chance, page, drawn)
        self._teach = code_for(policy.learn, state, NOBODY, 0, page, NO_SLOTS, *[drawn] * 3)
        self._count = code_for(add_counts, self._own_counts, 0, page, drawn, drawn)
        self._slots.make_room(policy, state, self._chance)

    def __repr__(self) -> str:
        """Return links, page, policy and how many pages were chosen."""
        asked = repr(self._problem).removeprefix("Problem(").removesuffix(")")
        pages = f"{self._pages.n_issued} pages, {len(self._pages)} open"
        return f"<Selector {asked}, policy={self._policy.name!r}: {pages}>"

    @property
    def links(self) -> tuple[AnyLink, ...]:
        """The links that can be shown now."""
        return self._pool.links  # type: ignore[return-value]

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

    def _choose_for(self, state: Any, visitor: Visitor, rng: np.random.Generator) -> None:
        """Let the policy write the probabilities of a page into the mix of a state."""
        self._choose.call(state, visitor, self._player.rng_of_choice(rng))

    def select(
        self,
        exclude: Iterable[Link] = NO_LINKS,
        pin: Iterable[Link] = NO_LINKS,
        *,
        visitor: Mapping[str, Any] | None = None,
    ) -> Decision[AnyLink]:
        """Choose the links of one page, for a visitor of whom these features are known.

        Pinned links are on the page and excluded ones are not; the policy fills the rest of the
        page, so the floor is still kept where it can be.
        """
        with self._lock:
            known = self._visits.encode(visitor)
            if pin is not NO_LINKS or exclude is not NO_LINKS:
                pinned = self._pool.places("pin", pin)
                excluded = self._pool.places("exclude", exclude)
                if len(pinned) or len(excluded):
                    n_slots = self._problem.n_slots
                    asked = checked_restrictions(self._pool, n_slots, pinned, excluded)
                    return self._select_restricted(known, asked)
            self._choose_for(self._state, known, self._rng)
            if self._explore or self._journal is not None:
                chosen = dense_probabilities(self._state.mix)
                return self._draw_from(known, explored(chosen, self._explore))
            mix = self._state.mix
            self._draw.call(mix, self._chance, self._shown, self._drawn)
            is_random = self._slots.arrange(self._state, self._chance, self._shown, self._drawn)
            shown = self._pool.links_at(self._shown.tolist())
            drawn = (tuple(self._drawn.tolist()), tuple(known.tolist()))
            page_id = self._pages.issue(shown, *drawn, is_random)
            probabilities = Probabilities.of_mix(self._pool.links, mix)
            return Decision(page_id, shown, probabilities)  # type: ignore[arg-type]

    def _draw_from(self, visitor: Visitor, probabilities: NDArray[np.float64]) -> Decision[Any]:
        """Draw a page with these inclusion probabilities, one for each link of the pool."""
        places = dependent_rounding(probabilities, self._rng)
        of_places = probabilities[places]
        is_random = self._slots.arrange(self._state, self._chance, places, of_places)
        shown, drawn = self._pool.links_at(places.tolist()), tuple(of_places.tolist())
        page_id = self._pages.issue(shown, drawn, tuple(visitor.tolist()), is_random)
        page = Decision(page_id, shown, Probabilities.of_array(self._pool.links, probabilities))
        if self._journal is not None:
            least, issued = float(probabilities.min()), self._pages.n_issued
            known = (self._visits.logged(visitor), is_random)
            self._journal.issued(issued, page, drawn, least, self._n_pool_changes, *known)
        return page

    def _select_restricted(self, visitor: Visitor, asked: Restrictions) -> Decision[Any]:
        def page_of(state: Any, _: Problem) -> NDArray[np.float64]:
            self._choose_for(state, visitor, self._rng)
            return dense_probabilities(state.mix)

        self._choose_for(self._state, visitor, self._rng)
        rates = self._counts.sums / np.maximum(self._counts.views, 1.0)
        decider = (self._player, self._state, self._problem)
        probabilities = restricted_probabilities(asked, *decider, rates, page_of)
        return self._draw_from(visitor, explored(probabilities, self._explore, asked.is_free))

    # Learning

    def update(
        self,
        page: Decision | str,
        clicks: Iterable[Link] | None = None,
        revenue: Mapping[Any, float] | None = None,
        **levels: Any,
    ) -> None:
        """Tell what is known of a page, given as the decision or its id.

        `clicks` are the links that were clicked, `revenue` what each link earned; an empty one
        says that there were none, None that it is not known yet. A selector with `levels` takes
        those by name instead. Levels may come one at a time and in any order. A page is settled
        once every level is known, or by `settle`; until then further clicks are added to those
        known, and what comes later is ignored. Revenue is said once: saying the same twice changes
        nothing, saying something else is refused. After an error everything is as before.
        """
        given = by_level(self._level_names, clicks, revenue, levels)
        with self._lock:
            found = self._pages.find(page)
            if found is not None:
                self._take_in(found, found.told(given))

    def settle(self, page: Decision | str) -> None:
        """Say that nothing more will come of a page: what is not known by now did not happen."""
        with self._lock:
            found = self._pages.find(page)
            if found is not None:
                self._take_in(found, found.ended())

    def _take_in(self, before: OpenPage, page: OpenPage) -> None:
        if page is not before:
            self._all_or_nothing(self._learn_page, before, page)
            self._pages.put(page)
            if self._journal is not None and page.is_settled:
                self._journal.settled(page)
            self._money.warn()

    def _all_or_nothing(self, learn: Callable[..., None], *feedback: Any) -> None:
        """Call a function that learns; if the policy raises, everything is as before."""
        if not self._may_raise:
            return learn(*feedback)
        parts = (self._state, self._own_counts, self._slots.order, self._visits.counts)
        before = copied_state(parts)
        told = copy.copy(self._money), copy.deepcopy(self._delivered)
        try:
            learn(*feedback)
        except BaseException:
            self._state, self._own_counts, self._slots.order, self._visits.counts = before
            self._money, self._delivered = told
            raise

    def _learn_page(self, before: OpenPage, page: OpenPage) -> None:
        """Learn what was not known of a page before."""
        kept, shown, places, probabilities = self._pool.known(page.shown, page.probabilities)
        slots, views = self._slots.shown_in(kept)
        visitor = np.array(page.visitor, np.int64) if page.visitor else NOBODY
        n_levels = len(page.outcomes)
        for level, outcome, is_first in page.news_since(before):
            if level == 0 and page.is_in_random_order:
                self._slots.note([outcome.get(link, 0.0) for link in page.shown])
            if level == n_levels - 1:
                outcome = self._money.scaled_page(outcome, self._pool)
            total = sum(outcome.values())
            known = 0 if is_first else len(before.outcomes[level] or ())
            squares = total * (total + 2.0 * known)
            self._delivered.note(level, n_levels, is_first, total, squares)
            if not kept:
                continue
            brought = np.zeros(len(kept))
            if outcome:
                brought[:] = [outcome.get(link, 0.0) for link in shown]
            counted = views if is_first else np.zeros(len(kept))
            self._learn(visitor, level, places, slots, probabilities, counted, brought)
            self._visits.note(visitor, level, brought, is_first)

    def _learn(
        self,
        visitor: Visitor,
        level: int,
        places: NDArray[np.int64],
        slots: NDArray[np.int64],
        probabilities: NDArray[np.float64],
        views: NDArray[np.float64],
        outcomes: NDArray[np.float64],
    ) -> None:
        self._teach.call(self._state, visitor, level, places, slots, probabilities, views, outcomes)
        if self._counts is self._own_counts:
            self._count.call(self._own_counts, level, places, views, outcomes)

    def update_batch(
        self,
        views: Mapping[Any, int],
        clicks: Mapping[Any, int] | None = None,
        revenue: Mapping[Any, float] | None = None,
        **levels: Any,
    ) -> None:
        """Learn from many page views at once, given as counts per link.

        `views` says how often each link was shown, `clicks` how often it was clicked and
        `revenue` what those clicks earned in all; links without an entry had none. A selector
        with `levels` takes those by name instead. None leaves that level open: then give the same
        `views` again with the level that was missing. Counts of retired links are accepted and
        teach nothing. Counts have no ids, so it is up to the caller to give each of them once.
        Policies that need every page, with its probabilities, refuse counts.
        """
        given = by_level(self._level_names, clicks, revenue, levels)
        with self._lock:
            is_told_apart = self._player.uses_visitors and self._problem.feature_sizes
            if is_told_apart or not self._player.needs.takes_counts:
                advice = "give it every page with `update`"
                rule = "a policy that learns from counts"
                raise InvalidInput.of("policy", rule, self._policy.name, advice)
            self._slots.refuse_counts()
            batch = read_batch(views, given, self._level_names)
            kept = [k for k, link in enumerate(batch.links) if link not in self._retired]
            places = self._pool.places("views", [batch.links[k] for k in kept])
            self._all_or_nothing(self._learn_batch, batch, kept, places)
            self._money.warn()

    def _learn_batch(self, batch: Batch, kept: list[int], places: NDArray[np.int64]) -> None:
        """Learn the counts of the links that are still in the pool."""
        certain, n_views = np.ones(len(places)), batch.views[kept]
        last = len(batch.outcomes) - 1
        for level, totals in enumerate(batch.outcomes):
            if totals is None:
                continue
            brought = totals[kept]
            if level == last:
                brought = self._money.scaled(brought, batch.most_before(level)[kept])
            n_pages = float(n_views.sum()) / self._problem.n_slots
            total = float(brought.sum())
            most = self._problem.n_slots * total  # as if all clicks came on a few full pages
            self._delivered.note(level, last + 1, n_pages, total, most)
            self._learn(NOBODY, level, places, NO_SLOTS, certain, n_views, brought)

    # Changing the pool

    def add_links(self, links: Iterable[Link]) -> None:
        """Let more links be shown; what is known of the others stays."""
        with self._lock:
            self._move_to(self._pool.with_links(links))
            self._n_pool_changes += 1
            for link in self.links:
                self._retired.pop(link, None)

    def retire(self, links: Iterable[Link]) -> None:
        """Show these links no more; what is known of the others stays.

        Feedback that still comes for them is accepted and teaches nothing.
        """
        with self._lock:
            before = self.links
            self._move_to(self._pool.without_links(links, self._problem.n_slots))
            self._n_pool_changes += 1
            self._retired.update(dict.fromkeys(link for link in before if link not in self._pool))

    def set_floor(self, click_floor: float | None = None, **floors: float) -> None:
        """Ask for another click floor, or for other floors by level, from the next page on.

        What is known stays; a queue keeps what is owed under the floor before.
        """
        with self._lock:
            asked = dict(self._problem.floors) | floors
            if click_floor is not None:
                asked[self._problem.levels[0]] = click_floor
            first = asked.pop(self._problem.levels[0])
            self._move_to(self._pool, click_floor=first, floors=asked)
            self._delivered.start_again()

    def _move_to(self, pool: Pool, **changes: Any) -> None:
        problem = dataclasses.replace(self._problem, n_links=len(pool), **changes)
        kept = pool.places_in(self._pool)
        policy_for(self._policy, problem)  # refuses floors that it cannot keep
        player = self._policy.for_knowledge(problem, self._player.knowledge(self._state))
        state = player.move(self._state, problem, kept)
        self._pool, self._problem, self._state = pool, problem, state
        self._own_counts = moved_counts(self._own_counts, problem, kept)
        if type(player) is not type(self._player):
            self._player = player
            self._make_room()

    # Telling

    def report(self) -> Report:
        """Return what is known: of each link, of the page, of the floor and of the feedback.

        Looking changes nothing: the next pages are the same with and without a report.
        """
        with self._lock:
            ahead = PagesAhead(self)
            probabilities = ahead.probabilities(self._visits.encode(None))
            money, problem = self._money.max_revenue, self._problem
            page = page_report(self._counts, probabilities, problem, money)
            return Report(
                policy=self._policy.name,
                links=link_reports(self.links, self._counts, probabilities, problem, money),
                page=page,
                delivered=self._delivered.report(problem, money, self._counts),
                n_pages=self._pages.n_issued,
                n_open_pages=len(self._pages),
                n_forgotten_pages=self._pages.n_forgotten,
                n_clipped=self._money.n_clipped,
                for_whom=self._visits.report(problem, money, self.links, ahead.probabilities),
                slots=self._slots.report(self.links, ahead.pages()),
            )

    def frontier(self) -> PriceOfFloor:
        """Return the best revenue for every click floor at the present estimates, with a band.

        What the floor costs, and what another one would: in money a page view.
        """
        with self._lock:
            return price_of_floor(self._counts, self._problem, self._money.max_revenue)

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
            self._journal = PageJournal(
                path,
                self._policy.name,
                self._money.max_revenue,
                waiting,
                slots_differ=not self._slots.are_alike,
                features=[feature.name for feature in self._visits.features.features],
                levels=self._level_names[1:-1],
            )

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
        """Write everything to one file: links, policy, knowledge, open pages, random generator.

        `Selector.load` goes on from there page for page: saving arranges what is known as
        loading will, so this selector and the loaded one choose the same from here on.
        """
        with self._lock:
            knowledge = self._player.knowledge(self._state)
            save_selector(self, Path(path), knowledge)
            self._state = self._player.restore(self._problem, knowledge)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selector[Any]:
        """Return the selector that `save` wrote."""
        return load_selector(cls, Path(path))
