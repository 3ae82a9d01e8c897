"""The floor program under rules equals HiGHS, and pages drawn by groups keep whole numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.selection import solve
from slotwise.selection.page_within_rules import best_within, project_within, solve_within
from slotwise.selection.rounding import draw_by_groups
from slotwise.selection.rules import SlotRule, settle_rules, solve_rules
from tests.reference import rules as reference
from tests.selection.chance import is_plausible
from tests.selection.instances import RATES, make_rates

Floats = NDArray[np.float64]

HIGHS = 1e-7
"""How exactly HiGHS keeps its rows."""


def random_rules(rng: np.random.Generator, n_links: int, crossing: bool) -> list[SlotRule]:
    """Return rules of links and of groups, whole and fractional, some of which contradict."""
    rules = []
    n_groups = int(rng.integers(0, 6))
    group = rng.integers(0, n_groups + 1, n_links)
    for place in range(n_groups):
        links = np.flatnonzero(group == place)
        if crossing and rng.random() < 0.5:
            links = np.flatnonzero(rng.random(n_links) < 0.4)
        if not len(links):
            continue
        least = float(rng.choice([0.0, 0.0, rng.random(), 1.0, float(rng.integers(0, 3))]))
        most = float(rng.choice([len(links), 3 * rng.random(), 1.0, float(rng.integers(0, 4))]))
        rules.append(SlotRule(links, min(least, most), max(least, most)))
    for link in rng.permutation(n_links)[: rng.integers(0, 4)].tolist():
        least, most = rng.choice([0.0, 0.5 * rng.random()]), rng.choice([1.0, 0.3, rng.random()])
        rules.append(SlotRule(np.array([link]), float(min(least, most)), float(max(least, most))))
    return [rules[k] for k in rng.permutation(len(rules))]


def random_program(
    seed: int, crossing: bool = False
) -> tuple[Floats, Floats, int, float, list[SlotRule]]:
    """Return a program of any kind of rates and any kind of floor."""
    rng = np.random.default_rng([17, seed])
    n_links = int(rng.integers(1, 26))
    n_slots = int(rng.integers(1, n_links + 1))
    value, clicks = make_rates(str(rng.choice(RATES)), n_links, rng)
    rules = random_rules(rng, n_links, crossing)
    free = solve_rules(value, clicks, n_slots, 0.0, rules).clicks
    most = solve_rules(clicks, clicks, n_slots, 0.0, rules).clicks
    between = free + (most - free) * rng.random()
    floor = float(rng.choice([0.0, free * rng.random(), between, between, most, most + 0.05]))
    return value, clicks, n_slots, max(0.0, floor), rules


def check_program(seed: int, crossing: bool, settles: bool) -> str:
    """Compare one program with HiGHS; return the status of its floor."""
    value, clicks, n_slots, floor, asked = random_program(seed, crossing)
    found = solve_rules(value, clicks, n_slots, floor, asked)
    page = found.probabilities
    assert abs(page.sum() - n_slots) < 1e-9
    granted = [reference.Asked(*rule) for rule in found.granted]
    assert reference.is_within(page, granted, 1e-8 if crossing else 1e-9)
    assert abs(value @ page - found.value) < 1e-9
    assert abs(clicks @ page - found.clicks) < 1e-9
    wanted = [reference.Asked(*rule) for rule in asked] if settles else granted
    kept = reference.Program(wanted, len(value), n_slots)
    if settles:
        for (least, most), rule, one in zip(kept.granted, granted, asked, strict=True):
            assert abs(least - rule.least) < 1e-6
            assert abs(max(most, one.most) - rule.most) < 1e-6
    if found.status == "infeasible":
        most_clicks = kept.best(clicks, clicks, 0.0)
        assert most_clicks is not None
        assert abs(most_clicks - found.clicks) < HIGHS
        assert found.clicks < floor
        assert found.shadow_price == np.inf
    else:
        assert found.clicks >= floor - 1e-9
        best = kept.best(value, clicks, floor - 1e-8)
        assert best is not None
        assert abs(best - found.value) < 3 * HIGHS * (1.0 + min(found.shadow_price, 1e3))
        if found.status == "slack":
            assert found.shadow_price == 0.0
    return found.status


def test_programs_equal_highs() -> None:
    statuses = Counter(check_program(seed, False, seed % 4 == 0) for seed in range(80))
    assert min(statuses[name] for name in ("slack", "binding", "infeasible")) > 10


def test_programs_of_groups_that_cross_equal_highs() -> None:
    statuses = Counter(check_program(seed, True, seed % 4 == 0) for seed in range(60))
    assert min(statuses[name] for name in ("slack", "binding", "infeasible")) > 4


@pytest.mark.slow
def test_many_programs_equal_highs() -> None:
    statuses: Counter[str] = Counter()
    for seed in range(100_000):
        value, clicks, n_slots, floor, asked = random_program(seed)
        found = solve_rules(value, clicks, n_slots, floor, asked)
        granted = [reference.Asked(*rule) for rule in found.granted]
        assert reference.is_within(found.probabilities, granted), seed
        wanted = clicks if found.status == "infeasible" else value
        got = found.clicks if found.status == "infeasible" else found.value
        least = 0.0 if found.status == "infeasible" else floor - 1e-8
        best = reference.best_within(wanted, clicks, n_slots, least, granted)
        assert best is not None, seed
        assert abs(best - got) < 3 * HIGHS * (1.0 + min(found.shadow_price, 1e3)), seed
        statuses[found.status] += 1
    assert min(statuses[name] for name in ("slack", "binding", "infeasible")) > 5_000


def test_interpreted_code_finds_the_same_mix() -> None:
    for seed in range(60):
        value, clicks, n_slots, floor, asked = random_program(seed, seed % 3 == 0)
        compiled = solve_rules(value, clicks, n_slots, floor, asked)
        settled = settle_rules(asked, len(value), n_slots)
        plain = solve_within(settled.rules, value, clicks, floor)
        assert np.array_equal(compiled.probabilities, settled.rules.probabilities)
        assert plain.price == compiled.shadow_price


@pytest.mark.parametrize("solve_within", [solve_within, switching(solve_within)])
def test_a_program_that_is_asked_again_has_the_same_answer(solve_within: Any) -> None:
    """The last program is cached; others may have used the page meanwhile, or changed one rate."""
    for seed in range(40):
        value, clicks, n_slots, floor, asked = random_program(seed, seed % 3 == 0)
        rules = settle_rules(asked, len(value), n_slots).rules
        first = solve_within(rules, value, clicks, floor)
        page = rules.probabilities.copy()
        best_within(rules, clicks, clicks)
        assert solve_within(rules, value, clicks, floor) == first
        assert np.array_equal(rules.probabilities, page)
        other = np.where(np.arange(len(value)) == 0, 1.0 - value, value)
        for changed in ((other, clicks, floor), (value, other, floor), (value, clicks, 0.0)):
            solve_within(rules, *changed)
            fresh = settle_rules(asked, len(value), n_slots).rules
            solve_within(fresh, *changed)
            assert np.allclose(rules.probabilities, fresh.probabilities, atol=1e-9)


def test_without_rules_the_answer_is_that_of_solve() -> None:
    for seed in range(100):
        value, clicks, n_slots, floor, _ = random_program(seed)
        plain, ruled = (
            solve(value, clicks, n_slots, floor),
            solve_rules(value, clicks, n_slots, floor, []),
        )
        assert ruled.status == plain.status
        assert ruled.value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)
        assert ruled.clicks == pytest.approx(plain.clicks, rel=1e-9, abs=1e-12)


def test_equal_links_share_equally() -> None:
    rules = [SlotRule(np.array([0, 1, 2]), 0.0, 1.0), SlotRule(np.array([3]), 0.0, 0.25)]
    page = settle_rules(rules, 8, 4).rules
    best_within(page, np.zeros(8), np.zeros(8))
    assert page.probabilities == pytest.approx([1 / 3] * 3 + [0.25] + [2.75 / 4] * 4)


def test_a_price_is_what_a_looser_rule_would_bring() -> None:
    n_priced = 0
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        value, clicks = rng.random(12), rng.random(12)
        links = rng.permutation(12)
        rules = [
            SlotRule(links[:3], 0.0, 0.7),
            SlotRule(links[3:6], 0.8, 3.0),
            SlotRule(links[6:7], 0.3, 1.0),
        ]
        best = solve_rules(value, clicks, 4, 0.0, rules)
        for place, rule in enumerate(rules):
            step = 1e-4
            looser = rule._replace(
                least=max(0.0, rule.least - step), most=min(rule.most + step, len(rule.links))
            )
            relaxed = [looser if k == place else one for k, one in enumerate(rules)]
            gain = (solve_rules(value, clicks, 4, 0.0, relaxed).value - best.value) / step
            assert best.prices[place] == pytest.approx(gain, abs=1e-9)
            n_priced += best.prices[place] > 0.0
    assert n_priced > 66


def test_projection_keeps_rules_and_proportions() -> None:
    for seed in range(100):
        rng = np.random.default_rng([4, seed])
        n_links = int(rng.integers(2, 20))
        n_slots = int(rng.integers(1, n_links + 1))
        settled = settle_rules(random_rules(rng, n_links, False), n_links, n_slots)
        wanted = rng.dirichlet(np.ones(n_links)) * n_slots
        switching(project_within)(settled.rules, wanted)
        page = settled.rules.probabilities
        assert abs(page.sum() - n_slots) < 1e-9
        assert reference.is_within(page, [reference.Asked(*rule) for rule in settled.granted])
    page_rules = settle_rules([], 4, 2).rules
    project_within(page_rules, np.array([0.8, 0.6, 0.4, 0.2]))
    assert page_rules.probabilities == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_rules_give_way_in_order() -> None:
    first, second = SlotRule(np.array([0, 1, 2]), 0.0, 1.0), SlotRule(np.array([3, 4, 5]), 0.0, 1.0)
    settled = settle_rules([first, second], 6, 3)
    assert [rule.most for rule in settled.granted] == [1.0, 2.0]
    guarantees = [SlotRule(np.array([0, 1]), 2.0, 2.0), SlotRule(np.array([2, 3]), 2.0, 2.0)]
    settled = settle_rules(guarantees, 6, 3)
    assert [rule.least for rule in settled.granted] == [2.0, 1.0]
    settled = settle_rules([first], 6, 3, pinned=[0, 1], excluded=[5])
    assert settled.granted[0].most == 2.0
    with pytest.raises(InvalidInput, match="`exclude` must be few enough links to leave 3"):
        settle_rules([], 6, 3, excluded=[0, 1, 2, 3])


@pytest.mark.compiled
def test_pages_drawn_by_groups_have_whole_numbers_of_a_group() -> None:
    rng = np.random.default_rng(5)
    draw = switching(draw_by_groups)
    for seed in range(25):
        chance = np.random.default_rng([6, seed])
        n_links = int(chance.integers(2, 15))
        n_slots = int(chance.integers(1, n_links + 1))
        settled = settle_rules(random_rules(chance, n_links, False), n_links, n_slots).rules
        project_within(settled, chance.random(n_links))
        p = settled.probabilities
        shown, drawn = np.zeros(n_slots, np.int64), np.zeros(n_slots)
        n_shown, left = np.zeros(n_links, np.int64), np.zeros(n_links)
        groups = np.split(settled.links, settled.ends[:-1])
        sums = [p[group].sum() for group in groups]
        n_pages = 600
        for _ in range(n_pages):
            draw(p, settled.links, settled.ends, left, rng, shown, drawn)
            assert len(set(shown.tolist())) == n_slots
            n_shown[shown] += 1
            for group, total in zip(groups, sums, strict=True):
                n_of_group = int(np.isin(shown, group).sum())
                assert np.floor(total + 1e-9) <= n_of_group <= np.ceil(total - 1e-9)
        for link in range(n_links):
            assert is_plausible(int(n_shown[link]), n_pages, float(p[link]), 25 * 15)


def test_drawing_equals_its_definition() -> None:
    for seed in range(200):
        chance = np.random.default_rng([7, seed])
        n_links = int(chance.integers(2, 15))
        n_slots = int(chance.integers(1, n_links + 1))
        page = settle_rules(random_rules(chance, n_links, False), n_links, n_slots).rules
        project_within(page, chance.random(n_links))
        shown, drawn = np.zeros(n_slots, np.int64), np.zeros(n_slots)
        ours, other = np.random.default_rng(seed), np.random.default_rng(seed)
        draw_by_groups(
            page.probabilities, page.links, page.ends, np.zeros(n_links), ours, shown, drawn
        )
        groups = [group.tolist() for group in np.split(page.links, page.ends[:-1])]
        assert shown.tolist() == reference.draw_by_groups(page.probabilities, groups, other)
        assert drawn.tolist() == page.probabilities[shown].tolist()


@pytest.mark.slow
def test_whole_numbers_hold_on_a_million_pages() -> None:
    """Caps of one and guarantees of one hold on every page, and every link is as likely as said."""
    rng, draw = np.random.default_rng(8), switching(draw_by_groups)
    n_links, n_slots, n_groups = 30, 8, 6
    group = np.arange(n_links) % n_groups
    asked = [
        SlotRule(np.flatnonzero(group == place), float(place % 2), 1.0 + place % 3)
        for place in range(n_groups)
    ]
    least = np.array([rule.least for rule in asked])
    most = np.array([rule.most for rule in asked])
    shown, drawn, left = np.zeros(n_slots, np.int64), np.zeros(n_slots), np.zeros(n_links)
    n_pages, n_mixes = 10_000, 100
    for _ in range(n_mixes):
        page = settle_rules(asked, n_links, n_slots).rules
        project_within(page, rng.random(n_links) ** 3)
        pages = np.empty((n_pages, n_slots), np.int64)
        for k in range(n_pages):
            draw(page.probabilities, page.links, page.ends, left, rng, shown, drawn)
            pages[k] = shown
        of_groups = (group[pages][:, :, None] == np.arange(n_groups)).sum(axis=1)
        assert (of_groups >= least).all()
        assert (of_groups <= most).all()
        assert (np.diff(np.sort(pages, axis=1), axis=1) > 0).all()
        n_shown = np.bincount(pages.ravel(), minlength=n_links)
        for link in range(n_links):
            probability = float(page.probabilities[link])
            assert is_plausible(int(n_shown[link]), n_pages, probability, n_mixes * n_links)
