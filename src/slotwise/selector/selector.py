"""Selector: a policy with its state, link ids and a random generator, to embed in a program.

Programs use it as `slotwise.Selector`. Used by `selector_file`, which saves it.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Never

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.features import NOT_KNOWN, Features
from slotwise.page_log import LogWriter
from slotwise.player.known_counts import KnownCounts
from slotwise.player.link_pool import LinkPool
from slotwise.player.own_page import OwnView, checked_keep, checked_order
from slotwise.player.pages import PageFeedback
from slotwise.player.player import LinkTotals, Player, PlayerKnowledge
from slotwise.player.rules_in_force import RuleCounts, check_links
from slotwise.policies import NOBODY, Policy, default_policy
from slotwise.problem import LEARN, Problem, Rule, whole_number
from slotwise.rounds import AnyLink, Decision, Link
from slotwise.selection.promise import LEAST_OWN
from slotwise.selector.accounting import DeliveredTotals, Money, UnknownWords
from slotwise.selector.arguments import (
    by_level,
    checked_levels,
    checked_policy,
    checked_share,
    checked_slot_weights,
    refuse_unknown,
)
from slotwise.selector.floor_advice import PriceOfFloor, price_of_floor, warn_unreachable
from slotwise.selector.open_pages import CLICKS_AND_REVENUE, OpenPage, OpenPages, read_batch
from slotwise.selector.page_journal import ChosenPage, PageJournal, close_at_end
from slotwise.selector.promised_pages import PromisedPages, checked_holdout, new_secret
from slotwise.selector.report import (
    Report,
    link_reports,
    page_report,
    rule_reports,
    visitor_reports,
)
from slotwise.selector.selector_file import load_selector, save_selector

N_PAGES_AHEAD = 64
"""Pages that a report draws to find the usual link of each slot."""

NO_LINKS: tuple[Link, ...] = ()
NOT_GIVEN = -1


class Selector(Generic[AnyLink]):
    """Choose the links of pages and learn from the feedback.

    Links are any hashable ids. `policy` is a policy with its settings or the name of one; by
    default `slotwise.default_policy`, which needs no horizon and no tuning. `horizon` is the number
    of page views to expect. Some policies need it; the default loses about 5 % less with the right
    one, and more with one that is too short.
    `max_revenue` is the most that a click can earn, in your currency. It scales revenue to [0, 1];
    larger amounts are clipped and counted in the report.
    `levels` names the levels of feedback where they are not clicks and revenue; each level is
    reached only through the one before it. `update` then takes the levels by name: an amount for
    each link at the last level, the links that reached it at the others. `floors`, `rate_floors`
    and `rewards` are those of `slotwise.Problem`.
    `max_open_pages` limits the memory for pages that get no feedback: beyond it the oldest are
    forgotten and counted, and later feedback for them is ignored.
    `explore` is the share of random links on a page. It gives every link a positive probability, so
    that the log can be evaluated (`log_to`). It costs this share of the difference between the
    policy's page and a random page. 0 turns it off.

    `features` declares the features of visitors for `select(visitor=...)`
    (`slotwise.features.Features`); the floor is kept on average over all page views.
    `segment_floors` sets click floors for segments: `{"country": {"DE": 0.3}}`. `slot_weights` are
    the click rates of the slots relative to the average slot: a list, "learn" (the default) to
    estimate them, or "equal" where all slots are alike. The most valuable links are placed in the
    best slots; where slots are alike, the order is random. `rules` limit how many slots of a page
    some links have (`slotwise.Rule`).

    `own_page` is the page that you have today, as an order of links: its first `n_slots` that may
    be shown. Some views get it, the others the page that the policy chose (`page.group`), and
    `report().comparison` says how much more chosen pages earn. With `keep`, for example 0.95, the
    share of chosen pages grows with the evidence, so that revenue is at least `keep` times what the
    own page alone would have earned, at all times with a probability of 95 %. `holdout` is the
    share of own pages that stays for comparison.

    A selector can be used from several threads: every method holds a lock, so the result is that of
    the same calls in some order, and no page, click or sale is lost or counted twice. Processes
    cannot share a selector.

    >>> from slotwise.policies import CUCB
    >>> selector = Selector(links=["sale", "new", "blog"], n_slots=2, policy=CUCB(), seed=7)
    >>> page = selector.select()
    >>> selector.update(page, clicks=[page.shown[0]], revenue={page.shown[0]: 0.4})
    >>> sum(link.views for link in selector.report().links)
    2
    """

    def __init__(  # noqa: PLR0913
        self,
        links: Iterable[AnyLink],
        n_slots: int = NOT_GIVEN,
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
        features: Mapping[str, object] | Features | None = None,
        slot_weights: Sequence[float] | str | None = LEARN,
        segment_floors: Mapping[str, Mapping[Any, float]] | None = None,
        rules: Sequence[Rule] = (),
        own_page: Sequence[Link] | None = None,
        keep: float | None = None,
        holdout: float = LEAST_OWN,
        seed: int | None = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, Selector.__init__)
        if n_slots is NOT_GIVEN:
            raise TypeError("`Selector` needs `n_slots`, the number of links on a page")
        checked = checked_policy(policy)
        self._money = Money(max_revenue)
        max_pages = whole_number("max_open_pages", max_open_pages, at_least=1)
        self._explore = checked_share("explore", explore)
        if seed is not None:
            seed = whole_number("seed", seed, at_least=0)
        pool = LinkPool(links)
        problem = Problem(
            len(pool),
            n_slots,
            click_floor,
            levels=checked_levels(levels),
            horizon=horizon,
            floors=floors or {},
            rate_floors=rate_floors or {},
            rewards=rewards or {},
            features={} if features is None else features,
            slot_weights=checked_slot_weights(slot_weights, n_slots),
            segment_floors={} if segment_floors is None else segment_floors,
            rules=rules,  # type: ignore[arg-type]
        )
        check_links(problem.rules, pool)
        if policy is None:
            checked = default_policy(problem.horizon)
        self._player = Player.start(problem, checked, pool.links)
        self._levels = None if levels is None else problem.levels
        self._level_names = self._levels or CLICKS_AND_REVENUE
        self._rng = np.random.default_rng(seed)
        self._delivered = DeliveredTotals()
        self._rule_counts = RuleCounts(problem.rules)
        self._n_pool_changes = 0
        self._journal: PageJournal | None = None
        self._stop_closing: Callable[[], object] = lambda: None
        self._unknown_words = UnknownWords()
        self._pages = OpenPages(max_pages, level_names=self._level_names)
        self._retired: dict[Link, None] = {}
        self._says_unreachable = False
        self._lock = threading.RLock()
        self._promised: PromisedPages | None = None
        self._secret = new_secret(seed)
        self.set_own_page(own_page, keep, holdout)

    def __repr__(self) -> str:
        """Return the problem, the policy and the number of pages."""
        described = repr(self.problem).removeprefix("Problem(").removesuffix(")")
        described = described.replace(f", slot_weights={LEARN!r}", "")
        pages = f"{self._pages.n_issued} pages, {len(self._pages)} open"
        return f"<Selector {described}, policy={self.policy.name!r}: {pages}>"

    def __reduce__(self) -> Never:
        """Refuse to be copied or pickled: two copies would settle the same pages."""
        raise TypeError("a Selector cannot be copied or pickled; use `save` and `Selector.load`")

    @property
    def links(self) -> tuple[AnyLink, ...]:
        """The links that can be shown now."""
        return self._player.pool.links  # type: ignore[return-value]

    @property
    def problem(self) -> Problem:
        """The present problem: links, slots, floor."""
        return self._player.problem

    @property
    def policy(self) -> Policy:
        """The policy that decides."""
        return self._player.policy

    def knowledge(self) -> PlayerKnowledge:
        """Return copies of what was learned: arrays of the policy, counts, slots and words."""
        with self._lock:
            return self._player.knowledge()

    # Deciding

    def select(
        self,
        exclude: Iterable[Link] = NO_LINKS,
        pin: Iterable[Link] = NO_LINKS,
        *,
        visitor: Mapping[str, object] | None = None,
        visitor_key: str | None = None,
    ) -> Decision[AnyLink]:
        """Choose the links of one page, for a visitor with these features.

        Pinned links are on the page and excluded ones are not. The policy chooses the rest of the
        page so that the floor is kept if possible. Where there is an own page, the same
        `visitor_key` gets the same group of pages while the share of chosen pages stays; as it
        grows, a visitor moves from own to chosen pages once. The key is not stored.
        """
        with self._lock:
            player, rng, journal = self._player, self._rng, self._journal
            known = player.encode(visitor)
            if visitor:
                self._unknown_words.note(player.features, visitor, known)
            constraints = None
            if pin is not NO_LINKS or exclude is not NO_LINKS:
                constraints = player.constraints(pin, exclude)
            is_logged = journal is not None
            own: OwnView | None = None
            if self._promised is not None:
                own = self._promised.view(self.problem, player.pool, visitor_key, rng)
            self._count_open_pages()
            player.choose(
                known, rng, constraints, explore=self._explore, all_links=is_logged, own=own
            )
            page = player.draw(rng)
            self._forget_open(self._pages.forget_oldest())
            if player.rules is not None:
                self._rule_counts.count(page.shown)
            if own is None:
                page_id = self._pages.issue(page, tuple(known.tolist()))
                decision = Decision(page_id, page.shown, page.probabilities)
            else:
                group, share = own.group, own.shares.chosen
                page_id = self._pages.issue(page, tuple(known.tolist()), group, share)
                decision = Decision(page_id, page.shown, page.probabilities, group)
                self._promised.issued(group)  # type: ignore[union-attr]
            if journal is not None:
                labels = player.features.describe(known).items()
                of_visitor = {name: None if one == NOT_KNOWN else one for name, one in labels}
                least, issued = float(player.chosen_probabilities().min()), self._pages.n_issued
                drawn, is_random = page.drawn_with, page.is_in_random_order
                chosen = ChosenPage(drawn, least, self._n_pool_changes, of_visitor, is_random)
                journal.issued(issued, decision, chosen)
            return decision  # type: ignore[return-value]

    def _count_open_pages(self) -> None:
        """Count the last page as open if it has no feedback yet.

        This happens when the next page is chosen, because a page with immediate feedback is never
        counted as open.
        """
        pages = self._pages
        self._note_open(pages.last_uncounted(), 1.0)
        pages.counted_to = pages.n_issued
        for page in pages.waited_too_long():
            self._note_open(page, -1.0)

    def _note_open(self, page: OpenPage | None, n_views: float) -> None:
        """Add the open levels of a page to the open views, or with -1 remove them."""
        if page is not None:
            visitor = np.array(page.visitor, np.int64)
            for level in page.open_levels:
                self._player.note_open(visitor, level, page.shown, n_views)

    def _forget_open(self, page: OpenPage | None) -> None:
        """Remove a forgotten page from the open views if it was counted there."""
        if page is not None and self._pages.is_counted(page):
            self._note_open(page, -1.0)
        if page is not None and self._promised is not None:
            self._promised.forget(page)

    # Learning

    def update(
        self,
        page: Decision | str,
        clicks: Iterable[Link] | None = None,
        revenue: Mapping[Any, float] | None = None,
        *,
        shown: Sequence[Link] | None = None,
        **levels: object,
    ) -> None:
        """Record feedback for a page, given as the `Decision` or its id.

        `clicks` are the links that were clicked, `revenue` is what each link earned. An empty
        collection means that there was none, None that it is not known yet. A selector with
        `levels` takes those by name instead. Levels may be recorded one at a time and in any order.
        Further clicks are added while the page is open. Revenue is recorded once: add up all sales
        of the page first, because another revenue for an open page is refused. A page is settled
        when every level is known, or by `settle`; feedback for a settled page is ignored. If an
        error is raised, nothing has changed.

        `shown` is the order in which the page was displayed, where that differs from `page.shown`.
        Give it with the first feedback for the page, or before.
        """
        given = by_level(self._level_names, clicks, revenue, levels)
        with self._lock:
            found = self._pages.find(page)
            if found is not None:
                displayed = found if shown is None else found.displayed(shown)
                self._record(displayed, displayed.with_feedback(given))
                if displayed is not found and not given:
                    self._pages.put(displayed)

    def settle(self, page: Decision | str) -> None:
        """Settle a page when no further feedback is expected: open levels count as empty."""
        with self._lock:
            found = self._pages.find(page)
            if found is not None:
                self._record(found, found.ended())

    def _record(self, before: OpenPage, page: OpenPage) -> None:
        """Learn what a page has in addition to what was known before, and add it up."""
        if page is before:
            return
        found, was_open = list(page.news_since(before)), self._pages.is_counted(page)
        money, last = self._money, len(page.outcomes) - 1
        news = [
            (level, money.scaled_page(outcome) if level == last else outcome, is_first)
            for level, outcome, is_first in found
        ]
        visitor = np.array(page.visitor, np.int64) if page.visitor else NOBODY
        slots, is_random = range(len(page.shown)), page.is_in_random_order
        chosen = (visitor, page.shown, slots, page.probabilities, is_random)
        view = PageFeedback(*chosen, news, was_open)
        self._player.learn(view)  # all of it or, if the policy raises, nothing
        self._pages.put(page)
        for level, outcome, is_first in news:
            total = sum(outcome.values())
            known = 0 if is_first else len(before.outcomes[level] or ())
            squares = total * (total + 2.0 * known)
            self._delivered.note(level, last + 1, is_first, total, squares)
            if level == last:
                money.count_clipped(page.outcomes[last] or {}, self._player.pool)
        if self._promised is not None and page.is_settled:
            self._promised.settle(page, self._totals_of(page), self.problem)
        if self._journal is not None and page.is_settled:
            self._journal.settled(page)
        money.warn()

    def _totals_of(self, page: OpenPage) -> list[float]:
        """Return the outcome of a settled page by level, revenue in units of `max_revenue`."""
        *before, earned = [one or {} for one in page.outcomes]
        scaled = self._money.scaled_page(earned)
        return [float(sum(one.values())) for one in (*before, scaled)]

    def update_batch(
        self,
        views: Mapping[Any, int],
        clicks: Mapping[Any, int] | None = None,
        revenue: Mapping[Any, float] | None = None,
        **levels: object,
    ) -> None:
        """Learn from many page views at once, given as counts per link.

        `views` says how often each link was shown, `clicks` how often it was clicked and
        `revenue` what those clicks earned in total; links without an entry had none. A selector
        with `levels` takes those by name instead. None leaves a level open: give the same `views`
        again later, with that level. Counts of retired links are ignored. Counts have no ids, so
        the caller must give each of them only once. Policies that need every page with its
        probabilities refuse counts.
        """
        given = by_level(self._level_names, clicks, revenue, levels)
        with self._lock:
            player = self._player
            if player.uses_visitors or not player.form.needs.takes_counts:
                advice = "give it every page with `update`"
                rule = "a policy that learns from counts"
                raise InvalidInput.of("policy", rule, self.policy.name, advice)
            player.slots.refuse_counts()
            batch = read_batch(views, given, self._level_names)
            kept = [k for k, link in enumerate(batch.links) if link not in self._retired]
            places = player.pool.places("views", [batch.links[k] for k in kept])
            n_views, last = batch.views[kept], len(batch.outcomes) - 1
            money, totals = copy.copy(self._money), []
            for level, outcomes in enumerate(batch.outcomes):
                if outcomes is not None:
                    brought = outcomes[kept]
                    if level == last:
                        brought = money.scaled(brought, batch.most_before(level)[kept])
                    totals.append(LinkTotals(NOBODY, level, places, n_views, brought))
            player.learn_counts(totals)
            for page in self._pages.stop_counting():  # counts do not say which pages have settled
                self._note_open(page, -1.0)
            self._money = money
            n_slots, n_pages = self.problem.n_slots, float(n_views.sum()) / self.problem.n_slots
            for one in totals:
                total = float(one.outcomes.sum())
                most = n_slots * total  # as if all clicks came on a few full pages
                self._delivered.note(one.level, last + 1, n_pages, total, most)
            self._money.warn()

    # Changing the pool

    def add_links(self, links: Iterable[Link]) -> None:
        """Add links to the pool; what was learned about the others is kept."""
        with self._lock:
            self._move_to(self._player.pool.with_links(links))
            self._n_pool_changes += 1
            for link in self.links:
                self._retired.pop(link, None)

    def retire(self, links: Iterable[Link]) -> None:
        """Remove links from the pool; what was learned about the others is kept.

        Later feedback for removed links is accepted and ignored.
        """
        with self._lock:
            before = self.links
            pool = self._player.pool.without_links(links, self.problem.n_slots)
            self._move_to(pool)
            self._n_pool_changes += 1
            self._retired.update(dict.fromkeys(link for link in before if link not in pool))

    def set_floor(self, click_floor: float | None = None, **floors: float) -> None:
        """Change the click floor, or the floors of other levels, from the next page on.

        What was learned is kept. What is owed to a floor is counted anew from here on, as in the
        report.
        """
        with self._lock:
            clicks = self.problem.levels[0]
            floor_of = dict(self.problem.floors) | floors
            if click_floor is not None:
                floor_of[clicks] = click_floor
            first = floor_of.pop(clicks)
            self._move_to(self._player.pool, click_floor=first, floors=floor_of)
            self._delivered.start_again()

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace the rules, from the next page on; an empty list removes them.

        What was learned is kept; `slots_delivered` is counted from here on.
        """
        with self._lock:
            changed = dataclasses.replace(self.problem, rules=rules)  # type: ignore[arg-type]
            check_links(changed.rules, self._player.pool)
            self._move_to(self._player.pool, rules=changed.rules)
            self._rule_counts = RuleCounts(changed.rules)

    def set_own_page(
        self,
        own_page: Sequence[Link] | None,
        keep: float | None = None,
        holdout: float = LEAST_OWN,
    ) -> None:
        """Change the own page or what is promised, from the next page on; None removes both.

        The evidence so far stays if the own page does.
        """
        kept = checked_keep(keep)
        if own_page is None:
            if kept is not None:
                advice = "give the page that you have today as `own_page`"
                raise InvalidInput.of("keep", "given with an own page", keep, advice)
            with self._lock:
                self._promised = None
            return
        share = checked_holdout(holdout)
        with self._lock:
            order, before = checked_order(own_page, self._player.pool), self._promised
            pages = PromisedPages(order, kept, share, self._secret)
            pages.first_page = self._pages.n_issued + 1
            if before is not None and before.order == order:
                pages.take(before)
            if kept is not None:
                pages.decide(self.problem)
            self._promised = pages

    def _move_to(self, pool: LinkPool, **changes: Any) -> None:
        problem = dataclasses.replace(self.problem, n_links=len(pool), **changes)
        before = self._player.pool
        self._player = self._player.move(problem, pool)
        returned = {link for link in pool.links if link in self._retired and link not in before}
        for page in self._pages if returned else ():
            shown = [link for link in page.shown if link in returned]
            visitor = np.array(page.visitor, np.int64)
            for level in page.open_levels if self._pages.is_counted(page) else ():
                self._player.note_open(visitor, level, shown)

    # Reporting

    def report(self) -> Report:
        """Return the estimates of each link, the next page, the floor and counts of feedback.

        A report changes nothing: the next pages are the same with and without it.
        """
        with self._lock:
            player, problem, money = self._player, self.problem, self._money.max_revenue
            ahead, counts, last = player.copy(), player.counts, self._pages.last_uncounted()
            if last is not None:
                visitor = np.array(last.visitor, np.int64)
                for level in last.open_levels:
                    ahead.note_open(visitor, level, last.shown)

            promised, own = copy.deepcopy(self._promised), None
            if promised is not None:
                shares = promised.shares(problem)
                own = OwnView(promised.places(player.pool), shares, "chosen")

            def page_for(visitor: Any) -> Any:
                rng = copy.deepcopy(self._rng)
                ahead.choose(visitor, rng, explore=self._explore, all_links=True, own=own)
                return ahead.chosen_probabilities()

            probabilities = page_for(player.features.encode())
            values = visitor_reports(player, money, page_for)
            pages = ahead.pages_ahead(copy.deepcopy(self._rng), N_PAGES_AHEAD, self._explore)
            rules = player.slot_rules()
            page = page_report(counts, probabilities, problem, money, rules)
            delivered = self._delivered.report(problem, money, counts, rules)
            is_unreachable = page.status == delivered.status == "infeasible"
            if is_unreachable and not self._says_unreachable:
                self._says_unreachable = True
                warn_unreachable(page)
            return Report(
                policy=self.policy.name,
                links=link_reports(self.links, counts, probabilities, problem, money),
                page=page,
                delivered=delivered,
                n_pages=self._pages.n_issued,
                n_open_pages=len(self._pages),
                n_forgotten_pages=self._pages.n_forgotten,
                n_clipped=self._money.n_clipped,
                n_unknown_words=self._unknown_words.n,
                segments=values,
                slots=player.slots.report(self.links, pages),
                rules=rule_reports(player, probabilities, self._rule_counts.means, money),
                comparison=None if promised is None else promised.report(problem, money),
            )

    def frontier(self) -> PriceOfFloor:
        """Return the best revenue for every click floor at the present estimates, with a band.

        It shows what the floor costs and what another one would cost, per page view.
        """
        with self._lock:
            player, money = self._player, self._money.max_revenue
            return price_of_floor(player.counts, self.problem, money, player.slot_rules())

    # Logging

    def log_to(self, path: str | os.PathLike[str], *, max_waiting: int = 100_000) -> None:
        """Log the pages from now on to the folder at `path`, for `slotwise evaluate`.

        A page is written when it and all pages before it are settled. A page that is still open
        after `max_waiting` later ones is logged as unsettled and left out of evaluations. So settle
        every page, also those without clicks. Files have 500,000 rows; `flush_log` writes the pages
        that are ready, `close_log` all of them, as do the normal end of the program and the end of
        the selector. A log that is in the folder is continued.
        """
        waiting = whole_number("max_waiting", max_waiting, at_least=1)
        with self._lock:
            self.close_log()
            levels = self._level_names[1:-1]
            writer = LogWriter(
                path,
                [feature.name for feature in self._player.features.features],
                self._money.max_revenue,
                levels=levels,
                slots_differ=not self._player.slots.are_alike,
            )
            self._journal = PageJournal(writer, self.policy.name, waiting, levels)
            # the call must not keep the selector alive: it refers to the journal alone
            closing = weakref.finalize(self, close_at_end, self._journal, self._lock, os.getpid())
            self._stop_closing = closing.detach

    def flush_log(self) -> None:
        """Write the settled pages that have no open page before them."""
        with self._lock:
            if self._journal is not None:
                self._journal.flush()

    def close_log(self) -> None:
        """Write what is left to the log, with open pages as unsettled, and stop logging."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None
                self._stop_closing()

    # Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file: links, policy, state, open pages, random generator.

        `Selector.load` continues from there: this selector and the loaded one choose the same pages
        from here on.
        """
        with self._lock:
            save_selector(self, Path(path))
            self._player.rearrange()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selector[Any]:
        """Return the selector that `save` wrote."""
        return load_selector(cls, Path(path))


