"""The suite covers what it says, and says what it leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.leaderboard.cases import Effort
from benchmarks.leaderboard.ranking import REFERENCE
from benchmarks.leaderboard.run import all_entrants, pick_entrants, refusal
from benchmarks.leaderboard.suite import ORIGINALS, QUICK_CASES, build_suite, pick_cases
from slotwise.environments.datasets import look_ahead
from slotwise.errors import UnknownName
from slotwise.policies import POLICIES, Uniform, default_policy
from slotwise.problem import Problem
from slotwise.selection import solve

CASES = {case.name: case for case in build_suite().cases}


def test_names_are_all_different_and_quick_ones_exist() -> None:
    assert len(CASES) == len(build_suite().cases)
    assert set(QUICK_CASES) <= CASES.keys()


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("coupon-mild", "binding"),
        ("ads-like-12", "binding"),
        ("edx-like", "binding"),
        ("ads-like-10", "slack"),
        ("coupon-tight", "binding"),
        ("coupon-infeasible", "infeasible"),
        ("few-links", "binding"),
        ("many-links", "binding"),
        ("tiny-rates", "binding"),
        ("expensive-0.3", "binding"),
        ("expensive-0.6", "binding"),
        ("expensive-1", "binding"),
        ("huge-pool", "binding"),
        ("rare-sales", "binding"),
        ("click-bait", "binding"),
        ("sparse-sales", "binding"),
        ("short-500", "binding"),
        ("short-5000", "binding"),
    ],
)
def test_floors_do_what_the_descriptions_say(name: str, floor: str) -> None:
    assert look_ahead(CASES[name].dataset).floor == floor


@pytest.mark.parametrize(
    ("name", "gain"),
    [("six-segments", 1.17), ("24-segments", 1.3), ("480-combinations", 1.05), ("no-effect", 1.0)],
)
def test_knowing_the_visitors_brings_what_it_should(name: str, gain: float) -> None:
    case = CASES[name]
    played = case.experiment({"uniform": Uniform()}, Effort())
    best = played.optimum()
    assert played.problem.feature_sizes == case.links.feature_sizes
    assert best.value_without_visitors is not None
    assert gain <= best.value / best.value_without_visitors + 1e-9 < gain + 0.06


def test_slots_differ_as_the_descriptions_say() -> None:
    for name, is_different in (("slots-differ", True), ("slots-alike", False)):
        played = CASES[name].experiment({"uniform": Uniform()}, Effort())
        assert played.problem.slot_weights == "learn"
        assert (played.optimum().value_without_order is not None) == is_different


def test_the_largest_segment_drifts_and_no_other() -> None:
    links = CASES["drifting-segment"].links
    stations = links.world(100).stations
    moved = [kind for kind in range(6) if np.ptp(stations[:, kind], axis=0).max() > 0.0]
    assert moved == [int(np.argmax(links.visitor_rates(100).shares))]


def test_worlds_change_as_the_descriptions_say() -> None:
    assert CASES["delayed"].links.delays == (50, 2_000)
    assert CASES["intervals"].links.views_per_round == 100
    assert type(CASES["drifting"].links).__name__ == "DriftingLinks"
    assert CASES["many-links"].dataset.n_links >= 2_000
    assert (CASES["few-links"].dataset.n_links, CASES["few-links"].dataset.n_slots) == (5, 2)
    rates = CASES["tiny-rates"].dataset.click_rate
    assert 0.001 <= rates.min() < rates.max() <= 0.02


@pytest.mark.parametrize("price", ["0.3", "0.6", "1"])
def test_a_click_of_an_expensive_floor_costs_what_its_name_says(price: str) -> None:
    pool = CASES[f"expensive-{price}"].dataset
    value = pool.click_rate * pool.revenue_per_click
    found = solve(value, pool.click_rate, pool.n_slots, pool.click_floor).shadow_price
    assert found == pytest.approx(float(price), rel=0.1)


def test_links_swap_half_way() -> None:
    world = CASES["swapped"].links.world(1_000)
    first, last = world.stations[0], world.stations[-1]
    assert first[:, 0].tolist() == last[:, 1].tolist()
    assert CASES["very-late"].links.delays == (50, 5_000)


def test_rates_fall_and_feedback_is_late_as_the_names_say() -> None:
    clicks = CASES["fallen"].links.world(1_000).stations[:, 0]
    np.testing.assert_allclose(clicks[-1], 0.8 * clicks[0])
    assert CASES["late-200"].links.delays == (200, 200)
    assert CASES["late-1000"].links.delays == (1_000, 1_000)
    assert CASES["slots-unknown"].slot_weights is None
    assert CASES["short-5000"].experiment({"uniform": Uniform()}, Effort()).n_rounds == 5_000


def test_bait_never_sells_and_bursts_end() -> None:
    bait = CASES["click-bait"].dataset
    is_bait = bait.revenue_per_click == 0.0
    assert 30 < is_bait.sum() < 60
    assert bait.click_rate[is_bait].min() >= 0.2
    clicks = CASES["bursts"].links.world(1_000).stations[:, 0]
    assert clicks[0].tolist() == clicks[4].tolist() == clicks[-1].tolist()
    assert 10 < (clicks[5] > clicks[4]).sum() < 45


def test_nine_in_ten_links_of_the_sparse_pool_never_sell_and_few_sell_dear() -> None:
    pool = CASES["sparse-sales"].dataset
    sells = pool.revenue_per_click > 0.0
    assert pool.n_links >= 1_000
    assert 0.08 < sells.mean() < 0.12
    prices = CASES["sparse-sales"].links.world(1).price[sells]
    assert prices.max() > 5.0 * np.median(prices)


def test_rounds_and_runs_are_those_asked_for() -> None:
    uniform = {"uniform": Uniform()}
    tiny = CASES["tiny-rates"]
    assert tiny.experiment(uniform, Effort()).n_rounds == 100_000
    assert tiny.experiment(uniform, Effort(is_full=True)).n_rounds == 1_000_000
    asked = tiny.experiment(uniform, Effort(n_rounds=60, n_runs=2, seed=7, is_full=True))
    assert (asked.n_rounds, asked.n_runs, asked.seed) == (60, 2, 7)


def test_without_files_the_notes_say_what_is_missing(tmp_path: Path) -> None:
    (note,) = build_suite().notes
    assert all(original[0] in note for original in ORIGINALS)
    empty = build_suite(tmp_path)
    assert len(empty.notes) == len(ORIGINALS)
    assert empty.notes[0].startswith("ad-clicks-12 is left out: ")
    assert len(empty.cases) == len(CASES)


def test_original_files_become_cases(original_files: Path) -> None:
    suite = build_suite(original_files)
    cases = {case.name: case for case in suite.cases}
    assert suite.notes == ()
    assert look_ahead(cases["ad-clicks-12"].dataset).floor == "binding"
    assert look_ahead(cases["edx-9"].dataset).floor == "binding"
    assert look_ahead(cases["edx-10"].dataset).floor == "infeasible"


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="no case is called 'few'; known: coupon-mild, "):
        pick_cases(build_suite(), ["few"])
    with pytest.raises(UnknownName, match="no entrant is called 'cub'; known: "):
        pick_entrants(["cub"])


def test_every_registered_policy_plays_but_the_fixed_mix() -> None:
    entrants = all_entrants()
    assert next(iter(entrants)) == default_policy().name
    assert POLICIES.keys() - {"fixed-mix"} <= entrants.keys()
    expected = POLICIES.keys() - {"fixed-mix"} | {REFERENCE}  # which is a package of its own
    assert {policy.name for policy in entrants.values()} == expected


def test_sampling_policies_play_with_both_priors() -> None:
    for label, policy in all_entrants().items():
        if "/" not in label and hasattr(policy, "prior"):
            others = {
                f"{label}/{prior}" for prior in ("uniform", "fitted") if prior != policy.prior
            }
            assert others <= all_entrants().keys()


def test_the_default_always_plays() -> None:
    assert list(pick_entrants(["uniform"])) == [default_policy().name, "uniform"]


def test_a_refusal_is_the_policys_own_sentence() -> None:
    entrants = all_entrants()
    assert refusal(entrants["con-ucb"], Problem(5, 2, 0.5, horizon=10)) is None
    why = refusal(entrants["con-ucb"], Problem(5, 2, 0.5))
    assert why is not None
    assert why.startswith("`horizon` must be")
