"""The benchmark of combinations: its shops, its optimum and its table."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import combinations
from benchmarks.basket_shops import (
    FEATURES,
    N_SLOTS,
    SIZES,
    Demand,
    PageProgram,
    Sizes,
    make_shop,
    some_rules,
)
from benchmarks.combinations import SETTINGS, Combination, all_combinations, make_task
from slotwise.selection import solve


def test_any_two_settings_meet_in_one_of_at_least_forty_combinations() -> None:
    rows = all_combinations()
    assert len(rows) == len({row.name for row in rows}) >= 40
    assert all(row.is_possible for row in rows)
    for (kind, ones), (other, others) in itertools.combinations(SETTINGS.items(), 2):
        met = {(getattr(row, kind), getattr(row, other)) for row in rows}
        impossible = {("no features", "segment floors")}
        assert met | impossible >= set(itertools.product(ones, others))


def test_the_best_mix_without_visitors_and_slots_is_that_of_the_floor_program() -> None:
    shop = make_shop(SIZES["equal sales"], (), slots_differ=False, has_baskets=False, seed=3)
    program, everybody = PageProgram(shop, shop.n_links, ()), np.ones(1, bool)
    clicks, revenue = shop.outcomes()[:, 0]
    most = np.sort(clicks)[-N_SLOTS:].sum()
    for floor in (0.0, 0.8 * most, 0.95 * most):
        best = program.best([Demand(0, everybody, floor)])
        assert program.brings(best, -1, everybody) == pytest.approx(
            solve(revenue, clicks, N_SLOTS, floor).value
        )


def test_where_slots_differ_the_best_links_are_in_the_best_slots() -> None:
    shop = make_shop(SIZES["equal sales"], (), slots_differ=True, has_baskets=False, seed=3)
    program, everybody = PageProgram(shop, shop.n_links, ()), np.ones(1, bool)
    best = np.sort(shop.outcomes()[-1, 0])[::-1][:N_SLOTS]
    found = program.brings(program.best(), -1, everybody)
    assert found == pytest.approx(float(best @ np.sort(shop.slot_effects)[::-1]))


def test_rules_hold_for_every_kind_of_visitor_and_cost_revenue() -> None:
    shop = make_shop(SIZES["lognormal sales (sd 0.6)"], (2, 3), True, False, seed=3)
    rules, everybody = some_rules(shop), np.ones(6, bool)
    free, ruled = PageProgram(shop, shop.n_links, ()), PageProgram(shop, shop.n_links, rules)
    mix = ruled.best()
    slots_of = mix.reshape(6, shop.n_links, N_SLOTS).sum(axis=2)
    for rule in rules:
        slots = slots_of[:, list(rule.links)].sum(axis=1)
        assert (slots >= rule.at_least - 1e-9).all()
        assert rule.at_most is None or (slots <= rule.at_most + 1e-9).all()
    assert ruled.brings(mix, -1, everybody) < free.brings(free.best(), -1, everybody)


def test_the_optimum_changes_when_the_dear_link_joins() -> None:
    task = make_task(Combination("a dear link joins", floors="click floor"), seed=2)
    before, after = task.best
    assert after > 2.0 * before
    assert task.shop.n_links_at_first == task.shop.n_links - 1


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_sales_are_within_the_limit_that_the_shop_declares(
    sizes: Sizes, features: tuple[int, ...]
) -> None:
    shop = make_shop(sizes, features, slots_differ=True, has_baskets=True, seed=5)
    assert (shop.rates[0] * shop.slot_effects.max() <= 1.0).all()
    visits = combinations.Visits(shop, seed=1)
    sold = [
        money
        for _ in range(300)
        for money in visits.look_at([*range(3), shop.n_links - 1], visits.arrive())[1].values()
    ]
    assert 0.0 < max(sold) <= shop.max_revenue
    assert len(shop.visitors) == len(shop.shares) == max(1, int(np.prod(features)))


def test_the_table_has_a_row_for_each_combination_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.json"
    asked = ["--rounds", "60", "--seeds", "1", "2", "--json", str(path)]
    combinations.main([*asked, "--only", "segment floors; click by click"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("| ") and "segment floors" in line]
    table = json.loads(path.read_text(encoding="utf-8"))
    assert len(rows) == len(table["combinations"]) > 0
    for row in table["combinations"]:
        assert [run["seed"] for run in row["runs"]] == [1, 2]
        assert all(0.0 < run["share"] < 1.5 for run in row["runs"])
        assert all(0.0 < run["floor"] < 3.0 for run in row["runs"])


def test_a_text_in_no_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        combinations.main(["--only", "sideways"])
    assert "no combination has 'sideways' in its name" in capsys.readouterr().err
