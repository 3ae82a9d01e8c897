"""Player: a policy with what it has learned, on named links, for visitors and slots that differ.

It has the form of the policy that plays, its state, the encoding of visitors, the order of slots,
pins and exclusions, and imported counts. Random generators are arguments. Not safe for threads.
Used by `page_set`, `selector`, `service` and `testing`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links
from slotwise.compile import code_for, loop_maker, switching
from slotwise.errors import InvalidInput
from slotwise.features import Features, Visitor
from slotwise.player.link_pool import LinkPool
from slotwise.player.own_page import OwnView, in_own_order, mixed, own_probabilities
from slotwise.player.pages import Constraints, DrawnPage, PageFeedback, Probabilities
from slotwise.player.rules_in_force import RulesInForce
from slotwise.player.slots import PageSlots
from slotwise.policies import NO_SLOTS, NOBODY, LinkFeedback, Policy
from slotwise.policies.open_views import (
    OpenLedger,
    copied_counts,
    count_open,
    merge_values,
    new_open_views,
    take_counts,
)
from slotwise.policies.policy import (
    NEVER_NEGATIVE,
    OWED,
    Counts,
    Knowledge,
    add_counts,
    check_page,
    ignore_open,
    is_own,
    moved_counts,
    new_counts,
    rng_of_choice,
    visitors_seen,
)
from slotwise.policies.rest_of_page import Rest, rest_of_page
from slotwise.policies.within_rules import choosing_within
from slotwise.problem import Problem
from slotwise.rounds import Link
from slotwise.selection import dense_probabilities, dependent_rounding, draw_page
from slotwise.selection.mix import explored
from slotwise.selection.page_order import order_page, with_slot_weights
from slotwise.selection.page_rules import PageRules
from slotwise.selection.rounding import draw_by_groups
from slotwise.selection.rules import SlotRule
from slotwise.selection.uniforms import chance_of

KNOWS = "knows_"
"""The names of saved arrays that are the policy's begin with this."""

PAGES, OUTCOMES = range(2)


class LinkTotals(NamedTuple):
    """Feedback as counts: the settled views of links at one level and the sums of outcomes."""

    visitor: Visitor
    level: int
    places: Links
    views: Floats
    outcomes: Floats


class PlayerKnowledge(NamedTuple):
    """Copies of what a player knows."""

    form: Policy
    """The form of the policy that plays."""
    arrays: Knowledge
    """What the policy has learned, by name."""
    counts: Counts
    """Settled views and sums of outcomes, by level and link."""
    slot_clicks: Floats
    """Clicks by slot on pages in random order; empty where slots are alike."""
    slot_weights: Floats
    visits: Floats
    """Settled pages and their outcomes, by level and value of a feature."""
    words: Mapping[str, Sequence[str]]
    """The frequent words of each feature that is an open list."""


@loop_maker
def learning_many(learn: Any) -> Any:
    """Return a function that learns many views with the `learn` of a policy."""

    def learn_views(
        state: Any, visitors: Links, levels: Links, starts: Links, seen: LinkFeedback
    ) -> None:
        """Learn one view after the other; view k has the links from `starts[k]` on.

        `visitors` has a row for each view. The loop is
        compiled because unpacking the state in Python takes longer than learning a view.
        """
        for k in range(len(levels)):
            first, last = starts[k], starts[k + 1]
            feedback = LinkFeedback(
                seen.links[first:last],
                seen.slots[first:last],
                seen.probabilities[first:last],
                seen.views[first:last],
                seen.outcomes[first:last],
            )
            learn(state, visitors[k], levels[k], feedback)

    return learn_views


