"""The figures: drawn from any results file, the same bytes every time, saying what they must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from slotwise.errors import InvalidInput
from slotwise.figures import draw_experiment, draw_results, draw_sweep, is_sweep, save_figure
from slotwise.figures.chosen_panels import draw_panels
from slotwise.figures.panels import PANELS
from slotwise.simulation import experiment_path, load_experiment, run_experiment
from slotwise.simulation.experiment import current_commit
from slotwise.simulation.results import Results
from tests.simulation.synthetic import BEHAVIOURS, make_results, make_sweep

ODD_LABELS = ("oracle", "größe/½", "$x_1$ <b>&\"'", "a very long label that no figure has room for")
INFEASIBLE = {
    "value": 0.5,
    "clicks": 3.2,
    "shadow_price": 0.0,
    "status": "infeasible",
    "attainable_clicks": 3.2,
}


def words(figure: Figure) -> str:
    texts: list[Any] = figure.findobj(Text)
    return "\n".join(text.get_text() for text in texts)


def panel(figure: Figure, metric: str) -> Any:
    return figure.axes[[one.metric for one in PANELS].index(metric)]


def labels_at_ends(axes: Any) -> set[str]:
    return {text.get_text() for text in axes.texts if text.get_position()[0] > 1}


def scaled(factor: float) -> Results:
    results = make_results(n_runs=3, n_checkpoints=20)
    totals = {
        label: {name: values * factor for name, values in quantities.items()}
        for label, quantities in results.totals.items()
    }
    return Results(results.config, results.rounds, totals)


def changed(**quantities: float) -> Results:
    results = make_results(n_runs=3, n_checkpoints=20)
    totals = {
        label: {
            name: np.full_like(values, quantities[name]) if name in quantities else values
            for name, values in of_label.items()
        }
        for label, of_label in results.totals.items()
    }
    return Results(results.config, results.rounds, totals)


@pytest.fixture(scope="module")
def usual() -> Figure:
    """The figure of two runs of the paper's policies; tests only read it."""
    figure = draw_experiment(make_results(n_runs=2))
    figure.draw_without_rendering()
    return figure


def test_the_title_is_the_experiments_and_the_foot_names_origin_and_data() -> None:
    said = words(draw_experiment(make_results(n_runs=4)))
    assert "Coupons, made up (look-alike)" in said
    assert "data: Coupon-Purchase (look-alike), drawn from a recipe" in said
    assert "271 links, 15 slots, 50k rounds, 4 runs" in said
    assert "binding at a shadow price of 0.21" in said
    assert "4 runs  ·  seed 1  ·  slotwise 0.1.0  ·  commit 0123abc" in said


def test_a_foot_without_a_commit_does_not_speak_of_one() -> None:
    said = words(draw_experiment(make_results(n_runs=4, changes={"commit": None})))
    assert "4 runs  ·  seed 1  ·  slotwise 0.1.0" in said
    assert "None" not in said


def test_without_a_title_of_its_own_an_experiment_has_the_data_sets() -> None:
    said = words(draw_experiment(make_results(n_runs=2, changes={"experiment": ""})))
    assert "Coupon-Purchase (look-alike)" in said.splitlines()


@pytest.mark.parametrize(
    ("delays", "sentence"),
    [
        ([50, 2_000], "late feedback: click by 50, revenue by 2k rounds"),
        ([0, 2_000], "late feedback: revenue by 2k rounds"),
    ],
)
def test_late_feedback_is_said_by_level(delays: list[int], sentence: str) -> None:
    assert sentence in words(draw_experiment(make_results(n_runs=2, changes={"delays": delays})))


def test_immediate_feedback_needs_no_words(usual: Figure) -> None:
    assert "late" not in words(usual)
    assert "late" not in words(draw_experiment(make_results(n_runs=2, changes={"delays": [0, 0]})))


