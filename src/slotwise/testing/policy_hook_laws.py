"""Laws of what a policy declares: name, form, floors, visitors, debt, estimates and prices.

Other parts rely on these declarations: a service that draws many pages from one version, reports,
and pages with pins. Used by `policy_contract`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from slotwise.arrays import Floats, Links
from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.features import Visitor
from slotwise.player.player import LinkTotals, Player
from slotwise.policies import POLICIES
from slotwise.policies.policy import NOBODY, Debt, visitors_seen
from slotwise.problem import Problem
from slotwise.selection.several_floors import solve_floors
from slotwise.selection.solve import solve
from slotwise.testing.policy_play import (
    EVERYBODY,
    OF_VISITORS,
    PAGE,
    RULES,
    PolicyPlay,
    SettledPage,
    every_problem,
)

SOLD = Problem(n_links=6, n_slots=2, click_floor=1.0, horizon=4_000)
SOLD_RATES = np.array([[0.8, 0.8, 0.8, 0.2, 0.2, 0.2], [0.0, 0.0, 0.0, 0.2, 0.2, 0.2]])
"""Clicked links are never bought from: the best page for revenue misses the floor."""
CLICKED, BOUGHT = np.array([0, 1, 2]), np.array([3, 4, 5])
CART_RATES = np.array([SOLD_RATES[0], [0.6] * 3 + [0.02] * 3, [0.0] * 3 + [0.05] * 3])
MANY_VIEWS = 1e9


class FurtherFloor(NamedTuple):
    """A problem with floors beyond one on clicks, the rates of its links, and who visits.

    Pages keep the floors if at least `least` outcomes of a level come per outcome of `per`, another
    level or -1 for pages.
    """

    problem: Problem
    rates: Floats
    visitor: Visitor
    level: int
    per: int
    least: float


MORE_FLOORS = {
    "a further level": FurtherFloor(
        Problem(
            6, 2, 0.4, levels=("click", "cart", "revenue"), floors={"cart": 0.9}, horizon=4_000
        ),
        CART_RATES,
        NOBODY,
        level=1,
        per=-1,
        least=0.9,
    ),
    "a rate": FurtherFloor(
        Problem(
            6, 2, levels=("click", "cart", "revenue"), rate_floors={"cart": 0.7}, horizon=4_000
        ),
        CART_RATES,
        NOBODY,
        level=1,
        per=0,
        least=0.7,
    ),
    "a segment": FurtherFloor(
        Problem(
            6,
            2,
            features={"device": ("phone",)},
            segment_floors={"device": {"phone": 1.3}},
            horizon=4_000,
        ),
        SOLD_RATES,
        np.array([1]),
        level=0,
        per=-1,
        least=1.3,
    ),
}


class PolicyHookLaws(PolicyPlay):
    """Laws of the attributes and hooks of `Policy` beyond choosing, learning and saving."""

    def knowing(self, problem: Problem, rates: Floats, visitor: Visitor = NOBODY) -> Player:
        """Return a player that has imported the rates of links; skip where it takes no counts."""
        player = self.start(problem)
        if "views" not in player.form.knowledge(player.state):
            pytest.skip("the policy learns from pages, not from counts")
        links, many = np.arange(problem.n_links), np.full(problem.n_links, MANY_VIEWS)
        player.import_counts(
            LinkTotals(visitor, level, links, many, many * row) for level, row in enumerate(rates)
        )
        return player

    # `name`

    @every_problem
    def test_every_form_of_a_policy_has_its_name(self, problem: Problem) -> None:
        """Tables, files and figures show the name of the form that plays."""
        policy = self.make_policy(problem)
        assert len(policy.name.split()) == 1, "`name` must be one word"
        namesake = POLICIES.get(policy.name, type(policy))
        assert issubclass(type(policy), namesake) or issubclass(namesake, type(policy)), (
            "`name` is that of another policy"
        )
        assert policy.for_problem(problem).name == policy.name

    # `for_problem`

    @every_problem
    def test_the_form_for_a_problem_is_final(self, problem: Problem) -> None:
        form = self.make_policy(problem).for_problem(problem)
        again = form.for_problem(problem)
        assert (type(again), again) == (type(form), form)

    @pytest.mark.parametrize("further", MORE_FLOORS.values(), ids=list(MORE_FLOORS))
    def test_further_floors_are_kept_or_refused(self, further: FurtherFloor) -> None:
        """A policy that `keeps_floor` must not ignore a floor that it accepts."""
        problem, rates, visitor = further.problem, further.rates, further.visitor
        if not self.make_policy(problem).keeps_floor:
            pytest.skip("the policy does not claim to keep floors")
        try:
            player = self.knowing(problem, rates, visitor)
        except InvalidInput:
            return
        rng, total = np.random.default_rng(6), np.zeros(len(rates))
        n_pages, n_judged = 600, 300  # a queue grows until its price is right
        for number in range(n_pages):
            shown, probabilities = self.draw(player, rng, visitor)
            total += rates[:, shown].sum(axis=1) * (number >= n_pages - n_judged)
            self.learn(player, [SettledPage(shown, probabilities, rates[:, shown], visitor)])
        per = n_judged if further.per < 0 else total[further.per]
        assert total[further.level] >= 0.97 * further.least * per

    # `for_visitors`

    def test_visitors_matter_only_where_that_is_declared(self) -> None:
        """Without `for_visitors` a policy may get an empty visitor instead of the real one."""
        known, unknown = self.start(OF_VISITORS), self.start(OF_VISITORS)
        if known.form.for_visitors is not None:
            pytest.skip("the policy reads visitors")
        for k, page in enumerate(self.play(known, n_rounds=60, visitors=EVERYBODY)):
            self.choose(unknown, k)
            self.learn(unknown, [page._replace(visitor=NOBODY)])
        self.check_same_knowledge(known, unknown)
        expected = self.choose(unknown, 2)
        for visitor in EVERYBODY:
            np.testing.assert_array_equal(self.choose(known, 2, visitor), expected)

    def test_visitors_seen_are_visitors_of_the_problem(self) -> None:
        player = self.start(OF_VISITORS)
        self.play(player, n_rounds=60, visitors=EVERYBODY[:2])
        seen = visitors_seen(player.form, player.state)
        assert seen.dtype == np.int64
        assert len(seen) > 0
        known = {(), *(tuple(visitor.tolist()) for visitor in EVERYBODY)}
        assert {tuple(visitor) for visitor in seen.tolist()} <= known
        for visitor in np.ascontiguousarray(seen[:3]):
            assert self.choose(player, 1, visitor).sum() == pytest.approx(3.0, abs=1e-9)

    def test_a_merged_value_is_free(self) -> None:
        """Its visitors count as those of the other value; a value without any changes nothing."""
        player = self.start(OF_VISITORS)
        hook = player.form.for_visitors
        if hook is None or hook.merge_value is None:
            pytest.skip("the policy cannot merge values")
        value, into, unseen = 2, 3, 4
        visitors = [one for one in EVERYBODY if one[1] != unseen]
        self.play(player, n_rounds=60, visitors=visitors)
        before = player.knowledge().arrays
        self.check_same_knowledge(
            hook.merge_value(player.knowledge().arrays, OF_VISITORS, unseen, into), before
        )
        merged = hook.merge_value(player.knowledge().arrays, OF_VISITORS, value, into)
        again = hook.merge_value(
            {name: array.copy() for name, array in merged.items()}, OF_VISITORS, value, into
        )
        self.check_same_knowledge(again, merged)
        player.state = player.form.restore(player.problem, merged)
        assert value not in visitors_seen(player.form, player.state)
        for visitor in EVERYBODY:
            assert self.choose(player, 1, visitor).sum() == pytest.approx(3.0, abs=1e-9)

    # `debt`

    def clicks_after(self, history: list[tuple[Links, float]]) -> float:
        """Return the expected clicks of the next page after some pages of links at their rates."""
        player = self.knowing(SOLD, SOLD_RATES)
        for links, n_pages in history:
            views = np.full(len(links), n_pages * SOLD.n_slots / len(links))
            player.learn_counts(
                LinkTotals(NOBODY, level, links, views, views * rates[links])
                for level, rates in enumerate(SOLD_RATES)
            )
        clicks = [self.choose(player, seed) @ SOLD_RATES[0] for seed in range(10)]
        return float(np.mean(clicks))

    def test_pages_depend_on_what_is_owed_as_declared(self) -> None:
        """Rates are known, so that only the clicks owed can differ between the histories."""
        # 30 clicks below the floor, and 120 above
        few, many = (BOUGHT, 50.0), (CLICKED, 200.0)
        owing, surplus, offset = (
            self.clicks_after(history) for history in ([few], [many], [many, few])
        )
        debt = self.start(SOLD).form.debt
        if debt is Debt.NONE:
            assert owing == pytest.approx(surplus, abs=0.02), "pages repay what is owed: set `debt`"
        else:
            assert owing > surplus + 0.1, "`debt` is declared, but pages repay nothing"
        if debt is Debt.QUEUE:
            assert offset == pytest.approx(owing, abs=0.02), "the surplus offsets a later debt"
        if debt is Debt.BALANCE:
            assert offset < owing - 0.1, "the surplus is forgotten"

    # `estimates`

    @pytest.mark.parametrize("problem", [SOLD, MORE_FLOORS["a further level"].problem])
    def test_estimates_are_those_of_the_program(self, problem: Problem) -> None:
        """They are near known rates, cannot be changed, and the page is the best one by them."""
        rates = SOLD_RATES if problem.n_levels == 2 else CART_RATES
        try:
            player = self.knowing(problem, rates)
        except InvalidInput:
            pytest.skip("the policy refuses this problem")
        estimates = player.form.estimates(player.state)
        if estimates is None:
            pytest.skip("the policy does not solve the floor program")
        for array in estimates:
            assert array is None or not array.flags.writeable
        np.testing.assert_allclose(estimates.value, rates[-1], atol=0.01)
        np.testing.assert_allclose(estimates.clicks, rates[0], atol=0.01)
        if estimates.demands is None:
            best = solve(estimates.value, estimates.clicks, problem.n_slots, problem.click_floor)
            value = best.probabilities @ estimates.value
        else:
            least = np.array([floor.least for floor in problem.active_floors])
            assert estimates.demands.shape == (len(least), problem.n_links)
            of_floors = solve_floors(estimates.value, estimates.demands, problem.n_slots, least)
            value = of_floors.probabilities @ estimates.value
        assert self.choose(player) @ estimates.value == pytest.approx(value, abs=1e-6)

    # `at_prices`

    @pytest.mark.parametrize("problem", [PAGE, OF_VISITORS])
    def test_pages_at_the_present_prices_are_those_chosen(self, problem: Problem) -> None:
        """A version stores prices instead of pages: at the prices of now it shows the same."""
        player = self.start(problem)
        hook, visitor = player.form.at_prices, EVERYBODY[1] if problem.feature_sizes else NOBODY
        if hook is None:
            pytest.skip("the policy has no prices")
        self.play(player, visitors=[visitor])
        known, links = player.knowledge().arrays, np.arange(problem.n_links)
        chosen = self.choose(player, 1, visitor)
        now = np.array([player.state.floors.prices])
        rows, pages = np.concatenate([now, 2.0 * now + 1.0, now]), np.full((4, len(links)), np.nan)
        page = switching(hook.page)
        for row in range(2):
            page(player.state, visitor, rows[row : row + 1], links, problem.n_slots, pages[row])
        page(player.state, visitor, rows, links, problem.n_slots, pages[2])
        np.testing.assert_allclose(pages[0], chosen, atol=1e-9)
        np.testing.assert_allclose(pages[2], (2.0 * pages[0] + pages[1]) / 3.0, atol=1e-9)
        some = np.array([5, 1, 3, 0])
        page(player.state, visitor, now, some, 2, pages[3, : len(some)])
        assert pages[3, : len(some)].sum() == pytest.approx(2.0, abs=1e-9)
        self.check_same_knowledge(player, known)

    @pytest.mark.parametrize("problem", [PAGE, OF_VISITORS])
    def test_pages_at_prices_are_within_rules(
        self, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLOTWISE_COMPILE", "never")  # a few pages need no machine code
        player = self.start(replace(problem, rules=RULES))
        hook, visitor = player.form.at_prices, EVERYBODY[1] if problem.feature_sizes else NOBODY
        if hook is None:
            pytest.skip("the policy has no prices")
        self.play(player, n_rounds=30, visitors=[visitor])
        chosen = self.choose(player, 1, visitor)
        now, within = np.array([player.state.floors.prices]), np.full(problem.n_links, np.nan)
        assert player.rules is not None
        rules = player.rules.for_page(None).rules
        switching(hook.page_within)(player.state, visitor, now, rules, within)
        np.testing.assert_allclose(within, chosen, atol=1e-9)