def start_from_counts(
    selector: Selector, counts: Sequence[KnownCounts], discount: float = 1.0
) -> None:
    """Import counts of the past, each with the weight `discount` of a page view.

    Rates are learned from them. They do not affect the click floor and are not counted as
    delivered.
    """
    share = checked_share("discount", discount)
    with selector._lock:
        player, problem = selector._player, selector.problem
        if problem.n_levels != 2:
            raise InvalidInput.of("levels", "clicks and revenue for counts", problem.levels)
        if not player.takes_counts:
            raise InvalidInput.of("policy", "a policy that learns from counts", player.policy.name)
        for one in counts:  # all are checked before any is learned
            read_batch(
                {one.link: one.views},
                {0: {one.link: one.clicks}, 1: {one.link: one.revenue}},
                CLICKS_AND_REVENUE,
            )
            player.pool.places("links", [one.link])
            player.encode(one.visitor)
        totals = []
        for one in counts:
            places, visitor = player.pool.places("links", [one.link]), player.encode(one.visitor)
            money = min(one.revenue / selector._money.max_revenue, one.clicks)
            for level, total in enumerate((one.clicks, money)):
                views, brought = np.array([share * one.views]), np.array([share * total])
                totals.append(LinkTotals(visitor, level, places, views, brought))
        player.import_counts(totals)
