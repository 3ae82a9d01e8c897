"""The laws of a policy as tests: subclass `PolicyContract`, say how to make yours, run pytest.

Such a subclass, whole:

    class TestMyPolicy(PolicyContract):
        def make_policy(self, problem: Problem) -> Policy:
            return MyPolicy(horizon=problem.horizon)
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.policies import Feedback, Policy
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page
from slotwise.testing.slot_laws import SlotLaws
from slotwise.testing.visitor_laws import VisitorLaws

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

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

N_ROUNDS = 120
N_CHOICES = 4_000


class SettledPage(NamedTuple):
    """A page view with its feedback: `outcomes[level]` is what each link shown brought."""

    shown: Links
    probabilities: Floats
    outcomes: Floats


class Visitors:
    """Visitors with seeded tastes; what they bring is in eighths, so that sums are exact."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.n_levels = problem.n_levels
        self.click_rate = np.random.default_rng(seed).uniform(0.1, 0.6, problem.n_links)

    def visit(self, shown: Links, probabilities: Floats) -> SettledPage:
        outcomes = np.empty((self.n_levels, len(shown)))
        outcomes[0] = self.rng.random(len(shown)) < self.click_rate[shown]
        for level in range(1, self.n_levels):
            outcomes[level] = outcomes[level - 1] * self.rng.choice([0.0, 0.5, 1.0], len(shown))
        return SettledPage(shown, probabilities, outcomes)