class _EntryPoints:
    """The code that a player calls from Python for every page, for the states of one form.

    The only place that obtains them.
    """

    def __init__(
        self, form: Policy, state: Any, slots: PageSlots, counts: Counts, rules: PageRules | None
    ) -> None:
        kind, rng, order = type(form), np.random.default_rng(0), slots.order
        chance, page, numbers = chance_of(rng), order.held, order.held_probabilities
        self.choose = code_for(kind.choose, state, NOBODY, rng_of_choice(form, rng))
        self.draw = code_for(draw_page, state.mix, chance, page, numbers)
        feedback = LinkFeedback(page, NO_SLOTS, *[numbers] * 3)
        self.learn = code_for(kind.learn, state, NOBODY, 0, feedback)
        self.count = code_for(add_counts, counts, 0, page, numbers, numbers)
        self.note_open = code_for(kind.note_open, state, NOBODY, 0, page, 1.0)
        if rules is not None:
            choose_within, chooser = choosing_within(kind), rng_of_choice(form, rng)
            self.choose_within = code_for(choose_within, state, NOBODY, chooser, rules)
            # the few arrays that it needs: unpacking all of them takes longer than drawing
            groups = (rules.probabilities, rules.links, rules.ends, rules.other_page)
            self.draw_within = code_for(draw_by_groups, *groups, chance, page, numbers)
        if not slots.are_alike:
            self.rank = code_for(kind.rank, state, page, order.worth)
            self.order = code_for(order_page, order, chance, page, order.worth)


