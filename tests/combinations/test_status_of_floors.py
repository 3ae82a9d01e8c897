"""The status of floors equals HiGHS on the same estimates, with rules and several floors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from slotwise import Rule, Selector

N_LINKS, N_SLOTS = 7, 3
N_VIEWS = 100_000
LEVELS = ("click", "cart", "sale")

Floats = NDArray[np.float64]


class Case(NamedTuple):
    """Rates of a pool (click, cart and revenue per view), floors by level and rules."""

    rates: Floats
    floors: dict[str, float]
    rules: tuple[Rule, ...]


def drawn_case(seed: int, n_floors: int, has_rules: bool) -> Case:
    """Draw a pool whose floors are between half and 1.2 times what a page can bring."""
    rng = np.random.default_rng([seed, n_floors, has_rules])
    clicks = rng.uniform(0.05, 0.9, N_LINKS)
    carts = clicks * rng.uniform(0.1, 0.9, N_LINKS)
    rates = np.array([clicks, carts, carts * rng.uniform(0.0, 0.5, N_LINKS)])
    rates = np.round(rates * N_VIEWS) / N_VIEWS  # the counts have these rates exactly
    rules: tuple[Rule, ...] = ()
    if has_rules:
        order = rng.permutation(N_LINKS).tolist()
        rules = (
            Rule("cap", order[:4], at_most=float(rng.choice([1.0, 1.5]))),
            Rule("guarantee", order[3:6], at_least=float(rng.choice([0.5, 1.0]))),
        )
    most = [np.sort(level)[-N_SLOTS:].sum() for level in rates[:n_floors]]
    floors = {
        LEVELS[level]: min(float(rng.uniform(0.5, 1.2) * most[level]), 0.99 * N_SLOTS)
        for level in range(n_floors)
    }
    return Case(rates, floors, rules)


def solved(case: Case, objective: Floats, floors: dict[str, float]) -> Any:
    """Maximise an objective over mixes within the rules that keep the floors."""
    rows, most = [], []
    for rule in case.rules:
        row = np.isin(np.arange(N_LINKS), rule.links).astype(float)
        if rule.at_most is not None:
            rows.append(row)
            most.append(rule.at_most)
        if rule.at_least:
            rows.append(-row)
            most.append(-rule.at_least)
    for name, floor in floors.items():
        rows.append(-case.rates[LEVELS.index(name)])
        most.append(-floor)
    return linprog(
        -objective,
        A_ub=np.array(rows) if rows else None,
        b_ub=most or None,
        A_eq=np.ones((1, N_LINKS)),
        b_eq=[N_SLOTS],
        bounds=(0.0, 1.0),
        method="highs",
    )


def status_by_highs(case: Case) -> str:
    best = solved(case, case.rates[-1], case.floors)
    if not best.success:
        return "infeasible"
    free = solved(case, case.rates[-1], {})
    return "slack" if best.fun <= free.fun + 1e-9 else "binding"


def report_of(case: Case) -> Any:
    """Return the report of a selector that has counted the rates of a case exactly."""
    selector: Selector[int] = Selector(
        range(N_LINKS),
        N_SLOTS,
        levels=LEVELS,
        floors=case.floors,
        rules=case.rules,
        slot_weights="equal",
        seed=1,
    )
    totals = [
        {link: round(float(total)) for link, total in enumerate(N_VIEWS * level)}
        for level in case.rates[:2]
    ]
    money = {link: float(total) for link, total in enumerate(N_VIEWS * case.rates[2])}
    views = dict.fromkeys(range(N_LINKS), N_VIEWS)
    selector.update_batch(views, click=totals[0], cart=totals[1], sale=money)
    return selector.report()


@pytest.mark.parametrize("has_rules", [False, True])
@pytest.mark.parametrize("n_floors", [0, 1, 2])
def test_the_status_of_the_next_page_equals_highs(n_floors: int, has_rules: bool) -> None:
    found = []
    for seed in range(18):
        case = drawn_case(seed, n_floors, has_rules)
        page = report_of(case).page
        found.append(status_by_highs(case))
        assert page.status == found[-1], seed
        most = -solved(case, case.rates[0], {}).fun
        assert page.most_clicks == pytest.approx(most, abs=1e-6), seed
        is_within_reach = found[-1] != "infeasible"
        for floor in page.floors:
            assert np.isfinite(floor.shadow_price) or not is_within_reach, seed
    if n_floors:
        assert len(set(found)) == 3  # slack, binding and infeasible all occur


@pytest.mark.parametrize("has_rules", [False, True])
def test_a_click_floor_that_no_page_reaches_is_reported_as_such(has_rules: bool) -> None:
    """`delivered` says infeasible exactly where the most clicks within the rules are too few."""
    for seed in range(8):
        case = drawn_case(seed, 1, has_rules)
        most = -solved(case, case.rates[0], {}).fun
        for times in (0.9, 1.1):  # far beyond three standard errors
            asked = case._replace(floors={"click": min(times * most, 0.99 * N_SLOTS)})
            is_infeasible = report_of(asked).delivered.status == "infeasible"
            assert is_infeasible == (times > 1.0), (seed, times)
