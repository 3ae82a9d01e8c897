"""What an experiment leaves behind: asked, checked, saved, read back, put together."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

from slotwise import metrics
from slotwise.errors import (
    InvalidInput,
    MissingData,
    SlotwiseError,
    UnknownName,
    UnsupportedState,
)
from slotwise.simulation import results_file
from slotwise.simulation.results import Results
from tests.simulation.synthetic import FLOOR, OPTIMUM, make_results

GOLDEN = Path(__file__).parents[1] / "golden" / "results-v1.parquet"

CONFIG = {"click_floor": 1.0, "optimum": {"value": 0.5}}


def one_run(**changes: Any) -> dict[str, Any]:
    return {
        "reward": [[3.0, 9.0]],
        "clicks": [[8.0, 21.0]],
        "violation": [[4.0, 6.0]],
        "deficit": [[3.0, 3.0]],
        **changes,
    }


def small(**changes: Any) -> Results:
    totals: Any = {"a": one_run(**changes), "b": one_run(**changes)}
    return Results(CONFIG, np.array([10, 20]), totals)


def assert_same(left: Results, right: Results) -> None:
    assert left.config == right.config
    np.testing.assert_array_equal(left.rounds, right.rounds)
    assert left.labels == right.labels
    for label in left.labels:
        assert list(left.totals[label]) == list(right.totals[label])
        for quantity, values in left.totals[label].items():
            np.testing.assert_array_equal(values, right.totals[label][quantity])


def test_every_metric_follows_from_the_totals() -> None:
    results = make_results(n_runs=3)
    totals = results.totals["lexp"]
    last = {quantity: values[:, -1] for quantity, values in totals.items()}
    expected = {
        "regret": 50_000 * OPTIMUM - last["reward"],
        "shortfall": np.maximum(50_000 * FLOOR - last["clicks"], 0),
        "ratio": last["reward"] / last["violation"],
        **last,
    }
    assert set(results.metrics) == set(expected)
    for metric, values in expected.items():
        np.testing.assert_allclose(results.final("lexp", metric), values)


def test_a_curve_has_a_student_band_over_runs() -> None:
    results = make_results(n_runs=7)
    curve = results.curve("cucb", "violation")
    samples = results.totals["cucb"]["violation"]
    low, high = scipy.stats.t.interval(
        0.95, 6, loc=samples.mean(axis=0), scale=scipy.stats.sem(samples, axis=0)
    )
    np.testing.assert_array_equal(curve.rounds, results.rounds)
    np.testing.assert_allclose(curve.low, low)
    np.testing.assert_allclose(curve.high, high)


def test_the_curve_of_one_run_is_its_own_band() -> None:
    curve = make_results(n_runs=1).curve("oracle", "reward")
    np.testing.assert_array_equal(curve.low, curve.mean)
    np.testing.assert_array_equal(curve.high, curve.mean)


def test_the_ratio_of_a_policy_without_violation_is_infinite() -> None:
    results = small(violation=[[0.0, 0.0]])
    assert results.final("a", "ratio").tolist() == [math.inf]
    assert results.curve("a", "ratio").high.tolist() == [math.inf, math.inf]


def test_more_levels_bring_their_own_violation_and_shortfall() -> None:
    extra = {"total:cart": [[4.0, 9.0]], "violation:cart": [[2.0, 3.0]]}
    config = CONFIG | {"floors": {"click": 1.0, "cart": 0.5}}
    totals: Any = {"a": one_run(**extra)}
    results = Results(config, np.array([10, 20]), totals)
    assert results.metrics[-3:] == ("total:cart", "shortfall:cart", "violation:cart")
    assert results.final("a", "shortfall:cart").tolist() == [1.0]
    assert results.final("a", "violation:cart").tolist() == [3.0]


def test_the_summary_has_a_row_for_every_policy_and_metric() -> None:
    results = make_results(("lexp", "oracle"), n_runs=4)
    rows = results.summary()
    assert len(rows) == 2 * len(results.metrics)
    row = next(row for row in rows if (row.label, row.metric) == ("lexp", "clicks"))
    mean, low, high = metrics.mean_interval(results.final("lexp", "clicks"))
    assert (row.mean, row.low, row.high) == (float(mean), float(low), float(high))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="unknown policy 'c'; known: a, b"):
        small().final("c", "regret")
    with pytest.raises(
        UnknownName, match="unknown metric 'luck'; known: regret, violation, reward"
    ):
        small().curve("a", "luck")


def test_nobody_can_change_results() -> None:
    results = small()
    with pytest.raises(ValueError, match="read-only"):
        results.totals["a"]["reward"][0, 0] = 1.0
    with pytest.raises(TypeError, match="does not support item assignment"):
        results.config["seed"] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": [[1.0]]}, r"`totals\['a'\]\['reward'\]` must be of the shape \(runs, 2\)"),
        ({"clicks": np.zeros((0, 2))}, r"must be of the shape \(runs, 2\), runs equal"),
        ({"clicks": [[1.0, math.nan]]}, r"`totals\['a'\]\['clicks'\]` must be finite"),
    ],
)
def test_totals_that_break_a_rule_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(**changes)


def test_totals_without_a_quantity_are_refused() -> None:
    totals: Any = {"a": {"reward": [[1.0]]}}
    with pytest.raises(InvalidInput, match="the same quantities for every policy, among them vio"):
        Results(CONFIG, np.array([1]), totals)
    with pytest.raises(InvalidInput, match="`totals` must be of at least one policy"):
        Results(CONFIG, np.array([1]), {})


@pytest.mark.parametrize("rounds", [[], [0, 1], [5, 5], [[1, 2]]])
def test_checkpoints_must_grow(rounds: Any) -> None:
    with pytest.raises(InvalidInput, match="`rounds` must be increasing checkpoints"):
        Results(CONFIG, np.array(rounds), {"a": one_run()})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"click_floor": 1.0}, "settings with the key 'optimum'"),
        (CONFIG | {"path": Path("x")}, "plain enough for JSON"),
        (CONFIG | {"price": math.inf}, "plain enough for JSON"),
    ],
)
def test_settings_must_be_plain(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Results(config, np.array([10, 20]), {"a": one_run()})


@pytest.mark.parametrize("n_runs", [1, 3])
def test_saved_results_come_back_bit_for_bit(tmp_path: Path, n_runs: int) -> None:
    results = make_results(("oracle", "lexp", "größe/½ \"<&>' $x$"), n_runs=n_runs)
    results.save(tmp_path / "new folder" / "coupon.parquet")
    assert_same(results, Results.load(tmp_path / "new folder" / "coupon.parquet"))
    assert [path.name for path in tmp_path.rglob("*.*")] == ["coupon.parquet"]


def test_policies_may_have_different_numbers_of_runs(tmp_path: Path) -> None:
    totals: Any = {
        "a": {name: np.ones((3, 2)) for name in one_run()},
        "b": {name: np.ones((1, 2)) for name in one_run()},
    }
    results = Results(CONFIG, np.array([10, 20]), totals)
    results.save(tmp_path / "x.parquet")
    assert_same(results, Results.load(tmp_path / "x.parquet"))
    assert results.n_runs == 1


def test_the_table_is_tidy(tmp_path: Path) -> None:
    make_results(n_runs=2, n_checkpoints=5).save(tmp_path / "x.parquet")
    table = pl.read_parquet(tmp_path / "x.parquet")
    assert table.columns == ["policy", "run", "round", *one_run()]
    assert table.height == 6 * 2 * 5


def test_a_failing_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    small().save(path)
    before = path.read_bytes()

    def fail_half_way(table: object, where: Path, **options: object) -> None:
        Path(where).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail_half_way)
    with pytest.raises(OSError, match="disk full"):
        make_results(n_runs=1).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_says_who_writes_it(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"no results file .*x\.parquet; `slotwise simulate`"):
        Results.load(tmp_path / "x.parquet")


@pytest.mark.parametrize("contents", [b"", b"PAR1 nothing", "half"])
def test_a_broken_file_is_refused_in_one_sentence(tmp_path: Path, contents: Any) -> None:
    path = tmp_path / "x.parquet"
    small().save(path)
    path.write_bytes(path.read_bytes()[:300] if contents == "half" else contents)
    with pytest.raises(
        UnsupportedState, match=r"x.parquet cannot be read as a results file: it is"
    ):
        Results.load(path)


def rewrite(path: Path, change: Any, metadata: dict[str, str] | None = None) -> None:
    kept = metadata or {
        key: text for key, text in pl.read_parquet_metadata(path).items() if "slotwise" in key
    }
    change(pl.read_parquet(path)).write_parquet(path, metadata=kept)


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(UnsupportedState, match="is not a results file of slotwise"):
        Results.load(tmp_path / "x.parquet")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    small().save(path)
    newer = str(results_file.FORMAT + 1)
    settings = {results_file.FORMAT_KEY: newer, results_file.CONFIG_KEY: json.dumps(CONFIG)}
    rewrite(path, lambda table: table, settings)
    message = f"has results format {newer}, but this slotwise reads up"
    with pytest.raises(UnsupportedState, match=message):
        Results.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop("run"), "it has no column 'run'"),
        (lambda table: table.slice(0, 3), "rows of 'b' are missing or repeated"),
        (lambda table: table.slice(0, 0), "it has no rows"),
        (lambda table: pl.concat([table, table.slice(3, 1)]), "rows of 'b' are missing"),
        (lambda table: table.drop("clicks"), "the same quantities for every policy"),
    ],
)
def test_missing_columns_and_rows_are_named(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "x.parquet"
    small().save(path)
    rewrite(path, change)
    with pytest.raises(UnsupportedState, match=message):
        Results.load(path)


def test_settings_that_are_not_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    small().save(path)
    rewrite(path, lambda table: table, {results_file.FORMAT_KEY: "1", results_file.CONFIG_KEY: "{"})
    with pytest.raises(UnsupportedState, match="its settings are not JSON"):
        Results.load(path)


def test_rows_in_another_order_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    results = make_results(("lexp", "oracle"), n_runs=3)
    results.save(path)
    rewrite(path, lambda table: table.sort("run", "round", descending=True, maintain_order=True))
    assert_same(results, Results.load(path))


def test_without_polars_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    message = r"needs the package polars, .* pip install 'slotwise\[experiments\]'"
    with pytest.raises(SlotwiseError, match=message):
        small().save(tmp_path / "x.parquet")
    with pytest.raises(SlotwiseError, match=message):
        Results.load(GOLDEN)


def test_every_format_up_to_this_one_has_a_file_in_the_tests() -> None:
    kept = sorted(path.name for path in GOLDEN.parent.glob("results-v*.parquet"))
    assert kept == [f"results-v{version}.parquet" for version in range(1, results_file.FORMAT + 1)]


def test_a_file_of_the_first_format_is_still_read() -> None:
    results = Results.load(GOLDEN)
    assert results.labels == ("con-ucb", "größe", "oracle")
    assert results.config["dataset"]["name"] == "coupon-like"
    assert results.rounds.tolist() == [1, 34, 67, 100]
    np.testing.assert_allclose(
        results.final("con-ucb", "violation"), [200.11296649, 198.79797948], rtol=1e-10
    )


def test_another_file_is_no_results_file(tmp_path: Path) -> None:
    (tmp_path / "ten.py").write_text("x = 1")
    with pytest.raises(UnsupportedState, match=r"; name a file that `slotwise simulate` wrote, or"):
        Results.load(tmp_path / "ten.py")