class Player:
    """A policy, the problem it solves and what it knows of its links.

    `policy` is the requested one, `form` the one that plays: for several floors, for visitors or
    for large pools. `choose` and `draw` make a page; `learn` learns a settled page, `learn_many`
    many views in one compiled call. If learning raises, nothing was learned.

    >>> from slotwise.policies import CUCB
    >>> player = Player.start(Problem(3, 2), CUCB(), ["sale", "new", "blog"])
    >>> rng = np.random.default_rng(7)
    >>> player.choose(NOBODY, rng)
    >>> page = player.draw(rng)
    >>> clicked = {page.shown[0]: 1.0}
    >>> news = [(0, clicked, 1), (1, {}, 1)]
    >>> player.learn(PageFeedback(NOBODY, page.shown, range(2), page.drawn_with, False, news))
    >>> float(player.counts.views[0].sum())
    2.0
    """

    def __init__(
        self,
        policy: Policy,
        form: Policy,
        problem: Problem,
        pool: LinkPool,
        state: Any,
        *,
        slots: PageSlots,
        open_views: OpenLedger | None = None,
    ) -> None:
        self.policy, self.form, self.problem, self.pool = policy, form, problem, pool
        self.slots = slots
        self.visits = np.zeros((problem.n_levels, 2, sum(problem.feature_sizes)))
        """Settled pages and outcomes, by level and value of a feature."""
        self._own_counts = new_counts(problem)
        self.open_views = new_open_views(problem) if open_views is None else open_views
        """The ledger of page views without feedback so far, whose arrays the state shares. `save`
        leaves it out: the owner of the player adds the pages again."""
        self._entries: _EntryPoints | None = None
        self._rng: np.random.Generator | None = None
        self._chance: Any = None
        self._chosen: Floats | None = None
        self._within: PageRules | None = None
        self._mixture: Floats | None = None
        self._own_order: Links | None = None
        self._set_rules()
        self._shown, self._drawn = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
        self.state = state

    def _set_rules(self) -> None:
        problem = self.problem
        self.rules: RulesInForce | None = None
        """The rules of the problem, for the links of the pool."""
        if problem.rules:
            self.rules = RulesInForce(problem.rules, self.pool, problem.n_slots)

    @property
    def state(self) -> Any:
        """The state of the policy."""
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = self._sharing(state)

    def _sharing(self, state: object) -> Any:
        """Return the state with the player's open views and slot weights."""
        state = with_slot_weights(state, self.slots.order)
        return self._with_open_views(state, self.open_views)

    @classmethod
    def start(
        cls,
        problem: Problem,
        policy: Policy,
        links: Iterable[Link],
        *,
        slots: PageSlots | None = None,
    ) -> Player:
        """Return a player that has seen nothing; it counts the words of visitors by itself.

        `slots` are those of the problem, unless pages may be shorter than the learned slots.
        """
        problem = replace(problem, features=copy.deepcopy(problem.features))
        form = policy.for_problem(problem)
        return cls(
            policy,
            form,
            problem,
            LinkPool(links),
            form.start(problem),
            slots=PageSlots(problem) if slots is None else slots,
        )

    @property
    def features(self) -> Features:
        """The features of visitors, with the words that were frequent so far."""
        return self.problem.features  # type: ignore[return-value]

    @property
    def counts(self) -> Counts:
        """The counts of the policy, or the player's own where the policy keeps none."""
        return getattr(self._state, "counts", self._own_counts)

    @property
    def uses_visitors(self) -> bool:
        """Whether pages depend on what is known of the visitor."""
        return self.form.for_visitors is not None and bool(self.features)

    @property
    def takes_counts(self) -> bool:
        """Whether the policy learns from totals per link, without the pages they came from."""
        return "views" in self.form.knowledge(self._state)

    # Deciding

    def encode(self, visitor: Mapping[str, object] | None) -> Visitor:
        """Return what is known of a visitor as places of feature values."""
        if visitor is None and not self.features.sizes:
            return NOBODY
        return self.features.encode(visitor)

    def constraints(self, pin: Iterable[Link], exclude: Iterable[Link]) -> Constraints | None:
        """Return the constraints of a page; None where there are none."""
        pinned, excluded = self.pool.places("pin", pin), self.pool.places("exclude", exclude)
        if not (len(pinned) or len(excluded)):
            return None
        return Constraints.of(self.pool, self.problem.n_slots, pinned, excluded)

    def slot_rules(self) -> list[SlotRule]:
        """Return the rules by the places of links; none of links that have left the pool."""
        rules = [] if self.rules is None else self.rules.slot_rules()
        return [rule for rule in rules if len(rule.links)]

    def choose(
        self,
        visitor: Visitor,
        rng: np.random.Generator,
        constraints: Constraints | None = None,
        *,
        explore: float = 0.0,
        all_links: bool = False,
        own: OwnView | None = None,
    ) -> None:
        """Let the policy choose the probabilities of the next page, which `draw` draws from.

        `explore` is the share of the page that random links get. `all_links` writes out the
        probability of every link, as a log needs it. With `own`, the page is that of its group,
        and the probabilities are those of the mixture of groups.
        """
        self._mixture = self._own_order = None
        self._choose(visitor, rng, constraints, explore, all_links or own is not None)
        if own is not None:
            self._mix_groups(own, constraints, explore)

    def _mix_groups(self, own: OwnView, constraints: Constraints | None, explore: float) -> None:
        chosen, n_slots = self._chosen, self.problem.n_slots
        assert chosen is not None
        ruled = None if self.rules is None else self.rules.for_page(constraints)
        by_policy = chosen.copy()
        page = own_probabilities(own.places, by_policy, n_slots, constraints, ruled)
        self._mixture = mixed(own.shares, by_policy, page)
        self._own_order = own.places if own.group == "own" else None
        if own.group == "own":  # where `draw` draws from
            chosen[:] = page
        elif self._within is not None:
            chosen[:] = by_policy  # the own page was made in the same buffer
        elif constraints is None and not explore:
            self._chosen = None  # the mix of the policy's state

    def _choose(
        self,
        visitor: Visitor,
        rng: np.random.Generator,
        constraints: Constraints | None,
        explore: float,
        all_links: bool,
    ) -> None:
        """Let the policy choose. `draw` draws from `_within` or `_chosen`, else from its mix."""
        entries = self._entries or self._obtain_entries()
        if self.rules is not None:
            page = self.rules.for_page(constraints)
            chooser = rng_of_choice(self.form, rng)
            entries.choose_within.call(self._state, visitor, chooser, page.rules)
            chosen = page.rules.probabilities
            if explore:  # a mix of two pages within the rules is within the rules
                chosen[:] = (1.0 - explore) * chosen + explore * page.at_random
            self._within, self._chosen = page.rules, chosen
            return
        entries.choose.call(self._state, visitor, rng_of_choice(self.form, rng))
        if not is_own(self.form.choose):
            check_page(self.policy, self._state.mix, self.problem.n_slots)
        if constraints is not None:
            probabilities = self._rest_filled(constraints, visitor, rng)
            self._chosen = explored(probabilities, explore, constraints.is_free)
        elif explore or all_links:
            self._chosen = explored(dense_probabilities(self._state.mix), explore)
        else:
            self._chosen = None

    def draw(self, rng: np.random.Generator) -> DrawnPage:
        """Draw a page with the probabilities that were chosen last, in the order of its slots."""
        places, drawn = self._draw(rng)
        pool, chosen = self.pool, self._chosen
        if self._mixture is None:
            is_random = self._arrange(places, drawn, rng)
        else:
            chosen, drawn, is_random = self._mixture, self._mixture[places], False
            if self._own_order is None:
                is_random = self._arrange(places, drawn, rng)
            else:
                order = in_own_order(places, self._own_order)
                places, drawn = places[order], drawn[order]
        if chosen is None:
            probabilities = Probabilities.of_mix(pool.links, self._state.mix)
        else:
            probabilities = Probabilities.of_array(pool.links, chosen)
        shown = tuple([pool.links[place] for place in places.tolist()])
        return DrawnPage(shown, tuple(drawn.tolist()), probabilities, is_random)

    def chosen_probabilities(self) -> Floats:
        """Return the probability of each link that was chosen last."""
        chosen = self._chosen if self._mixture is None else self._mixture
        return dense_probabilities(self._state.mix) if chosen is None else chosen.copy()

    def pages_ahead(
        self, rng: np.random.Generator, n_pages: int, explore: float
    ) -> Iterator[Links]:
        """Draw pages for visitors like those seen, each in the order of its slots."""
        nobody = self.features.encode()
        visitors = visitors_seen(self.form, self._state)
        if visitors.shape[1] < len(nobody):  # the policy reports no visitors
            visitors = nobody[None]
        for k in range(n_pages):
            self.choose(visitors[k % len(visitors)], rng, explore=explore, all_links=True)
            places, drawn = self._draw(rng)
            self._arrange(places, drawn, rng)
            yield places

    def _obtain_entries(self) -> _EntryPoints:
        rules = None if self.rules is None else self.rules.for_page(None).rules
        parts = (self.form, self._state, self.slots, self._own_counts, rules)
        self._entries = entries = _EntryPoints(*parts)
        return entries

    def _chance_of(self, rng: np.random.Generator) -> Any:
        if rng is not self._rng:
            self._rng, self._chance = rng, chance_of(rng)
        return self._chance

    def _draw(self, rng: np.random.Generator) -> tuple[Links, Floats]:
        """Return the places of a page and their probabilities, in the order they were drawn."""
        chosen = self._chosen
        if self._within is not None:
            entries, page = self._entries or self._obtain_entries(), (self._shown, self._drawn)
            rules, chance = self._within, self._chance_of(rng)
            groups = (rules.probabilities, rules.links, rules.ends, rules.other_page)
            entries.draw_within.call(*groups, chance, *page)
            return page
        if chosen is None:
            entries = self._entries or self._obtain_entries()
            entries.draw.call(self._state.mix, self._chance_of(rng), self._shown, self._drawn)
            return self._shown, self._drawn
        if self._own_order is not None:  # without rules no link of the own page is left to chance
            places = np.flatnonzero(chosen)
        else:
            places = dependent_rounding(chosen, rng)
        return places, chosen[places]

    def _arrange(self, places: Links, drawn: Floats, rng: np.random.Generator) -> bool:
        """Put a page into slot order; return whether the order is random."""
        slots = self.slots
        if slots.are_alike:
            return False
        entries, order = self._entries or self._obtain_entries(), slots.order
        entries.rank.call(self._state, places, order.worth)
        return bool(entries.order.call(order, self._chance_of(rng), places, drawn))

    def _rest_filled(
        self, constraints: Constraints, visitor: Visitor, rng: np.random.Generator
    ) -> Floats:
        """Return the probabilities of all links: 1 for pinned ones, the policy's for the rest."""
        entries, given = self._entries or self._obtain_entries(), rng_of_choice(self.form, rng)

        def page_of(state: Any, page: Problem) -> Floats:
            if state is not self._state:  # of the rest of the page
                state = self.with_open_views(state, page, np.flatnonzero(constraints.is_free))
            entries.choose.call(state, visitor, given)
            return dense_probabilities(state.mix)

        probabilities = np.zeros(len(constraints.is_free))
        probabilities[constraints.pinned] = 1.0
        if constraints.n_left:
            counts = self.counts
            probabilities[constraints.is_free] = rest_of_page(
                self.form,
                self._state,
                self.problem,
                Rest(np.flatnonzero(constraints.is_free), constraints.n_left, constraints.pinned),
                counts.sums / np.maximum(counts.views, 1.0),
                page_of,
            )
        return probabilities

    # Open views

    def note_open(
        self, visitor: Visitor, level: int, shown: Sequence[Link], n_views: float = 1.0
    ) -> None:
        """Issue page views whose feedback at a level is open; a negative number settles them."""
        place_of = self.pool.place_of
        places = np.array([place_of[k] for k in shown if k in place_of], np.int64)
        self._note_open(visitor, level, places, n_views)

    def _note_open(self, visitor: Visitor, level: int, places: Links, n_views: float) -> None:
        if not len(places):
            return
        if type(self.form).note_open is ignore_open:
            count_open(self.open_views, visitor, level, places, n_views)
        else:
            entries = self._entries or self._obtain_entries()
            entries.note_open.call(self._state, visitor, level, places, n_views)

    def with_open_views(self, state: object, problem: Problem, kept: Links) -> Any:
        """Return a state on some links, for example the rest of a page, with their open views."""
        open_views = new_open_views(problem)
        take_counts(open_views, self.open_views, kept)
        return self._with_open_views(state, open_views)

    def _with_open_views(self, state: Any, open_views: OpenLedger) -> Any:
        """Return a state that shares a ledger; what it derives from open views is recomputed."""
        if type(self.form).note_open is ignore_open or not hasattr(state, "open"):
            return state
        state = state._replace(open=open_views)
        open_views.is_changed[:] = True
        if open_views.views.any():
            every_link, note = np.arange(len(open_views.is_changed)), type(self.form).note_open
            for level in range(len(open_views.pages)):
                switching(note)(state, NOBODY, level, every_link, 0.0)
        return state

    # Learning

    def learn(self, view: PageFeedback) -> None:
        """Learn new feedback of one page; links that have left the pool are ignored."""
        self._all_or_nothing(self._learn, view)

    def learn_many(self, views: Iterable[PageFeedback]) -> None:
        """Learn many views in one compiled call, each with feedback of one level, in this order."""
        self._all_or_nothing(self._learn_many, views)

    def learn_counts(self, totals: Iterable[LinkTotals]) -> None:
        """Learn from totals per link."""
        self._all_or_nothing(self._learn_counts, totals)

    def import_counts(self, totals: Iterable[LinkTotals]) -> None:
        """Learn known counts.

        Rates are learned from them. They do not affect the click floor.
        """
        before = self.form.knowledge(self._state)
        if "views" not in before:  # it weighs every page by its probabilities
            raise InvalidInput.of("policy", "a policy that learns from counts", self.policy.name)
        self.learn_counts(totals)
        owed = {name: before[name] for name in OWED if name in before}
        after = self.form.knowledge(self._state)
        self.state = self.form.restore(self.problem, {**after, **owed})

    def _all_or_nothing(self, learn: Any, feedback: Any) -> None:
        """Call a function that learns; if the policy raises, restore the state from before.

        The `learn` of slotwise's own policies cannot raise, because feedback is checked before.
        That of another package may, for example after the first level of a page.
        """
        if is_own(self.form.learn):
            return learn(feedback)  # type: ignore[no-any-return]
        parts = self._state, self._own_counts, self.slots.order, self.visits, self.open_views
        before = copied_state(parts)
        words = copy.deepcopy(self.features.plain())
        try:
            learn(feedback)
        except BaseException:
            self._state, self._own_counts, self.slots.order, self.visits, self.open_views = before
            self._state = self._sharing(self._state)
            self.features.take_words(words)
            raise

    def _learn(self, view: PageFeedback) -> None:
        """Learn a view level by level: open views, slots, the policy, own counts, visits."""
        kept, shown, places, probabilities = self.pool.known(view.shown, view.probabilities)
        slots, views = self.slots.shown_in(kept)
        visitor: Any = view.visitor
        entries = self._entries or self._obtain_entries()
        for level, _, is_new in view.news if view.was_open else ():
            if is_new:  # of all levels before the first is learned: none is open then
                self._note_open(visitor, level, places, -1.0)
        for level, outcome, is_new in view.news:
            if level == 0 and view.is_in_random_order:
                self.slots.learn([outcome.get(link, 0.0) for link in view.shown])
            if not kept:
                continue
            brought = np.array([outcome.get(link, 0.0) for link in shown], np.float64)
            counted = views if is_new else np.zeros(len(kept))
            feedback = LinkFeedback(places, slots, probabilities, counted, brought)
            entries.learn.call(self._state, visitor, level, feedback)
            if self.counts is self._own_counts:
                entries.count.call(self._own_counts, level, places, counted, brought)
            if len(visitor):
                total = float(brought.sum())
                for value in visitor.tolist():
                    self.visits[level, PAGES, value] += is_new
                    self.visits[level, OUTCOMES, value] += total

    def _learn_many(self, many: Iterable[PageFeedback]) -> None:
        """Gather views of one level each into arrays, and learn them in one compiled call.

        View k has the links from `starts[k]` on, up to `starts[k + 1]`.
        """
        levels: list[int] = []
        starts, links = [0], []
        probabilities: list[float] = []
        outcomes: list[float] = []
        visitors: list[Sequence[int]] = []
        slots: list[int] = []
        views: list[float] = []
        place_of, page_slots = self.pool.place_of, self.slots
        weights = page_slots.order.weights.tolist()  # none where slots are alike
        for view in many:
            [(level, outcome, _)] = view.news
            if level == 0 and view.is_in_random_order and outcome:  # no click changes no weight
                clicked = dict(zip(view.slots, view.shown, strict=True))
                page_slots.learn([outcome.get(clicked[slot], 0.0) for slot in sorted(clicked)])
                weights = page_slots.order.weights.tolist()
            shown, in_slots, chances = view.shown, view.slots, view.probabilities
            known = [k for k, link in enumerate(shown) if link in place_of]
            if not known:
                continue
            if len(known) < len(shown):
                shown = [shown[k] for k in known]
                in_slots, chances = [in_slots[k] for k in known], [chances[k] for k in known]
            levels.append(level)
            visitors.append(view.visitor)  # type: ignore[arg-type]
            links += [place_of[link] for link in shown]
            probabilities += chances
            outcomes += (
                [outcome.get(link, 0.0) for link in shown] if outcome else [0.0] * len(known)
            )
            starts.append(len(links))
            if weights:  # beyond the last slot, a view counts as there
                slots += in_slots
                views += [
                    weights[slot] if slot < len(weights) else weights[-1] for slot in in_slots
                ]
        if not levels:
            return
        places, brought = np.array(links, dtype=np.int64), np.array(outcomes)
        exposure = np.ones(len(links)) if page_slots.are_alike else np.array(views)
        switching(learning_many(type(self.form).learn))(
            self._state,
            np.array(visitors, np.int64).reshape(len(levels), -1),
            np.array(levels),
            np.array(starts),
            LinkFeedback(
                places,
                np.array(slots, dtype=np.int64),
                np.array(probabilities),
                exposure,
                brought,
            ),
        )
        if self.counts is self._own_counts:
            counted, summed = self._own_counts
            at = np.repeat(np.array(levels) * counted.shape[1], np.diff(starts)) + places
            np.add.at(counted.reshape(-1), at, exposure)  # one index is several times faster
            np.add.at(summed.reshape(-1), at, brought)

    def _learn_counts(self, totals: Iterable[LinkTotals]) -> None:
        learn = switching(type(self.form).learn)
        for visitor, level, places, views, outcomes in totals:
            certain = np.ones(len(places))
            learn(
                self._state,
                visitor,
                level,
                LinkFeedback(places, NO_SLOTS, certain, views, outcomes),
            )
            if self.counts is self._own_counts:
                np.add.at(self._own_counts.views[level], places, views)
                np.add.at(self._own_counts.sums[level], places, outcomes)

    # Changing the pool

    def move(self, problem: Problem, pool: LinkPool, forgotten: Iterable[Link] = ()) -> Player:
        """Return a player with the same knowledge for other links or floors.

        What was learned about `forgotten` links is dropped. Slots and words are shared.
        """
        kept = pool.places_in(self.pool, forgotten)
        form = self.policy.for_problem(problem)
        open_views = new_open_views(problem)
        take_counts(open_views, self.open_views, kept)
        state = form.move(self._state, problem, kept)
        moved = self._with(form, problem, pool, state, open_views)
        moved._own_counts = moved_counts(self._own_counts, problem, kept)
        return moved

    def copy(self) -> Player:
        """Return a player that chooses the same pages, to look ahead with."""
        state = self.form.restore(self.problem, self.form.knowledge(self._state))
        open_views = copied_counts(self.open_views)
        copied = self._with(self.form, self.problem, self.pool, state, open_views)
        copied._own_counts = copied_state(self._own_counts)
        copied.visits = self.visits.copy()
        return copied

    def _with(
        self, form: Policy, problem: Problem, pool: LinkPool, state: object, open_views: OpenLedger
    ) -> Player:
        parts: Any = {"slots": self.slots, "open_views": open_views}
        player = Player(self.policy, form, problem, pool, state, **parts)
        player.visits = self.visits
        if type(form) is type(self.form) and (player.rules is None) == (self.rules is None):
            player._entries = self._entries
        return player

    @property
    def can_replace_words(self) -> bool:
        """Whether words of open lists may lose their places: the policy can merge values."""
        of_visitors = self.form.for_visitors
        return of_visitors is not None and of_visitors.merge_value is not None

    def replace_words(self) -> list[tuple[int, int]]:
        """Give words that have become frequent the places of others, which count as rare from now.

        Returns each such place with that of rare words, so that the caller can change open pages.
        """
        replaced = self.features.replace_words()
        for value, into in replaced:
            assert self.form.for_visitors is not None  # see `can_replace_words`
            assert self.form.for_visitors.merge_value is not None
            known = self.form.knowledge(self._state)
            merged = self.form.for_visitors.merge_value(known, self.problem, value, into)
            merge_values(self.open_views, value, into)
            self.state = self.form.restore(self.problem, merged)
            self.visits[..., into] += self.visits[..., value]
            self.visits[..., value] = 0.0
        return replaced

    # Saving

    def knowledge(self) -> PlayerKnowledge:
        """Return copies of what is known."""
        order = self.slots.order
        return PlayerKnowledge(
            self.form,
            self.form.knowledge(self._state),
            copied_state(self.counts),
            order.clicks.copy(),
            order.weights.copy(),
            self.visits.copy(),
            self.features.words,
        )

    def save(self) -> dict[str, NDArray[Any]]:
        """Return everything that was learned as plain arrays; the words are in `features`."""
        knowledge = self.form.knowledge(self._state)
        return {
            "views": self._own_counts.views,
            "sums": self._own_counts.sums,
            "visits": self.visits,
            "slot_clicks": self.slots.order.clicks,
            **{f"{KNOWS}{name}": array for name, array in knowledge.items()},
        }

    def rearrange(self) -> None:
        """Arrange the state as `load` does, so that both choose the same pages from here on."""
        self.state = self.form.restore(self.problem, self.form.knowledge(self._state))
        self._set_rules()  # the solver of crossing rules has a basis, which is not saved

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `save` of a player with the same policy, problem and features returned.

        Compiled code does not check bounds, so arrays of another shape must not reach it: they
        raise `ValueError`.
        """
        known = {
            name.removeprefix(KNOWS): array
            for name, array in arrays.items()
            if name.startswith(KNOWS)
        }
        form, problem = self.form, self.problem
        counts = Counts(arrays["views"].copy("C"), arrays["sums"].copy("C"))
        fresh = new_counts(problem)
        pairs = [("views", counts.views, fresh.views), ("sums", counts.sums, fresh.sums)]
        named = {f"{KNOWS}{name}": array for name, array in known.items()}
        for name, array in {**counts._asdict(), **named}.items():
            is_counted = name.removeprefix(KNOWS) in NEVER_NEGATIVE
            if np.isnan(array).any() or (is_counted and not np.isfinite(array).all()):
                raise ValueError(f"array {name} must be of finite numbers")
            if is_counted and (array < 0).any():
                raise ValueError(f"array {name} must be at least 0")
        state = form.restore(problem, known)  # its arrays take nothing of another shape
        restored = form.knowledge(state)
        saved = known if known.keys() == restored.keys() else restored  # of an earlier version
        pairs += [(f"{KNOWS}{name}", saved[name], own) for name, own in restored.items()]
        for name, array, expected in pairs:
            if array.shape != expected.shape or array.dtype != expected.dtype:
                raise ValueError(f"array {name} is {array.shape}, not {expected.shape}")
            if not np.isfinite(expected).all():
                raise ValueError(f"array {name} must be of finite numbers")
        visits = arrays["visits"]
        if visits.shape != self.visits.shape or not (np.isfinite(visits) & (visits >= 0)).all():
            raise ValueError(f"array visits must be counts of shape {self.visits.shape}")
        self.slots.restore(arrays["slot_clicks"])
        self.visits[:] = visits
        self._own_counts = counts
        self.open_views = new_open_views(problem)
        self.state = state


def copied_state(state: object) -> Any:
    """Return a state that equals another one and shares no array with it."""
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, tuple):
        parts = [copied_state(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return copy.deepcopy(state)
