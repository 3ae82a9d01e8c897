"""The conclusion follows the findings: ranges of γ, and the sentence about the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slotwise.figures.claims import Verdict
from slotwise.figures.conclusion import common_range, conclude, headline, judge, range_phrase
from slotwise.figures.report_contents import stated_claims, unstated_claims
from slotwise.figures.setting import Setting
from slotwise.figures.sweep_figure import draw_sweep
from slotwise.simulation.results import Results
from tests.figures.test_claims import AS_CLAIMED, ROUNDS, made

BAD = (0.1, 5.0)
"""Reward and violation of a Con-UCB for which nothing holds."""
GOOD = AS_CLAIMED["con-ucb"]
OTHERS = {name: rates for name, rates in AS_CLAIMED.items() if name != "con-ucb"}
COUPONS = {"name": "coupon-like", "original": "coupon-purchase", "look_alike": True}
ADS = {"name": "ads", "title": "Ad-Clicks", "original": "ad-clicks", "look_alike": False}


def swept(
    scales: Mapping[int, tuple[float, float]],
    dataset: Mapping[str, Any] = COUPONS,
    click_floor: float = 4.0,
    n_runs: int = 10,
) -> Results:
    """Return results of Con-UCB at γ divided by each scale, next to the paper's others."""
    labels = {("con-ucb" if scale == 1 else f"con-ucb/{scale}"): of for scale, of in scales.items()}
    results = made({**labels, **OTHERS}, n_runs=n_runs)
    config = {**results.config, "dataset": dict(dataset), "click_floor": click_floor}
    return Results(config, results.rounds, results.totals)


def test_the_first_sentence_names_the_range_and_what_the_printed_width_does() -> None:
    results = swept({1: BAD, 72: BAD, 720: GOOD, 1440: GOOD, 7200: GOOD})
    assert headline(judge([results])) == (
        "All of the paper's statements hold on coupon-like (h = 4) with γ/720 to γ/7200; with the "
        "printed γ they hold together on none: the bound of a link then stays at 1 for its first "
        "3.33k page views, and a link has 2.77k on average."
    )


def test_the_range_is_the_one_of_all_data_sets() -> None:
    coupons = swept({1: BAD, 72: BAD, 720: GOOD, 1440: GOOD})
    ads = swept({1: GOOD, 72: GOOD, 720: GOOD, 1440: BAD}, ADS, click_floor=10.0)
    judged = judge([coupons, ads])
    assert common_range(judged) == (1 / 720,)
    said = headline(judged)
    assert said.startswith("All of the paper's statements hold on all 2 data sets with γ/720; with")
    assert "they hold together only on ads (h = 10)" in said


def test_what_contradicts_the_paper_is_said() -> None:
    coupons = swept({1: BAD, 72: GOOD})
    ads = swept({1: BAD, 72: BAD}, ADS, click_floor=10.0)
    first, *rest = conclude(judge([coupons, ads]), [Setting.of(coupons), Setting.of(ads)])
    assert first.startswith(
        "With no γ that was tried do all of the paper's statements hold on all 2 data sets"
    )
    assert rest[0] == (
        "coupon-like (h = 4): the 6 statements of the paper hold together with γ/72."
    )
    assert rest[1].startswith(
        "ads (h = 10): the 4 statements of the paper hold together with no γ that was tried. "
        "With every γ that was tried fail: regret below LExp's; reward above LExp's; "
    )


def test_where_the_printed_width_works_nothing_is_explained() -> None:
    said = headline(judge([swept({1: GOOD, 72: GOOD})]))
    assert said == (
        "All of the paper's statements hold on coupon-like (h = 4) with every γ that was tried."
    )


