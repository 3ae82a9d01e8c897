"""Experiment files: the shipped ones load, and every mistake is named by file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.environments import (
    BernoulliLevels,
    BetaRevenueLinks,
    DriftingLinks,
    FixedPriceLinks,
    IntervalLinks,
    LateFeedback,
)
from slotwise.environments.datasets import load_dataset
from slotwise.errors import InvalidConfig, InvalidInput, MissingData, UnknownName
from slotwise.policies import ConUCB, FixedMix
from slotwise.selection import Solution, solve
from slotwise.simulation import (
    experiment_path,
    load_experiment,
    optimum,
    run_experiment,
    shipped_experiments,
    simulate,
)

GOOD = """
title = "Mine"
dataset = "coupon-like"
n_rounds = 100
n_runs = 2

[[policies]]
name = "con-ucb"
settings = { gamma_scale = "1/72" }

[[policies]]
name = "oracle"
"""


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


@pytest.mark.parametrize("name", shipped_experiments())
def test_a_shipped_experiment_can_be_run(name: str) -> None:
    experiment = load_experiment(shipped_experiments()[name]).experiment()
    assert "oracle" in experiment.policies
    assert experiment.optimum().status == ("slack" if name.endswith("-ads") else "binding")
    assert experiment.n_rounds == (5_000 if name == "intervals" else 50_000)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("figure-1-coupon", (271, 15, 4.0, 0.01)),
        ("figure-2-ads", (225, 20, 10.0, 0.02)),
        ("figure-2-ads-binding", (225, 20, 12.0, 0.02)),
        ("figure-3-edx", (290, 60, 10.0, 0.05)),
    ],
)
def test_the_figures_have_the_papers_sizes(name: str, sizes: tuple[int, int, float, float]) -> None:
    experiment = load_experiment(shipped_experiments()[name]).experiment()
    problem = experiment.problem
    found = (problem.n_links, problem.n_slots, problem.click_floor, experiment.failure_probability)
    assert found == sizes
    assert experiment.n_runs == 200
    assert list(experiment.policies) == [
        "con-ucb",
        "con-ucb/1440",
        "lexp",
        "cucb",
        "exp3-m",
        "paced-bayes",
        "oracle",
    ]
    for label, scale in (("con-ucb", 1.0), ("con-ucb/1440", 1 / 1440)):
        policy = experiment.policies[label]
        assert isinstance(policy, ConUCB)
        assert policy.gamma_scale == pytest.approx(scale)
        assert policy.failure_probability == sizes[3]


def test_the_oracle_is_the_optimum_on_the_true_rates(write: Path) -> None:
    write.write_text(GOOD)
    experiment = load_experiment(write).experiment()
    best = experiment.policies["oracle"]
    assert isinstance(best, FixedMix)
    assert np.array_equal(best.probabilities, experiment.optimum().probabilities)


def test_the_optimum_is_solved_once(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def count_and_solve(*program: Any) -> Solution:
        solved.append(program)
        return solve(*program)

    monkeypatch.setattr(optimum, "solve", count_and_solve)
    write.write_text(GOOD)
    experiment = load_experiment(write).experiment()
    assert experiment.config() == experiment.config()
    assert len(solved) == 1


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ('kind = "beta"\nconcentration = 2.0', BetaRevenueLinks),
        ('kind = "fixed-price"\nprice = 1.0', FixedPriceLinks),
        ('kind = "interval"\nviews_per_round = 10', IntervalLinks),
        ('kind = "late"\nclick_delay = 1\nrevenue_delay = 2', LateFeedback),
        ('kind = "drifting"', DriftingLinks),
    ],
)
def test_an_environment_of_every_kind(section: str, kind: type, write: Path) -> None:
    write.write_text(GOOD.replace("[[policies]]", f"[environment]\n{section}\n\n[[policies]]", 1))
    assert isinstance(load_experiment(write).experiment().environment, kind)


def test_policies_promise_what_the_data_set_asks_unless_told_otherwise(write: Path) -> None:
    write.write_text(f"failure_probability = 0.3\n{GOOD}")
    policy = load_experiment(write).experiment().policies["con-ucb"]
    assert getattr(policy, "failure_probability", None) == 0.3
    settings = 'gamma_scale = "1/72", failure_probability = 0.2'
    write.write_text(GOOD.replace('gamma_scale = "1/72"', settings))
    policy = load_experiment(write).experiment().policies["con-ucb"]
    assert getattr(policy, "failure_probability", None) == 0.2


def test_changes_replace_keys(write: Path) -> None:
    write.write_text(GOOD)
    file = load_experiment(write, {"n_runs": 7, "seed": 9})
    assert (file.n_runs, file.seed, file.n_rounds) == (7, 9, 100)


SHOP = """
title = "Shop"
dataset = "shop-like"
floors = { click = 2.6, cart = 2 }
rate_floors = { purchase = 0.24 }
rewards = { click = 0.01, purchase = 1.0 }
n_rounds = 100
n_runs = 2

