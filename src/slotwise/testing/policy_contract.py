"""The laws of a policy as tests: subclass `PolicyContract`, make your policy there, run pytest.

Such a subclass, whole:

    class TestMyPolicy(PolicyContract):
        def make_policy(self, problem: Problem) -> Policy:
            return MyPolicy(horizon=problem.horizon)

The policy plays through `slotwise.player`, as in the Selector and in the service.
"""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.player.link_pool import LinkPool
from slotwise.player.pages import PageFeedback
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import Feedback, LinkFeedback
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.problem import Problem, Rule
from slotwise.testing.policy_hook_laws import PolicyHookLaws
from slotwise.testing.policy_play import (
    EVERYBODY,
    FLOOR,
    N_CHOICES,
    OF_SLOTS,
    OF_VISITORS,
    PAGE,
    PROBLEMS,
    RULES,
    SettledPage,
    every_problem,
)


class PolicyContract(PolicyHookLaws):
    """One test for each law in the docstring of `slotwise.policies.Policy`.

    `make_policy` is called with every problem that is played, and may return other settings for
    each. For a policy that `samples` from a posterior, links that tie must be equal on average, not
    in every choice. `sale_of_other_links` is the revenue of a page that must not change what is
    known of other links; 0 for a policy that measures revenue in units of the mean sale.

    `ordered_knowledge` names the knowledge that depends on the order of feedback, such as a queue
    that discards a surplus; `refitted_knowledge` that which is computed from several levels, such
    as a price, and so depends on what had settled at that time. All other knowledge is the same in
    any order.
    """

    # Probabilities lie in [0, 1] and sum to n_slots; exactly n_slots different links show

    @every_problem
    def test_probabilities_make_a_page(self, problem: Problem) -> None:
        player = self.start(problem)
        for round_number in range(12):
            probabilities = self.choose(player, seed=round_number)
            assert probabilities.shape == (problem.n_links,)
            assert probabilities.min() >= 0.0
            assert probabilities.max() <= 1.0
            assert probabilities.sum() == pytest.approx(problem.n_slots, abs=1e-9)
            self.play(player, n_rounds=8, seed=round_number)

    @every_problem
    def test_every_page_shows_n_slots_different_links(self, problem: Problem) -> None:
        for page in self.played(problem).pages:
            assert len(set(page.shown.tolist())) == problem.n_slots
            assert page.shown.min() >= 0
            assert page.shown.max() < problem.n_links
            assert np.all(page.probabilities > 0.0)

    @pytest.mark.parametrize("problem", [PAGE, OF_VISITORS, OF_SLOTS])
    def test_pins_and_exclusions_hold_on_every_page(self, problem: Problem) -> None:
        player, rng = self.start(problem), np.random.default_rng(7)
        visitor = EVERYBODY[4] if problem.feature_sizes else NOBODY
        self.play(player, n_rounds=20, visitors=[visitor])
        for _ in range(20):
            player.choose(visitor, rng, player.constraints(pin=[5], exclude=[0, 2]))
            shown = player.draw(rng).shown
            assert len(set(shown)) == problem.n_slots
            assert 5 in shown
            assert not {0, 2} & set(shown)

    @pytest.mark.parametrize("problem", [PAGE, OF_VISITORS, OF_SLOTS])
    def test_rules_hold_on_every_page(
        self, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLOTWISE_COMPILE", "never")  # a few pages need no machine code
        player, rng = self.start(replace(problem, rules=RULES)), np.random.default_rng(7)
        visitor = EVERYBODY[4] if problem.feature_sizes else NOBODY
        self.play(player, n_rounds=20, visitors=[visitor])
        for explore in (0.0, 0.0, 0.3, 0.3):
            for exclude in ((), (2,)):
                player.choose(visitor, rng, player.constraints((), exclude), explore=explore)
                probabilities, shown = player.chosen_probabilities(), player.draw(rng).shown
                assert len(set(shown)) == problem.n_slots
                assert len({0, 1, 2} & set(shown)) <= 1
                assert probabilities[3] >= 0.4 - 1e-9
                assert 0.7 - 1e-9 <= probabilities[4:6].sum() <= 1.5 + 1e-9

    @pytest.mark.parametrize("problem", [PAGE, OF_VISITORS])
    def test_a_rule_that_its_pages_keep_anyway_changes_nothing(
        self, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Under rules a policy still takes the links that it prefers."""
        monkeypatch.setenv("SLOTWISE_COMPILE", "never")
        visitor = EVERYBODY[4] if problem.feature_sizes else NOBODY
        free = Rule("no limit", (0, 1, 2), at_most=min(3, problem.n_slots))
        plain, ruled = self.start(problem), self.start(replace(problem, rules=(free,)))
        self.learn(ruled, self.play(plain, n_rounds=20, visitors=[visitor]))
        for seed in range(3):
            chosen = self.choose(plain, seed, visitor)
            np.testing.assert_allclose(self.choose(ruled, seed, visitor), chosen, atol=1e-9)

    # `choose` changes nothing that `learn` depends on; the same seed gives the same pages

    @every_problem
    def test_the_same_seed_gives_the_same_pages(self, problem: Problem) -> None:
        first, second = self.played(problem).pages, self.play(self.start(problem))
        for one, other in zip(first, second, strict=True):
            assert one.shown.tolist() == other.shown.tolist()
            assert one.probabilities.tolist() == other.probabilities.tolist()

    def test_states_of_one_policy_are_apart(self) -> None:
        policy = self.make_policy(PAGE)
        untouched, played, fresh = (Player.start(PAGE, policy, range(7)) for _ in range(3))
        before = untouched.knowledge().arrays
        self.play(played)
        self.check_same_knowledge(untouched, before)
        self.check_same_knowledge(untouched, fresh)

    @every_problem
    def test_choosing_changes_nothing_learned(self, problem: Problem) -> None:
        player = self.start(problem)
        self.play(player, n_rounds=30)
        before = player.knowledge().arrays
        for seed in range(5):
            self.choose(player, seed)
        self.check_same_knowledge(player, before)

    @every_problem
    def test_a_choice_that_depends_on_chance_is_declared(self, problem: Problem) -> None:
        """The service takes one choice for all pages of a version unless the policy samples."""
        player = self.start(problem)
        for n_rounds in (0, 40):
            self.play(player, n_rounds)
            pages = [self.choose(player, seed) for seed in range(8)]
            if not player.form.samples:
                for page in pages[1:]:
                    np.testing.assert_array_equal(
                        page, pages[0], "`choose` depends on its generator: set `samples = True`"
                    )

    # `learn` reads only the links given, and the probabilities from the round itself

    def test_learning_leaves_other_links_alone(self) -> None:
        player = self.start(PAGE)
        self.play(player, n_rounds=30)
        before = player.knowledge().arrays
        outcomes = np.array([[1.0] * 3, [self.sale_of_other_links] * 3])
        self.learn(player, [SettledPage(np.array([1, 5, 2]), np.full(3, 0.4), outcomes)])
        after, others = player.knowledge().arrays, [0, 3, 4, 6]
        for name in player.form.per_link & after.keys():
            np.testing.assert_array_equal(
                after[name][..., others], before[name][..., others], err_msg=name
            )

    def test_learning_changes_none_of_its_arguments(self) -> None:
        player = self.start(PAGE)
        shown, given = np.array([1, 5, 2]), (np.full(3, 0.4), np.ones(3), np.full(3, 0.5))
        kept = [part.copy() for part in (shown, *given)]
        learn = switching(type(player.form).learn)
        for level in range(PAGE.n_levels):
            learn(player.state, NOBODY, level, LinkFeedback(shown, NO_SLOTS, *given))
        for part, before in zip((shown, *given), kept, strict=True):
            np.testing.assert_array_equal(part, before)

    @every_problem
    def test_late_feedback_teaches_the_same(self, problem: Problem) -> None:
        at_once, late = self.played(problem), self.start(problem)
        for number, page in enumerate(at_once.pages):
            if number % 3 == 0:
                self.choose(late, seed=number)
            self.learn(late, [page])
        self.check_same_knowledge(at_once.knowledge, late)

    @every_problem
    def test_many_views_in_one_call_teach_the_same(self, problem: Problem) -> None:
        at_once, many = self.played(problem), self.start(problem)
        levels = range(problem.n_levels)
        many.learn_many(page.feedback([level]) for page in at_once.pages for level in levels)
        self.check_same_knowledge(at_once.knowledge, many)
        assert np.array_equal(many.counts.views, at_once.views)
        np.testing.assert_allclose(many.counts.sums, at_once.sums, rtol=1e-12)

    @every_problem
    def test_levels_may_settle_one_after_the_other(self, problem: Problem) -> None:
        at_once, by_level = self.played(problem), self.start(problem)
        for level in reversed(range(problem.n_levels)):
            self.learn(by_level, at_once.pages, levels=[level])
        refitted = self.refitted_knowledge
        self.check_same_knowledge(at_once.knowledge, by_level, within=1e-12, but_for=refitted)

    @every_problem
    def test_open_views_that_settle_leave_nothing_behind(self, problem: Problem) -> None:
        plain, opened = self.played(problem), self.start(problem)
        for page in self.play(opened):
            for n_views in (1.0, -1.0):
                for level in range(problem.n_levels):
                    opened.note_open(NOBODY, level, page.shown.tolist(), n_views)
        self.check_same_knowledge(plain.knowledge, opened)
        np.testing.assert_allclose(self.choose(opened, seed=1), plain.chosen, atol=1e-9)

    def test_a_plan_for_fewer_rounds_keeps_what_is_known(self) -> None:
        player = self.start(PAGE)
        self.play(player)
        known = player.form.knowledge(player.state)
        planned = player.form.plan_for(player.state, 10.0)
        again = planned.knowledge(planned.restore(player.problem, known))
        assert known.keys() == again.keys()
        for name, array in known.items():
            np.testing.assert_array_equal(again[name], array, err_msg=name)

    def test_the_order_of_feedback_matters_where_it_is_needed_in_order(self) -> None:
        player = self.start(PAGE)
        is_ordered = player.form.needs in (Feedback.COUNTS_IN_ORDER, Feedback.PAGES_IN_ORDER)
        assert bool(self.ordered_knowledge) == is_ordered

    @every_problem
    def test_feedback_may_arrive_out_of_order(self, problem: Problem) -> None:
        in_order, shuffled = self.played(problem), self.start(problem)
        order = np.random.default_rng(4).permutation(len(in_order.pages))
        self.learn(shuffled, [in_order.pages[i] for i in order])
        ordered = self.ordered_knowledge
        self.check_same_knowledge(in_order.knowledge, shuffled, within=1e-12, but_for=ordered)
        assert self.choose(shuffled).sum() == pytest.approx(problem.n_slots, abs=1e-9)

    @every_problem
    def test_feedback_may_arrive_in_batches(self, problem: Problem) -> None:
        batched = self.start(problem)
        if not batched.form.needs.takes_counts:
            pytest.skip("the policy learns from pages, not from counts")
        views = np.zeros(problem.n_links)
        sums = np.zeros((problem.n_levels, problem.n_links))
        one_by_one = self.played(problem)
        for page in one_by_one.pages:
            views[page.shown] += 1.0
            sums[:, page.shown] += page.outcomes
        links = np.flatnonzero(views)
        batched.learn_counts(
            LinkTotals(NOBODY, level, links, views[links], sums[level, links])
            for level in range(problem.n_levels)
        )
        ordered = self.ordered_knowledge
        self.check_same_knowledge(one_by_one.knowledge, batched, within=1e-12, but_for=ordered)
        if not ordered:
            chosen = self.choose(batched, seed=1)
            np.testing.assert_allclose(chosen, one_by_one.chosen, rtol=0, atol=1e-9)

    # A policy that `keeps_floor` keeps it once rates are known

    def test_the_floor_is_kept_once_rates_are_known(self) -> None:
        if not self.start(FLOOR).form.keeps_floor:
            pytest.skip("the policy does not claim to keep the floor")
        assert self.clicks_at_known_rates(FLOOR) >= 0.97 * FLOOR.click_floor

    # A state survives save and load, and moves to a changed pool

    @every_problem
    def test_a_saved_state_goes_on_as_before(self, problem: Problem) -> None:
        player, loaded = self.start(problem), self.start(problem)
        self.play(player)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **player.save())
        file.seek(0)
        with np.load(file, allow_pickle=False) as saved:
            loaded.load(dict(saved))
        self.check_same_knowledge(player, loaded)
        for number, page in enumerate(self.play(player, n_rounds=20, seed=8)):
            probabilities = self.choose(loaded, seed=number)
            assert probabilities.sum() == pytest.approx(problem.n_slots, abs=1e-9)
            self.learn(loaded, [page])
        self.check_same_knowledge(player, loaded, within=1e-12)
        np.testing.assert_allclose(self.choose(loaded), self.choose(player), rtol=0, atol=1e-9)

    def test_declared_names_are_those_of_knowledge_with_or_without_features(self) -> None:
        form = self.start(PAGE).form
        known = [self.start(problem).knowledge().arrays.keys() for problem in (PAGE, OF_VISITORS)]
        for declared in (form.per_link, self.ordered_knowledge, self.refitted_knowledge):
            assert declared <= known[0] | known[1]

    def test_knowledge_is_a_copy_with_an_entry_a_link(self) -> None:
        player = self.start(PAGE)
        self.play(player)
        knowledge, per_link = player.knowledge().arrays, player.form.per_link
        for name, array in knowledge.items():
            assert array.dtype == np.float64, name
            if name in per_link:
                assert array.shape[-1] == PAGE.n_links, name
            array += 1.0
        for name, array in player.knowledge().arrays.items():
            assert not array.size or not np.array_equal(array, knowledge[name]), name

    def test_a_changed_pool_keeps_what_is_known_of_the_others(self) -> None:
        player = self.start(PAGE)
        self.play(player)
        before = player.knowledge().arrays
        kept = np.array([6, -1, 0, 1, 3, -1, 4, 2])  # link 5 retired, two joined, all moved
        links = [place if place >= 0 else 100 + k for k, place in enumerate(kept.tolist())]
        changed = Problem(n_links=8, n_slots=3, click_floor=1.2, horizon=400)
        player.policy = self.make_policy(changed)
        moved = player.move(changed, LinkPool(links))
        after, form = moved.knowledge().arrays, moved.form
        for name in form.per_link & before.keys():
            np.testing.assert_array_equal(
                after[name][..., kept >= 0], before[name][..., kept[kept >= 0]], err_msg=name
            )
            first, second = after[name][..., kept < 0].T
            np.testing.assert_array_equal(first, second, err_msg=name)
        for name in before.keys() - form.per_link - self.refitted_knowledge:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
        assert self.choose(moved).sum() == pytest.approx(3.0, abs=1e-9)
        rng = np.random.default_rng(3)
        for _ in range(20):
            moved.choose(NOBODY, rng)
            page = moved.draw(rng)
            news = [(level, dict.fromkeys(page.shown, 0.5), 1) for level in range(2)]
            moved.learn(PageFeedback(NOBODY, page.shown, range(3), page.drawn_with, False, news))
        self.check_same_knowledge(player, before)

    # n_slots == n_links, one link, equal values everywhere, a floor out of reach all work

    @pytest.mark.parametrize("problem", [PROBLEMS["every link shown"], PROBLEMS["one link"]])
    def test_a_page_for_every_link_shows_all(self, problem: Problem) -> None:
        player = self.start(problem)
        for round_number in range(10):
            assert self.choose(player).tolist() == [1.0] * problem.n_links
            self.play(player, n_rounds=5, seed=round_number)

    # Ties are broken at random, and only among the links that tie at the boundary

    @every_problem
    def test_equal_links_are_equally_likely(self, problem: Problem) -> None:
        share = problem.n_slots / problem.n_links
        for rate in (None, 0.0, 0.5, 1.0):
            player = self.start(problem)
            if rate is not None:
                self.learn_about_all(player, np.full(problem.n_links, rate))
            off = np.abs(self.mean_choice(player) - share).max()
            assert off <= self.tie_tolerance(player, share), f"every link has the rate {rate}"

    @every_problem
    def test_links_that_look_alike_are_treated_alike(self, problem: Problem) -> None:
        player = self.start(problem)
        rates = np.linspace(0.0, 1.0, problem.n_links)
        twins = slice(1, 1 + problem.n_links // 2)
        rates[twins] = 0.5
        self.learn_about_all(player, rates, n_views=40)
        probabilities = self.mean_choice(player, 2 * N_CHOICES)[twins]
        tolerance = 2.0 * self.tie_tolerance(player, n_choices=2 * N_CHOICES)
        assert len(probabilities) == 0 or np.ptp(probabilities) <= tolerance

    def test_chance_alone_breaks_ties(self) -> None:
        # Each link is on 3/7 of the pages: missing from all 50 with probability (4/7)^50 < 10^-12.
        shown: set[int] = set()
        for seed in range(50):
            shown.update(self.play(self.start(PAGE), n_rounds=1, seed=seed)[0].shown.tolist())
        assert shown == set(range(PAGE.n_links))

    # Every visitor gets a page, and what is known of visitors can be saved

    def pages_for_everybody(self, player: Player) -> Floats:
        """Return the probabilities of every link for every visitor, a row for each."""
        return np.array([self.choose(player, 2, visitor) for visitor in EVERYBODY])

    def test_every_visitor_gets_a_page_and_asking_for_it_teaches_nothing(self) -> None:
        player = self.start(OF_VISITORS)
        self.play(player, n_rounds=60, visitors=EVERYBODY)
        before = player.knowledge().arrays
        pages = self.pages_for_everybody(player)
        assert pages.min() >= 0.0
        assert pages.max() <= 1.0
        np.testing.assert_allclose(pages.sum(axis=1), OF_VISITORS.n_slots, rtol=0, atol=1e-9)
        self.check_same_knowledge(player, before)

    def test_what_is_known_of_visitors_survives_saving(self) -> None:
        player, loaded = self.start(OF_VISITORS), self.start(OF_VISITORS)
        self.play(player, n_rounds=60, visitors=EVERYBODY)
        loaded.load(player.save())
        pages = self.pages_for_everybody(loaded)
        if not player.form.samples:
            expected = self.pages_for_everybody(player)
            np.testing.assert_allclose(pages, expected, rtol=0, atol=1e-9)
        self.play(loaded, n_rounds=12, visitors=EVERYBODY)
        pages = self.pages_for_everybody(loaded)
        assert pages.sum() == pytest.approx(len(EVERYBODY) * OF_VISITORS.n_slots, abs=1e-6)

    # Links of a page can be ranked; views may count as any part of a view

    def test_outcomes_may_exceed_views(self) -> None:
        player = self.start(OF_SLOTS)
        self.play(player, n_rounds=60)
        page = self.choose(player)
        assert np.isfinite(page).all()
        assert abs(page.sum() - OF_SLOTS.n_slots) < 1e-9
        for name, array in player.knowledge().arrays.items():
            assert np.isfinite(array).all(), name

    def test_ranking_links_is_repeatable_and_teaches_nothing(self) -> None:
        player = self.start(OF_SLOTS)
        self.play(player, n_rounds=60)
        self.choose(player)
        before = player.knowledge().arrays
        links = np.arange(OF_SLOTS.n_links)
        first, again = np.full((2, OF_SLOTS.n_links), np.nan)
        rank = switching(type(player.form).rank)
        rank(player.state, links, first)
        rank(player.state, links[::-1].copy(), again)
        assert np.isfinite(first).all()
        assert np.array_equal(first, again[::-1])
        self.check_same_knowledge(player, before)
