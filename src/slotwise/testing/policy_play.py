"""How the laws of policies are tested: problems, visitors, and a policy that plays by a player.

Used by `policy_contract` and `policy_hook_laws`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.features import Visitor
from slotwise.player.pages import PageFeedback
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import LinkFeedback, Policy
from slotwise.policies.policy import NO_SLOTS, NOBODY, Knowledge
from slotwise.problem import Problem, Rule
from slotwise.rounds import Link

PAGE = Problem(n_links=7, n_slots=3, click_floor=1.2, horizon=400)
PROBLEMS = {
    "a page": PAGE,
    "no floor": Problem(n_links=7, n_slots=3, horizon=400),
    "one slot": Problem(n_links=5, n_slots=1, click_floor=0.3, horizon=400),
    "a large pool": Problem(n_links=90, n_slots=8, click_floor=3.0, horizon=400),
    "three levels": Problem(
        n_links=6, n_slots=2, click_floor=0.5, levels=("click", "visit", "revenue"), horizon=400
    ),
    "every link shown": Problem(n_links=4, n_slots=4, click_floor=1.0, horizon=400),
    "one link": Problem(n_links=1, n_slots=1, click_floor=0.5, horizon=400),
    "floor out of reach": Problem(n_links=6, n_slots=2, click_floor=1.99, horizon=400),
}
FLOOR = Problem(n_links=6, n_slots=2, click_floor=1.3, horizon=4_000)
FLOOR_RATES = np.array([[0.8, 0.8, 0.8, 0.2, 0.2, 0.2], [0.0, 0.0, 0.0, 0.2, 0.2, 0.2]])
"""Pages that earn most have 0.4 clicks, pages of random links 1.0: both miss the floor."""
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=list(PROBLEMS))

N_ROUNDS = 60
N_CHOICES = 400
N_PLAYED = 128


OF_VISITORS = Problem(
    n_links=7,
    n_slots=3,
    click_floor=1.2,
    horizon=400,
    features={"device": ("phone",), "country": ("DE", "FR")},  # and "not known"
)
EVERYBODY = [np.array([one, 2 + other], np.int64) for one in range(2) for other in range(3)]
"""All visitors of that problem: a value of the first feature, a value of the second."""
OF_SLOTS = Problem(n_links=7, n_slots=3, click_floor=1.2, horizon=400, slot_weights=(2.4, 0.5, 0.1))
"""Slots that differ much: a click in the last slot counts more than its weighted view."""


RULES = (
    Rule("at most one", (0, 1, 2), at_most=1),
    Rule("a link", (3,), at_least=0.4),
    Rule("both", (4, 5), at_least=0.7, at_most=1.5),
)


class SettledPage(NamedTuple):
    """A page view with its feedback: `outcomes[level]` has the outcome of each link shown."""

    shown: Links
    probabilities: Floats
    outcomes: Floats
    visitor: Visitor = NOBODY

    def feedback(self, levels: Sequence[int]) -> PageFeedback:
        links: list[Link] = self.shown.tolist()
        news = [(j, dict(zip(links, self.outcomes[j].tolist(), strict=True)), 1) for j in levels]
        probabilities = self.probabilities.tolist()
        return PageFeedback(self.visitor, links, range(len(links)), probabilities, False, news)


class Played(NamedTuple):
    """The pages of `N_ROUNDS` rounds, what is known after them, and what is chosen with seed 1."""

    pages: tuple[SettledPage, ...]
    knowledge: Knowledge
    views: Floats
    sums: Floats
    chosen: Floats


class Visitors:
    """Visitors with seeded preferences; outcomes are in eighths, so that sums are exact."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.n_levels = problem.n_levels
        self.click_rate = np.random.default_rng(seed).uniform(0.1, 0.6, problem.n_links)

    def visit(self, shown: Links, probabilities: Floats, visitor: Visitor = NOBODY) -> SettledPage:
        outcomes = np.empty((self.n_levels, len(shown)))
        outcomes[0] = self.rng.random(len(shown)) < self.click_rate[shown]
        for level in range(1, self.n_levels):
            outcomes[level] = outcomes[level - 1] * 0.5 * self.rng.integers(3, size=len(shown))
        return SettledPage(shown, probabilities, outcomes, visitor)