def test_title_and_delays_of_an_experiment_file_reach_its_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside git there is no commit to name."""
    monkeypatch.setenv("PATH", "")  # no git
    current_commit.cache_clear()
    file = tmp_path / "mine.toml"
    shipped = experiment_path("late-feedback").read_text(encoding="utf-8")
    file.write_text(shipped.replace("Late feedback: Coupon-Purchase", "My own title"), "utf-8")
    small = load_experiment(file, {"n_runs": 2, "n_rounds": 20})
    try:
        results = run_experiment(small.experiment())
    finally:
        current_commit.cache_clear()
    assert results.config["commit"] is None
    said = words(draw_experiment(results))
    assert "My own title (look-alike)" in said
    assert "late feedback: click by 50, revenue by 2k rounds" in said
    assert "2 runs  ·  seed 1  ·  slotwise" in said
    assert "commit" not in said
    assert "None" not in said


def test_a_policy_beside_the_papers_is_marked_in_every_panel_and_the_table() -> None:
    results = make_results((*BEHAVIOURS, "paced-bayes"), n_runs=2)
    figure = draw_experiment(results)
    for metric in ("regret", "violation", "reward", "ratio", "shortfall"):
        ends = labels_at_ends(panel(figure, metric))
        assert "paced-bayes †" in ends
        assert [label for label in ends if "†" in label] == ["paced-bayes †"]
    assert "† not in the paper" in words(figure)
    assert "† not in the paper" in words(draw_panels(results, ["regret"]))


def test_nothing_is_marked_where_nothing_is_added_or_it_is_not_the_papers(usual: Figure) -> None:
    assert "†" not in words(usual)
    labels = ("con-ucb", "paced-bayes", "oracle")
    assert "†" not in words(draw_experiment(make_results(labels, n_runs=2)))


def test_original_data_are_not_called_a_look_alike() -> None:
    dataset = {"name": "ad-clicks", "title": "Ad-Clicks", "look_alike": False}
    said = words(draw_experiment(make_results(("lexp",), n_runs=2, changes={"dataset": dataset})))
    assert "Ad-Clicks" in said
    assert "look-alike" not in said


def test_regret_leaves_out_those_that_seek_another_optimum_and_says_so(usual: Figure) -> None:
    axes = panel(usual, "regret")
    assert labels_at_ends(axes) == {"Con-UCB", "Con-UCB γ/1440", "LExp", "oracle x*"}
    assert "without CUCB and Exp3.M, as in the paper" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("metric", ["violation", "reward", "ratio", "shortfall"])
def test_every_policy_and_the_oracle_are_in_the_other_panels(metric: str, usual: Figure) -> None:
    axes = panel(usual, metric)
    everyone = {"Con-UCB", "Con-UCB γ/1440", "LExp", "CUCB", "Exp3.M", "oracle x*"}
    assert labels_at_ends(axes) - {"optimal"} == everyone
    assert ("optimal" in labels_at_ends(axes)) == (metric == "reward")


def test_lines_and_bands_are_those_of_the_results() -> None:
    results = make_results(("lexp",), n_runs=5, n_checkpoints=30)
    axes = panel(draw_experiment(results), "violation")
    curve = results.curve("lexp", "violation")
    np.testing.assert_allclose(axes.lines[0].get_xydata()[:, 1], curve.mean)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(curve.low.min())
    assert heights.max() == pytest.approx(curve.high.max())


def test_axis_numbers_are_readable(usual: Figure) -> None:
    ticks = [tick.get_text() for tick in panel(usual, "violation").get_xticklabels()]
    assert ticks == ["0", "10k", "20k", "30k", "40k", "50k"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: make_results(("lexp",), n_runs=2), id="one policy"),
        pytest.param(lambda: make_results(("cucb", "exp3-m"), n_runs=2), id="no oracle"),
        pytest.param(lambda: make_results(("oracle",), n_runs=1), id="the oracle alone, one run"),
        pytest.param(lambda: make_results(n_rounds=1, n_runs=2), id="one round"),
        pytest.param(lambda: make_results(ODD_LABELS, n_runs=2), id="odd labels"),
        pytest.param(lambda: make_results(tuple(f"p{n}" for n in range(40)), n_runs=2), id="many"),
        pytest.param(lambda: scaled(0.0), id="all zero"),
        pytest.param(lambda: scaled(1e15), id="huge"),
        pytest.param(lambda: scaled(1e-15), id="tiny"),
        pytest.param(lambda: changed(violation=0.0), id="no violation"),
        pytest.param(lambda: changed(clicks=1e6, deficit=0.0), id="no shortfall"),
    ],
)
def test_any_results_can_be_drawn(make: Callable[[], Results], tmp_path: Path) -> None:
    (path,) = draw_results(make(), tmp_path, "figure", ["svg"])
    assert path.name == "figure.svg"
    assert path.read_text().rstrip().endswith("</svg>")


def test_both_formats_are_written_unless_told(tmp_path: Path) -> None:
    svg, png = draw_results(make_results(("lexp",), n_runs=2), tmp_path, "figure")
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_panel_says_whose_ratio_is_infinite() -> None:
    axes = panel(draw_experiment(changed(violation=0.0)), "ratio")
    assert labels_at_ends(axes) == set()
    notes = [text.get_text() for text in axes.texts]
    assert "no finite value: Con-UCB, Con-UCB γ/1440 and 4 more" in notes


def test_regret_is_against_the_most_clicked_page_when_the_floor_is_out_of_reach() -> None:
    results = make_results(n_runs=2, changes={"optimum": INFEASIBLE})
    said = words(draw_experiment(results))
    assert "infeasible: at most 3.2; compared with the most clicked page" in said
    assert "revenue missed relative to the most clicked page" in said
    assert "that keeps the floor" not in said


@pytest.mark.parametrize(
    ("draw", "make"), [(draw_experiment, lambda: make_results(("lexp",))), (draw_sweep, make_sweep)]
)
def test_the_same_results_give_the_same_bytes(
    draw: Callable[[Results], Figure], make: Callable[[], Results], tmp_path: Path
) -> None:
    first = save_figure(draw(make()), tmp_path, "first")
    second = save_figure(draw(make()), tmp_path, "second")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "<dc:date>" not in first[0].read_text()


def test_the_users_own_style_changes_nothing_and_stays(tmp_path: Path) -> None:
    results = make_results(("lexp",), n_runs=2)
    (plain,) = draw_results(results, tmp_path, "plain", ["svg"])
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "x"}):
        (styled,) = draw_results(results, tmp_path, "styled", ["svg"])
        assert mpl.rcParams["font.size"] == 30
    assert plain.read_bytes() == styled.read_bytes()


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="`format` must be one of svg, png, pdf, got 'gif'"):
        draw_results(make_results(n_runs=1), tmp_path, "figure", ["svg", "gif"])
    assert not list(tmp_path.iterdir())


def test_a_missing_setting_is_named() -> None:
    results = make_results(n_runs=1)
    config = {key: value for key, value in results.config.items() if key != "n_slots"}
    with pytest.raises(InvalidInput, match="of results with the setting 'n_slots'"):
        draw_experiment(Results(config, results.rounds, results.totals))


def test_a_sweep_is_told_from_an_experiment() -> None:
    assert is_sweep(make_sweep())
    assert not is_sweep(make_results(n_runs=1))


def test_a_sweep_runs_from_the_printed_gamma_on_the_left_to_the_smallest() -> None:
    figure = draw_sweep(make_sweep())
    figure.draw_without_rendering()
    for axes in figure.axes:
        left, right = axes.get_xlim()
        assert left > 1 > 1 / 1440 > right
        ticks = [tick.get_text() for tick in axes.get_xticklabels()]
        assert {"1", "1/72", "1/1440"} <= set(ticks)
    assert "Coupons, made up (look-alike)" in words(figure)


def test_a_sweep_shows_the_finals_and_the_others_as_level_lines() -> None:
    results = make_sweep((1, 72, 1440, 10))
    axes = draw_sweep(results).axes[1]
    points = next(line for line in axes.lines if line.get_marker() == "o")
    labels = ["con-ucb", "con-ucb/10", "con-ucb/72", "con-ucb/1440"]
    expected = [results.final(label, "violation").mean() for label in labels]
    np.testing.assert_allclose(np.asarray(points.get_ydata()), expected)
    level = results.final("cucb", "violation").mean()
    assert any(np.allclose(np.asarray(line.get_ydata()), level) for line in axes.lines)
    assert labels_at_ends(axes) == {"Con-UCB", "LExp", "CUCB", "Exp3.M", "oracle x*"}


def test_a_sweep_needs_two_scales() -> None:
    with pytest.raises(InvalidInput, match="Con-UCB with two or more values of `gamma_scale`"):
        draw_sweep(make_results(("con-ucb", "lexp"), n_runs=2))