class PolicyContract(VisitorLaws, SlotLaws):
    """One test for each law in the docstring of `slotwise.policies.Policy`.

    `make_policy` is called with every problem that is played; a policy whose settings fit one
    problem only makes its own for each. Of a policy that `samples` what it believes, links that
    tie are asked to be equal on average, not in every choice.
    """

    def make_policy(self, problem: Problem) -> Policy:
        """Return the policy under test, for this problem."""
        raise NotImplementedError

    # How the tests play

    def choose(self, policy: Policy, state: Any, seed: int = 0) -> Floats:
        """Let the policy choose; return the probability of every link."""
        switching(type(policy).choose)(state, NOBODY, np.random.default_rng(seed))
        return dense_probabilities(state.mix)

    def mean_choice(self, policy: Policy, state: Any) -> Floats:
        """Return the probabilities, averaged over many choices where the policy samples."""
        n_choices = N_CHOICES if policy.samples else 1
        rng = np.random.default_rng(5)
        total = np.zeros(len(dense_probabilities(state.mix)))
        for _ in range(n_choices):
            switching(type(policy).choose)(state, NOBODY, rng)
            total += dense_probabilities(state.mix)
        return total / n_choices

    def tie_tolerance(self, policy: Policy) -> float:
        """How far links that tie may differ: by Hoeffding, above this less than once in 10^7."""
        return 0.11 if policy.samples else 1e-9

    def clicks_at_known_rates(self, policy: Policy, problem: Problem) -> float:
        """Return the clicks a page once `FLOOR_RATES` are known.

        Every link shown brings its rate, so that luck plays no part. Policies that take counts
        are given a billion views of every link; the others play until their horizon.
        """
        state: Any = policy.start(problem)
        n_rounds, n_judged = 4_000, 1_000
        if policy.needs.takes_counts:
            n_rounds = n_judged = 300
            links, many = np.arange(problem.n_links), np.full(problem.n_links, 1e9)
            for level, rates in enumerate(FLOOR_RATES):
                switching(type(policy).learn)(
                    state, NOBODY, level, links, NO_SLOTS, np.ones(len(links)), many, many * rates
                )
        rng = np.random.default_rng(6)
        clicks = np.zeros(n_rounds)
        shown, probabilities = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
        for number in range(n_rounds):
            switching(type(policy).choose)(state, NOBODY, rng)
            switching(draw_page)(state.mix, rng, shown, probabilities)
            clicks[number] = FLOOR_RATES[0, shown].sum()
            page = SettledPage(shown.copy(), probabilities.copy(), FLOOR_RATES[:, shown])
            self.learn(policy, state, [page])
        return float(clicks[-n_judged:].mean())

    def play(
        self, policy: Policy, state: Any, problem: Problem, n_rounds: int = N_ROUNDS, seed: int = 3
    ) -> list[SettledPage]:
        """Show pages and learn from them at once; return them."""
        visitors = Visitors(problem, seed)
        rng = np.random.default_rng(seed)
        pages = []
        for _ in range(n_rounds):
            switching(type(policy).choose)(state, NOBODY, rng)
            shown = np.zeros(problem.n_slots, np.int64)
            probabilities = np.zeros(problem.n_slots)
            switching(draw_page)(state.mix, rng, shown, probabilities)
            pages.append(visitors.visit(shown, probabilities))
            self.learn(policy, state, pages[-1:])
        return pages

    def learn(
        self,
        policy: Policy,
        state: Any,
        pages: Sequence[SettledPage],
        levels: Sequence[int] | None = None,
    ) -> None:
        """Let the policy learn these levels, or all, of one page after the other."""
        for page in pages:
            for level in range(len(page.outcomes)) if levels is None else levels:
                once = np.ones(len(page.shown))
                switching(type(policy).learn)(
                    state,
                    NOBODY,
                    level,
                    page.shown,
                    NO_SLOTS,
                    page.probabilities,
                    once,
                    page.outcomes[level],
                )

    def learn_about_all(
        self, policy: Policy, state: Any, problem: Problem, rates: Floats, n_views: int = 40
    ) -> None:
        """Show every link equally often, each bringing its rate at every level."""
        links = np.arange(problem.n_links)
        probabilities = np.full(problem.n_links, problem.n_slots / problem.n_links)
        outcomes = np.tile(rates, (problem.n_levels, 1))
        for _ in range(n_views):
            self.learn(policy, state, [SettledPage(links, probabilities, outcomes)])

    def check_same_knowledge(
        self,
        policy: Policy,
        one: Any,
        other: Any,
        within: float,
        but_for: frozenset[str] = frozenset(),
    ) -> None:
        mine, theirs = policy.knowledge(one), policy.knowledge(other)
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - but_for:
            np.testing.assert_allclose(
                mine[name], theirs[name], rtol=within, atol=within, err_msg=name
            )

    # Probabilities lie in [0, 1] and sum to n_slots; exactly n_slots different links show

    @every_problem
    def test_probabilities_make_a_page(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        for round_number in range(25):
            probabilities = self.choose(policy, state, seed=round_number)
            assert probabilities.shape == (problem.n_links,)
            assert probabilities.min() >= 0.0
            assert probabilities.max() <= 1.0
            assert probabilities.sum() == pytest.approx(problem.n_slots, abs=1e-9)
            self.play(policy, state, problem, n_rounds=12, seed=round_number)

    @every_problem
    def test_every_page_shows_n_slots_different_links(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        for page in self.play(policy, state, problem):
            assert len(set(page.shown.tolist())) == problem.n_slots
            assert page.shown.min() >= 0
            assert page.shown.max() < problem.n_links
            assert np.all(page.probabilities > 0.0)

    # `choose` changes nothing that `learn` depends on; the same seed gives the same pages

    @every_problem
    def test_the_same_seed_gives_the_same_pages(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        first = self.play(policy, policy.start(problem), problem)
        second = self.play(policy, policy.start(problem), problem)
        for one, other in zip(first, second, strict=True):
            assert one.shown.tolist() == other.shown.tolist()
            assert one.probabilities.tolist() == other.probabilities.tolist()

    def test_states_of_one_policy_are_apart(self) -> None:
        policy = self.make_policy(PAGE)
        untouched = policy.start(PAGE)
        before = policy.knowledge(untouched)
        self.play(policy, policy.start(PAGE), PAGE)
        for name, array in policy.knowledge(untouched).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        self.check_same_knowledge(policy, untouched, policy.start(PAGE), within=0.0)

    @every_problem
    def test_choosing_changes_nothing_learned(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        self.play(policy, state, problem, n_rounds=30)
        before = policy.knowledge(state)
        for seed in range(5):
            self.choose(policy, state, seed)
        for name, array in policy.knowledge(state).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)

    # `learn` reads only the links given, and the probabilities from the round itself

    def test_learning_leaves_other_links_alone(self) -> None:
        policy = self.make_policy(PAGE)
        state: Any = policy.start(PAGE)
        self.play(policy, state, PAGE, n_rounds=30)
        before = policy.knowledge(state)
        page = SettledPage(np.array([1, 5, 2]), np.full(3, 0.4), np.ones((2, 3)))
        self.learn(policy, state, [page])
        after = policy.knowledge(state)
        for name in policy.per_link:
            np.testing.assert_array_equal(
                after[name][..., [0, 3, 4, 6]], before[name][..., [0, 3, 4, 6]], err_msg=name
            )

    def test_learning_changes_none_of_its_arguments(self) -> None:
        policy = self.make_policy(PAGE)
        page = SettledPage(np.array([1, 5, 2]), np.full(3, 0.4), np.full((2, 3), 0.5))
        kept = [part.copy() for part in page]
        self.learn(policy, policy.start(PAGE), [page])
        for part, before in zip(page, kept, strict=True):
            np.testing.assert_array_equal(part, before)

    @every_problem
    def test_late_feedback_teaches_the_same(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        at_once: Any = policy.start(problem)
        pages = self.play(policy, at_once, problem)
        late: Any = policy.start(problem)
        for number, page in enumerate(pages):
            if number % 3 == 0:
                self.choose(policy, late, seed=number)
            self.learn(policy, late, [page])
        self.check_same_knowledge(policy, at_once, late, within=0.0)

    @every_problem
    def test_levels_may_settle_one_after_the_other(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        at_once: Any = policy.start(problem)
        pages = self.play(policy, at_once, problem)
        by_level: Any = policy.start(problem)
        for level in reversed(range(problem.n_levels)):
            self.learn(policy, by_level, pages, levels=[level])
        refitted = policy.refitted_knowledge
        self.check_same_knowledge(policy, at_once, by_level, within=1e-12, but_for=refitted)

    def test_the_order_of_feedback_matters_where_it_is_needed_in_order(self) -> None:
        policy = self.make_policy(PAGE)
        is_ordered = policy.needs in (Feedback.COUNTS_IN_ORDER, Feedback.PAGES_IN_ORDER)
        assert bool(policy.ordered_knowledge) == is_ordered
        assert policy.ordered_knowledge <= policy.knowledge(policy.start(PAGE)).keys()

    @every_problem
    def test_feedback_may_arrive_out_of_order(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        in_order: Any = policy.start(problem)
        pages = self.play(policy, in_order, problem)
        shuffled: Any = policy.start(problem)
        order = np.random.default_rng(4).permutation(len(pages))
        self.learn(policy, shuffled, [pages[i] for i in order])
        ordered = policy.ordered_knowledge
        self.check_same_knowledge(policy, in_order, shuffled, within=1e-12, but_for=ordered)
        probabilities = self.choose(policy, shuffled)
        assert probabilities.sum() == pytest.approx(problem.n_slots, abs=1e-9)

    @every_problem
    def test_feedback_may_arrive_in_batches(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        if not policy.needs.takes_counts:
            pytest.skip("the policy learns from pages, not from counts")
        one_by_one: Any = policy.start(problem)
        pages = self.play(policy, one_by_one, problem)
        views = np.zeros(problem.n_links)
        sums = np.zeros((problem.n_levels, problem.n_links))
        for page in pages:
            views[page.shown] += 1.0
            sums[:, page.shown] += page.outcomes
        batched: Any = policy.start(problem)
        links = np.flatnonzero(views)
        certain = np.ones(len(links))
        for level in range(problem.n_levels):
            switching(type(policy).learn)(
                batched, NOBODY, level, links, NO_SLOTS, certain, views[links], sums[level, links]
            )
        ordered = policy.ordered_knowledge
        self.check_same_knowledge(policy, one_by_one, batched, within=1e-12, but_for=ordered)
        if not ordered:
            np.testing.assert_allclose(
                self.choose(policy, batched), self.choose(policy, one_by_one), rtol=0, atol=1e-9
            )

    # A policy that `keeps_floor` keeps it once rates are known

    def test_the_floor_is_kept_once_rates_are_known(self) -> None:
        policy = self.make_policy(FLOOR)
        if not policy.keeps_floor:
            pytest.skip("the policy does not claim to keep the floor")
        assert self.clicks_at_known_rates(policy, FLOOR) >= 0.97 * FLOOR.click_floor

    # A state survives save and load, and moves to a changed pool

    @every_problem
    def test_a_saved_state_goes_on_as_before(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        self.play(policy, state, problem)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **policy.knowledge(state))
        file.seek(0)
        with np.load(file, allow_pickle=False) as saved:
            loaded: Any = policy.restore(problem, dict(saved))
        self.check_same_knowledge(policy, state, loaded, within=0.0)
        pages = self.play(policy, state, problem, n_rounds=40, seed=8)
        for number, page in enumerate(pages):
            probabilities = self.choose(policy, loaded, seed=number)
            assert probabilities.sum() == pytest.approx(problem.n_slots, abs=1e-9)
            self.learn(policy, loaded, [page])
        self.check_same_knowledge(policy, state, loaded, within=1e-12)
        np.testing.assert_allclose(
            self.choose(policy, loaded), self.choose(policy, state), rtol=0, atol=1e-9
        )

    def test_knowledge_is_a_copy_with_an_entry_a_link(self) -> None:
        policy = self.make_policy(PAGE)
        state: Any = policy.start(PAGE)
        self.play(policy, state, PAGE)
        knowledge = policy.knowledge(state)
        assert policy.per_link <= knowledge.keys()
        for name, array in knowledge.items():
            assert array.dtype == np.float64, name
            if name in policy.per_link:
                assert array.shape[-1] == PAGE.n_links, name
            array += 1.0
        for name, array in policy.knowledge(state).items():
            assert not array.size or not np.array_equal(array, knowledge[name]), name

    def test_a_changed_pool_keeps_what_is_known_of_the_others(self) -> None:
        policy = self.make_policy(PAGE)
        state: Any = policy.start(PAGE)
        self.play(policy, state, PAGE)
        before = policy.knowledge(state)
        kept = np.array([6, -1, 0, 1, 3, -1, 4, 2])  # link 5 retired, two joined, all moved
        changed = Problem(n_links=8, n_slots=3, click_floor=1.2, horizon=400)
        successor = self.make_policy(changed)
        moved: Any = successor.move(state, changed, kept)
        after = successor.knowledge(moved)
        fresh = successor.newcomer(before)
        for name in policy.per_link:
            np.testing.assert_array_equal(
                after[name][..., kept >= 0], before[name][..., kept[kept >= 0]], err_msg=name
            )
            for joined in np.flatnonzero(kept < 0):
                np.testing.assert_array_equal(after[name][..., joined], fresh[name], err_msg=name)
        for name in before.keys() - policy.per_link - policy.refitted_knowledge:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
        assert self.choose(successor, moved).sum() == pytest.approx(3.0, abs=1e-9)
        self.play(successor, moved, changed, n_rounds=20)
        for name, array in policy.knowledge(state).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)

    # n_slots == n_links, one link, equal values everywhere, a floor out of reach all work

    @pytest.mark.parametrize("problem", [PROBLEMS["every link shown"], PROBLEMS["one link"]])
    def test_a_page_for_every_link_shows_all(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        for round_number in range(20):
            assert self.choose(policy, state).tolist() == [1.0] * problem.n_links
            self.play(policy, state, problem, n_rounds=5, seed=round_number)

    # Ties are broken at random, and only among the links that tie at the boundary

    @every_problem
    @pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
    def test_equal_links_are_equally_likely(self, problem: Problem, rate: float) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        share = problem.n_slots / problem.n_links
        tolerance = self.tie_tolerance(policy)
        assert np.abs(self.mean_choice(policy, state) - share).max() <= tolerance
        self.learn_about_all(policy, state, problem, np.full(problem.n_links, rate))
        assert np.abs(self.mean_choice(policy, state) - share).max() <= tolerance

    @every_problem
    def test_links_that_look_alike_are_treated_alike(self, problem: Problem) -> None:
        policy = self.make_policy(problem)
        state: Any = policy.start(problem)
        rates = np.linspace(0.0, 1.0, problem.n_links)
        twins = slice(1, 1 + problem.n_links // 2)
        rates[twins] = 0.5
        self.learn_about_all(policy, state, problem, rates, n_views=200)
        probabilities = self.mean_choice(policy, state)[twins]
        assert len(probabilities) == 0 or np.ptp(probabilities) <= self.tie_tolerance(policy)

    def test_chance_alone_breaks_ties(self) -> None:
        # Each link is on 3/7 of the pages: missing from all 200 with probability (4/7)^200.
        policy = self.make_policy(PAGE)
        shown: set[int] = set()
        for seed in range(200):
            state: Any = policy.start(PAGE)
            shown.update(self.play(policy, state, PAGE, n_rounds=1, seed=seed)[0].shown.tolist())
        assert shown == set(range(PAGE.n_links))