def test_a_quick_look_is_undecided() -> None:
    long = swept({1: BAD, 72: GOOD})
    quick = Results(long.config, ROUNDS // 25, long.totals)
    said = headline(judge([quick]))
    assert said == "Whether the paper's statements hold on coupon-like (h = 4) is undecided."


def test_other_data_are_not_the_papers() -> None:
    mine = {"name": "mine", "look_alike": False}
    judged = judge([swept({1: BAD, 72: GOOD}, mine)])
    assert headline(judged) == "None of these data sets, with its floor, is one of the paper's."
    assert stated_claims(judged).rows == []
    assert len(unstated_claims(judged).rows) == 8


def test_a_floor_that_stands_for_the_papers_is_judged_as_the_papers() -> None:
    at_12 = swept({1: BAD, 72: GOOD}, ADS, click_floor=12.0)
    instead = swept({1: BAD, 72: GOOD}, {**ADS, "instead_of_floor": 10.0}, click_floor=9.0)
    plain, standing = judge([at_12, instead])
    assert plain.stated == ()
    assert len(standing.stated) == 4


def test_an_experiment_and_a_sweep_are_judged_together_by_the_one_with_more_runs() -> None:
    sweep = swept({1: BAD, 72: BAD, 720: GOOD}, n_runs=4)
    figure = swept({1: BAD, 72: GOOD}, n_runs=12)
    for order in ([sweep, figure], [figure, sweep]):
        (judged,) = judge(order)
        assert judged.scales == (1.0, 1 / 72, 1 / 720)
        assert judged.range_of(*judged.stated).scales == (1 / 72, 1 / 720)
        runs = {finding.scale: finding.setting.n_runs for finding in judged.findings}
        assert runs == {1.0: 12, 1 / 72: 12, 1 / 720: 4}


def test_every_cell_is_in_exactly_one_of_the_two_tables() -> None:
    judged = judge([swept({1: BAD, 72: GOOD}), swept({1: BAD, 72: GOOD}, ADS, click_floor=10.0)])
    stated, unstated = stated_claims(judged), unstated_claims(judged)
    *rows, together = stated.rows
    assert together.sentence == "All of these together"
    told = {row.name: row.cells for row in rows}
    for name, _, cells in unstated.rows:
        others = told.get(name, [None, None])
        assert [(one is None) != (other is None) for one, other in zip(cells, others, strict=True)]
    found = [cell and cell.verdict for cell in told["more revenue without a floor"]]
    assert found == [Verdict.HOLDS, None]


@pytest.mark.parametrize(
    ("holding", "phrase"),
    [
        ((0,), "the printed γ"),
        ((1, 3), "γ/12 and γ/144"),
        ((0, 1, 3), "the printed γ to γ/12 and γ/144"),
    ],
)
def test_ranges_have_gaps(holding: tuple[int, ...], phrase: str) -> None:
    tried = (1.0, 1 / 12, 1 / 72, 1 / 144)
    assert range_phrase([tried[place] for place in holding], tried) == phrase


def test_the_sweep_shades_the_range() -> None:
    def shaded(results: Results) -> list[tuple[float, float]]:
        axes = draw_sweep(results).axes[0]
        spans = [one for one in axes.patches if one.get_alpha() == 0.07]
        return [(one.get_x(), one.get_x() + one.get_width()) for one in spans]  # type: ignore[attr-defined]

    scales = {1: BAD, 72: BAD, 720: GOOD, 1440: GOOD, 7200: BAD}
    first, last = shaded(swept(scales))
    assert max(first) > 1 / 720 > min(first) == pytest.approx(max(last))
    assert max(last) > 1 / 1440 > min(last) > 1 / 7200
    assert shaded(swept(dict.fromkeys(scales, BAD))) == []


def test_the_conclusion_warns_of_the_data_and_the_bound() -> None:
    results = made(AS_CLAIMED)
    said = "\n".join(conclude(judge([results]), [Setting.of(results)]))
    assert "not informative at this horizon (coupon-like (h = 4): 20.8M against 750k)" in said
    assert "Look-alike data (coupon-like (h = 4)) resemble" in said
    for status, words in (("slack", "the floor is slack"), ("infeasible", "no page reaches")):
        optimum = {**results.config["optimum"], "status": status}
        changed = Results({**results.config, "optimum": optimum}, results.rounds, results.totals)
        assert words in "\n".join(conclude(judge([changed]), [Setting.of(changed)]))


def test_without_con_ucb_there_is_nothing_to_conclude() -> None:
    assert conclude([], []) == ["Con-UCB was not run, so none of the paper's claims can be judged."]
    assert judge([made({"lexp": np.array([0.8, 0.5])})]) == []  # type: ignore[dict-item]