[[policies]]
name = "con-ucb"

[[policies]]
name = "oracle"
"""


def test_levels_floors_and_rewards_reach_the_problem(write: Path) -> None:
    write.write_text(SHOP)
    experiment = load_experiment(write).experiment()
    problem = experiment.problem
    assert problem.levels == ("click", "cart", "purchase")
    assert dict(problem.floors) == {"click": 2.6, "cart": 2.0}
    assert dict(problem.rate_floors) == {"purchase": 0.24}
    assert dict(problem.rewards) == {"click": 0.01, "purchase": 1.0}
    assert isinstance(experiment.environment, BernoulliLevels)
    results = run_experiment(experiment, n_threads=1)
    assert "shortfall:purchase/cart" in results.metrics
    from_python = simulate(
        experiment.environment,
        experiment.policies,
        n_slots=problem.n_slots,
        floors=problem.floors,
        rate_floors=problem.rate_floors,
        rewards=problem.rewards,
        n_rounds=100,
        n_runs=2,
        n_threads=1,
    )
    for label in results.labels:
        for metric in ("reward", "violation:cart", "total:purchase/cart"):
            same = results.final(label, metric) == from_python.final(label, metric)
            assert same.all()


@pytest.mark.parametrize(
    ("keys", "floors"),
    [
        ("", {"click": 2.6}),
        ("click_floor = 1.5", {"click": 1.5}),
        ("floors = { cart = 1.0 }", {"click": 2.6, "cart": 1.0}),
        ("floors = { click = 1.0 }", {"click": 1.0}),
        ("click_floor = 1.0\nfloors = { click = 1.0 }", {"click": 1.0}),
    ],
)
def test_the_click_floor_is_the_data_sets_unless_given(
    keys: str, floors: dict[str, float], write: Path
) -> None:
    write.write_text(f"{keys}\n{GOOD.replace('coupon-like', 'shop-like')}")
    assert dict(load_experiment(write).experiment().problem.floors) == floors


def test_two_levels_take_a_floor_on_revenue(write: Path) -> None:
    write.write_text(f"floors = {{ revenue = 0.5 }}\n{GOOD}")
    names = [floor.name for floor in load_experiment(write).experiment().problem.active_floors]
    assert names == ["click", "revenue"]


def test_a_link_of_a_rule_that_does_not_exist_is_named_with_the_file(write: Path) -> None:
    write.write_text(f'{GOOD}\n[[rules]]\nname = "one"\nlinks = [0, 999]\nat_most = 1\n')
    message = r"mine\.toml: `rules`: `links` of rule 'one' must be links of the pool, got 999"
    with pytest.raises(InvalidConfig, match=message):
        load_experiment(write).experiment()


def test_late_feedback_takes_any_number_of_levels(write: Path) -> None:
    section = '[environment]\nkind = "late"\nclick_delay = 1\nrevenue_delay = 5\n\n[[policies]]'
    write.write_text(SHOP.replace("[[policies]]", section, 1))
    assert load_experiment(write).experiment().environment.delays == (1, 5, 5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cart = 2 ", "basket = 2 ", "`floors` must be by level (click, cart, purchase), got"),
        ("cart = 2 ", "cart = 9 ", "`floors['cart']` must be at least 0 and below n_slots (8)"),
        ("cart = 2 ", "cart = true ", "`floors.cart` must be a number, got True"),
        ("cart = 2 ", 'cart = "2" ', "`floors.cart` must be a number, got '2'"),
        ("purchase = 0.24", "click = 0.2", "`rate_floors` must be of levels that have one before"),
        ("purchase = 0.24", "purchase = 1.2", "`rate_floors['purchase']` must be from 0 to 1"),
        ("click = 0.01", "click = -1.0", "`rewards['click']` must be a finite number that is"),
        ("click = 0.01", "visit = 1.0", "`rewards` must be by level (click, cart, purchase)"),
        ("n_runs = 2", "n_runs = 2\nclick_floor = 1.0", "`click_floor` must be left out, or equal"),
        ('"con-ucb"', '"lexp"', "`policies.0`: "),
        ('"con-ucb"', '"exp3-m"', "`policies.0`: "),
        (
            "n_runs = 2",
            'n_runs = 2\n[environment]\nkind = "beta"',
            "`environment`: `kind` must be bernoulli or late for shop-like, which has the levels",
        ),
    ],
)
def test_a_mistake_in_levels_or_floors_is_named(
    old: str, new: str, message: str, write: Path
) -> None:
    text = SHOP.replace(old, new, 1)
    assert text != SHOP
    write.write_text(text)
    with pytest.raises(InvalidConfig) as error:
        load_experiment(write).experiment()
    assert str(error.value).startswith(f"{write}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Mine"', "title = Mine", "Invalid value (at line 2"),
        ('title = "Mine"', "", "`title` is missing"),
        ('title = "Mine"', "title = 5", "`title` must be text, got 5"),
        ("n_runs = 2", 'n_runs = "2"', "`n_runs` must be a whole number, got '2'"),
        ("n_runs = 2", "n_runs = true", "`n_runs` must be a whole number, got True"),
        ("n_runs = 2", "n_runs = 0", "`n_runs` must be at least 1, got 0"),
        ("n_rounds = 100", "n_rounds = 0", "`n_rounds` must be at least 1, got 0"),
        ("[[policies]]", "[[policy]]", "`policy` is not a known key; did you mean `policies`?"),
        ("n_runs = 2", "runs = 2", "`runs` is not a known key; did you mean `n_runs`?"),
        ("n_rounds = 100", "n_round = 9", "`n_round` is not a known key; did you mean `n_rounds`?"),
        ("n_runs = 2", "seed = -1", "`seed` must be at least 0, got -1"),
        ("coupon-like", "coupon-lik", "`dataset`: no data set is called 'coupon-lik'; did"),
        ("n_runs = 2", "click_floor = 99.0", "`dataset`: `click_floor` must be at least 0"),
        ("n_runs = 2", "n_slots = 999", "`dataset`: `n_slots` must be from 1 to the number of"),
        ("n_runs = 2", "options = { seed = 5 }", "`dataset`: `seed` must be an option"),
        ("n_runs = 2", "policies = []", "`policies` must be a list of at least 1, got []"),
        (
            "oracle",
            "con-ubc",
            "`policies.1`: no policy is called 'con-ubc'; did you mean 'con-ucb'",
        ),
        ('name = "oracle"', 'label = "x"', "`policies.1.name` is missing"),
        (
            'name = "oracle"',
            'name = "paced-bayes"\npateince = 3',
            "known are name, label, settings, own_page, keep; settings of the policy go into",
        ),
        (
            '"oracle"',
            '"con-ucb"',
            "`policies.1`: `label` must be different for each, got 'con-ucb'",
        ),
        ('"1/72"', '"1/0"', "`policies.0.settings.gamma_scale` must be a number, or a fraction"),
        ('"1/72"', '"a/b"', "such as 1/72, got 'a/b'"),
        ('"1/72"', "-1.0", "`policies.0`: `gamma_scale` must be a positive number, got -1.0"),
        ('"1/72"', '"wide"', "`policies.0`: "),
        ("gamma_scale", "gama_scale", "`policies.0`: `gama_scale` is not a setting of con-ucb"),
        ("gamma_scale", "horizon", "`policies.0`: "),
        (
            "n_runs = 2",
            '[environment]\nkind = "odd"',
            "`environment.kind` must be a kind of environment",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "late"\nclick_delay = 1',
            "`environment.revenue_delay` is missing",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "bernoulli"\nclick_delay = 1',
            "`environment.click_delay` is not a known key; known are kind",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "late"\nclick_dely = 1\nrevenue_delay = 2\nclick_delay = 1',
            "`environment.click_dely` is not a known key; did you mean `click_delay`?",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "lat"',
            "`environment.kind` must be a kind of environment, got 'lat'; did you mean 'late'?",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "interval"\nviews_per_round = 0',
            "`environment`: `views_per_round` must be at least 1, got 0",
        ),
        (
            "n_runs = 2",
            '[environment]\nkind = "fixed-price"\nprice = 0.01',
            "`environment`: `sale_rate` must be numbers in [0, 1]",
        ),
    ],
)
def test_a_mistake_is_named_by_file_and_key(old: str, new: str, message: str, write: Path) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    if "policies = []" in new:
        text = text.partition("[[policies]]")[0]
    write.write_text(text)
    with pytest.raises(InvalidConfig) as error:
        load_experiment(write).experiment()
    assert str(error.value).startswith(f"{write}: ")
    assert message in str(error.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"no experiment file at .*gone\.toml"):
        load_experiment(tmp_path / "gone.toml")
    (tmp_path / "photo.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match=r"photo\.toml: not a text file"):
        load_experiment(tmp_path / "photo.toml")
    (tmp_path / "deep.toml").write_text("name = " + "[" * 100_000)
    with pytest.raises(InvalidConfig, match=r"deep\.toml: values are nested too deeply"):
        load_experiment(tmp_path / "deep.toml")


def test_a_shipped_name_stands_for_its_file(tmp_path: Path) -> None:
    assert experiment_path("figure-3-edx") == shipped_experiments()["figure-3-edx"]
    assert experiment_path(tmp_path / "mine.toml") == tmp_path / "mine.toml"
    with pytest.raises(UnknownName, match="did you mean 'figure-1-coupon'"):
        experiment_path("figure-1-coupons")


def test_without_the_original_files_a_look_alike_is_used_and_named(tmp_path: Path) -> None:
    file = load_experiment(shipped_experiments()["figure-3-edx"])
    dataset = file.experiment(tmp_path).dataset
    assert dataset["name"] == "edx-like"
    assert dataset["look_alike"]
    assert any("look-alike used instead of edx-course" in note for note in dataset["notes"])


def test_files_of_a_loader_that_are_missing_are_no_fault_of_the_settings(
    tmp_path: Path, write: Path
) -> None:
    write.write_text(GOOD.replace("coupon-like", "edx-course"))
    with pytest.raises(MissingData, match=r"appendix\.csv"):
        load_experiment(write).experiment(tmp_path)


def test_a_table_is_told_its_page_by_the_keys_of_the_file(write: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    links.write_text("views,clicks,revenue\n100,50,5\n100,20,9\n100,10,1\n")
    page = 'dataset = "table"\nn_slots = 2\nclick_floor = 0.6\nfailure_probability = 0.05'
    write.write_text(GOOD.replace('dataset = "coupon-like"', page))
    experiment = load_experiment(write).experiment(links)
    assert (experiment.problem.n_slots, experiment.problem.click_floor) == (2, 0.6)
    assert experiment.failure_probability == 0.05


def test_an_experiment_names_its_own_table_next_to_it(write: Path, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("click_rate,revenue_per_click\n0.5,0.1\n0.2,0.9\n0.1,1\n")
    page = 'dataset = "rates"\ndata = "links.csv"\nn_slots = 2\nclick_floor = 0.6'
    write.write_text(GOOD.replace('dataset = "coupon-like"', page))
    experiment = load_experiment(write).experiment()
    assert experiment.environment.rates(1)[0].tolist() == [0.5, 0.2, 0.1]
    other = tmp_path / "other.csv"
    other.write_text("click_rate,revenue_per_click\n0.7,0.1\n0.6,0.2\n")
    replaced = load_experiment(write).experiment(other)
    assert replaced.environment.rates(1)[0].tolist() == [0.7, 0.6]
    write.write_text(write.read_text().replace("links.csv", "no.csv"))
    with pytest.raises(InvalidConfig, match=r"`data`: no file or folder at .*no\.csv"):
        load_experiment(write).experiment()
    with pytest.raises(InvalidInput, match=r"`data` must be a file or folder that exists"):
        load_experiment(write).experiment(tmp_path / "no.csv")
    write.write_text(
        write.read_text().replace('data = "no.csv"', 'options = { file = "other.csv" }')
    )
    message = r"`data` must be the path of your own CSV.*; name it in this file or with --data"
    with pytest.raises(InvalidConfig, match=message):
        load_experiment(write).experiment()
    with pytest.raises(MissingData, match=r"`directory` must be a file or folder that exists"):
        load_dataset("rates", tmp_path / "no.csv", n_slots=2, click_floor=0.6)