class PolicyPlay:
    """A policy under test and the ways to play it; the laws derive from this class."""

    sale_of_other_links: ClassVar[float] = 1.0
    ordered_knowledge: frozenset[str] = frozenset()
    refitted_knowledge: frozenset[str] = frozenset()
    _played: ClassVar[OrderedDict[tuple[object, ...], tuple[Policy, Played]]] = OrderedDict()

    def make_policy(self, problem: Problem) -> Policy:
        """Return the policy under test, for this problem."""
        raise NotImplementedError

    def start(self, problem: Problem) -> Player:
        """Return a player of the policy that has seen nothing; links are named by their place."""
        return Player.start(problem, self.make_policy(problem), range(problem.n_links))

    def choose(self, player: Player, seed: int = 0, visitor: Visitor = NOBODY) -> Floats:
        """Let the policy choose; return the probability of every link."""
        player.choose(visitor, np.random.default_rng(seed), all_links=True)
        return player.chosen_probabilities()

    def mean_choice(self, player: Player, n_choices: int = N_CHOICES) -> Floats:
        """Return the probabilities, averaged over `n_choices` where the policy samples."""
        n_choices = n_choices if player.form.samples else 1
        rng = np.random.default_rng(5)
        total = np.zeros(player.problem.n_links)
        for _ in range(n_choices):
            player.choose(NOBODY, rng)
            total += player.chosen_probabilities()
        return total / n_choices

    def tie_tolerance(
        self, player: Player, share: float = 0.5, n_choices: int = N_CHOICES
    ) -> float:
        """How far the mean choice of a link may be from its share.

        By Bernstein's inequality it is further in less than one case of 10^9.
        """
        if not player.form.samples:
            return 1e-9
        part = math.log(2e9) / n_choices
        return math.sqrt(2.0 * share * (1.0 - share) * part) + part / 3.0

    def clicks_at_known_rates(self, problem: Problem) -> float:
        """Return the clicks per page once `FLOOR_RATES` are known.

        The outcome of every link shown is its rate, so that there is no noise. Policies that take
        counts are given a billion views of every link; the others play until their horizon.
        """
        player = self.start(problem)
        n_rounds, n_judged = 4_000, 1_000
        if player.form.needs.takes_counts:
            n_rounds = n_judged = 300
            links, many = np.arange(problem.n_links), np.full(problem.n_links, 1e9)
            player.learn_counts(
                LinkTotals(NOBODY, level, links, many, many * rates)
                for level, rates in enumerate(FLOOR_RATES)
            )
        rng = np.random.default_rng(6)
        clicks = np.zeros(n_rounds)
        for number in range(n_rounds):
            shown, probabilities = self.draw(player, rng)
            clicks[number] = FLOOR_RATES[0, shown].sum()
            self.learn(player, [SettledPage(shown, probabilities, FLOOR_RATES[:, shown])])
        return float(clicks[-n_judged:].mean())

    def draw(
        self, player: Player, rng: np.random.Generator, visitor: Visitor = NOBODY
    ) -> tuple[Links, Floats]:
        """Choose and draw a page; return its links and their probabilities."""
        player.choose(visitor, rng)
        page = player.draw(rng)
        return np.array(page.shown, np.int64), np.array(page.drawn_with)

    def play(
        self,
        player: Player,
        n_rounds: int = N_ROUNDS,
        seed: int = 3,
        visitors: Sequence[Visitor] = (NOBODY,),
    ) -> list[SettledPage]:
        """Show pages to visitors in turn and learn from them at once; return them."""
        world = Visitors(player.problem, seed)
        rng = np.random.default_rng(seed)
        pages = []
        for k in range(n_rounds):
            visitor = visitors[k % len(visitors)]
            pages.append(world.visit(*self.draw(player, rng, visitor), visitor))
            self.learn(player, pages[-1:])
        return pages

    def played(self, problem: Problem) -> Played:
        """Return what `play` gives; laws that only read it share it, so that it is played once."""
        policy = self.make_policy(problem)
        key = (type(self), type(policy), repr(getattr(policy, "__dict__", policy)), repr(problem))
        if key not in self._played:
            player = self.start(problem)
            pages, counts = self.play(player), player.counts
            known = {name: array.copy() for name, array in player.knowledge().arrays.items()}
            totals = (counts.views.copy(), counts.sums.copy())
            found = Played(tuple(pages), known, *totals, self.choose(player, seed=1))
            played = (part for page in pages for part in page if part is not page.visitor)
            for array in (*played, *known.values(), *found[2:]):
                array.flags.writeable = False
            self._played[key] = policy, found  # the policy stays alive, and with it its address
            if len(self._played) > N_PLAYED:
                self._played.popitem(last=False)
        return self._played[key][1]

    def learn(
        self, player: Player, pages: Sequence[SettledPage], levels: Sequence[int] | None = None
    ) -> None:
        """Let the policy learn these levels, or all, of one page after the other."""
        for page in pages:
            player.learn(page.feedback(range(len(page.outcomes)) if levels is None else levels))

    def learn_about_all(self, player: Player, rates: Floats, n_views: int = 20) -> None:
        """Show every link equally often, with its rate as the outcome at every level."""
        problem = player.problem
        links, once = np.arange(problem.n_links), np.ones(problem.n_links)
        share = np.full(problem.n_links, problem.n_slots / problem.n_links)
        learn = switching(type(player.form).learn)
        for _ in range(n_views):
            for level in range(problem.n_levels):
                learn(
                    player.state, NOBODY, level, LinkFeedback(links, NO_SLOTS, share, once, rates)
                )

    def check_same_knowledge(
        self,
        one: Player | Knowledge,
        other: Player | Knowledge,
        within: float = 0.0,
        but_for: frozenset[str] = frozenset(),
    ) -> None:
        mine, theirs = (
            known.knowledge().arrays if isinstance(known, Player) else known
            for known in (one, other)
        )
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - but_for:
            np.testing.assert_allclose(
                mine[name], theirs[name], rtol=within, atol=within, err_msg=name
            )
