"""Verdicts follow the data: make the data say one thing and the verdict must say it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from slotwise.figures.claims import (
    CLAIMS,
    Verdict,
    findings_of,
    judge_below,
    judge_sub_linear,
    scale_phrase,
)
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results
from tests.simulation.synthetic import BEHAVIOURS, make_results, settings

PAPER = ("con-ucb", "lexp", "cucb", "exp3-m")
ROUNDS = np.arange(500, 50_001, 500)

# Reward and violation a round. The paper's story; regret is 1.1 less the reward.
AS_CLAIMED = {"con-ucb": (1.0, 0.1), "lexp": (0.8, 0.5), "cucb": (1.2, 0.9), "exp3-m": (1.15, 0.8)}


def made(
    rates: Mapping[str, tuple[float, float]],
    *,
    noise: float = 1.0,
    n_runs: int = 10,
    power: float = 0.5,
) -> Results:
    """Return results whose finals are these rates; Con-UCB's losses grow like t to `power`."""
    rng = np.random.default_rng(17)
    labels = tuple(rates)
    totals = {}
    for label, (reward, violation) in rates.items():
        passed = np.broadcast_to(ROUNDS.astype(float), (n_runs, len(ROUNDS)))
        growth = ROUNDS[-1] * (ROUNDS / ROUNDS[-1]) ** (power if "con-ucb" in label else 1.0)
        wobble = noise * rng.normal(size=(n_runs, 1))
        totals[label] = {
            "reward": 1.1 * passed - (1.1 - reward) * growth + wobble,
            "clicks": 4.0 * passed - violation * growth + wobble,
            "violation": violation * growth + abs(wobble),
            "deficit": violation * growth + abs(wobble),
        }
    return Results(settings(labels, 50_000, n_runs, 17), ROUNDS, totals)


def verdicts(results: Results, label: str = "con-ucb") -> dict[str, str]:
    return {
        finding.claim.name: finding.verdict.value
        for finding in findings_of(results)
        if finding.label == label
    }


def test_data_as_the_paper_tells_them_confirm_every_claim() -> None:
    assert verdicts(made(AS_CLAIMED)) == {claim.name: "holds" for claim in CLAIMS}


@pytest.mark.parametrize(
    ("claim", "label", "rates"),
    [
        ("regret below LExp's", "lexp", (1.05, 0.5)),
        ("reward above LExp's", "lexp", (1.05, 0.5)),
        ("lowest violation", "exp3-m", (1.15, 0.05)),
        ("largest ratio", "cucb", (1.2, 0.02)),
        ("more revenue without a floor", "cucb", (0.9, 0.9)),
        ("more revenue without a floor", "lexp", (1.3, 0.5)),
        ("huge violations without a floor", "exp3-m", (1.15, 0.19)),
    ],
)
def test_each_claim_can_fail(claim: str, label: str, rates: tuple[float, float]) -> None:
    assert verdicts(made({**AS_CLAIMED, label: rates}))[claim] == "does not hold"


@pytest.mark.parametrize(("power", "verdict"), [(0.5, "holds"), (1.0, "does not hold")])
def test_growth_is_told_from_linear_growth(power: float, verdict: str) -> None:
    said = verdicts(made(AS_CLAIMED, power=power))
    for metric in ("regret", "shortfall"):
        assert said[f"sub-linear {metric}"] == verdict


def test_almost_linear_growth_is_not_praised() -> None:
    judgement = judge_sub_linear(made(AS_CLAIMED, power=0.98), "con-ucb", "regret")
    assert judgement.verdict is Verdict.FAILS
    assert judgement.evidence.startswith(
        "grows like t^0.98 (0.98 to 0.98); twice the rounds give 1.97"
    )


def test_noise_larger_than_the_difference_leaves_a_claim_open() -> None:
    equal = {**AS_CLAIMED, "lexp": (0.99, 0.5)}
    assert verdicts(made(equal, noise=1e5))["regret below LExp's"] == "undecided"


def test_equal_numbers_are_not_lower() -> None:
    results = made({"con-ucb": (1.0, 0.1), "lexp": (1.0, 0.1)}, noise=0.0, power=1.0)
    assert judge_below(results, "regret", "con-ucb", "lexp") is Verdict.FAILS


def test_runs_are_compared_in_pairs() -> None:
    """Shared luck of 1,000 cannot hide a difference of 10 in every run."""
    rng = np.random.default_rng(5)
    luck = 1_000 * rng.normal(size=(8, 1))
    ends = {"con-ucb": 5_010.0 + luck, "lexp": 5_000.0 + luck}
    totals = {
        label: {name: end.copy() for name in ("reward", "clicks", "violation", "deficit")}
        for label, end in ends.items()
    }
    config = settings(("con-ucb", "lexp"), 50_000, 8, 5)
    results = Results(config, np.array([50_000]), totals)
    assert judge_below(results, "regret", "con-ucb", "lexp") is Verdict.HOLDS
    assert judge_below(results, "regret", "lexp", "con-ucb") is Verdict.FAILS


def test_a_ratio_without_violation_beats_every_finite_one() -> None:
    results = made({**AS_CLAIMED, "con-ucb": (1.0, 0.0)}, noise=0.0)
    assert verdicts(results)["largest ratio"] == "holds"


def test_one_run_tells_nothing() -> None:
    findings = findings_of(made(AS_CLAIMED, n_runs=1))
    assert {finding.verdict for finding in findings} == {Verdict.UNKNOWN}
    assert all("one run has no interval" in finding.judgement.evidence for finding in findings)


def test_a_policy_that_was_not_run_leaves_its_claims_open() -> None:
    results = made({label: AS_CLAIMED[label] for label in ("con-ucb", "cucb")})
    said = {finding.claim.name: finding.judgement for finding in findings_of(results)}
    assert said["regret below LExp's"].verdict is Verdict.UNKNOWN
    assert said["regret below LExp's"].evidence.endswith("against LExp was not run")


def test_a_missing_policy_does_not_hide_a_failure() -> None:
    results = made({"con-ucb": (1.0, 0.5), "cucb": (1.2, 0.1)})
    assert verdicts(results)["lowest violation"] == "does not hold"


def test_too_few_checkpoints_leave_growth_open() -> None:
    results = make_results(("con-ucb",), n_runs=4, n_checkpoints=3)
    judgement = judge_sub_linear(results, "con-ucb", "regret")
    assert judgement == (Verdict.UNKNOWN, "too few checkpoints in the second half of the rounds")


def test_the_printed_gamma_comes_first_and_each_scale_is_judged() -> None:
    results = made({"con-ucb/72": (1.0, 0.1), **AS_CLAIMED, "con-ucb/1440": (0.2, 2.0)})
    assert list(dict.fromkeys(finding.label for finding in findings_of(results))) == [
        "con-ucb",
        "con-ucb/72",
        "con-ucb/1440",
    ]
    assert verdicts(results, "con-ucb/72")["lowest violation"] == "holds"
    assert verdicts(results, "con-ucb/1440")["lowest violation"] == "does not hold"


def test_scales_are_spoken_of_as_shares() -> None:
    phrases = [scale_phrase(scale) for scale in (1.0, 1 / 1440, 2.0, 0.3)]
    assert phrases == ["the printed γ", "γ/1440", "2 γ", "0.3 γ"]


def test_the_paper_states_all_about_coupons_and_the_orderings_about_the_others() -> None:
    base = made(AS_CLAIMED)
    stated = {}
    for original, floor in (
        ("coupon-purchase", 4.0),
        ("ad-clicks", 10.0),
        ("edx-course", 10.0),
        ("ad-clicks", 12.0),
        ("mine", 4.0),
    ):
        dataset = {**base.config["dataset"], "original": original}
        config = {**base.config, "dataset": dataset, "click_floor": floor}
        setting = Setting.of(Results(config, base.rounds, base.totals))
        stated[original, floor] = [claim.name for claim in CLAIMS if claim.is_stated(setting)]
    orderings = [
        "regret below LExp's",
        "reward above LExp's",
        "lowest violation",
        "largest ratio",
    ]
    assert stated["ad-clicks", 10.0] == stated["edx-course", 10.0] == orderings
    assert stated["coupon-purchase", 4.0] == [
        *orderings,
        "more revenue without a floor",
        "huge violations without a floor",
    ]
    assert stated["ad-clicks", 12.0] == stated["mine", 4.0] == []


def test_no_claim_is_about_the_growth_of_the_violation() -> None:
    """The violation of even the best mix grows linearly; the theorem bounds the shortfall."""
    grows = [claim.name for claim in CLAIMS if "sub-linear" in claim.name]
    assert grows == ["sub-linear regret", "sub-linear shortfall"]


def test_a_policy_that_is_not_in_the_paper_changes_no_verdict() -> None:
    alone, beside = (
        [(found.claim.name, found.label, found.judgement) for found in findings_of(results)]
        for results in (
            make_results(n_runs=6),
            make_results((*BEHAVIOURS, "paced-bayes"), n_runs=6),
        )
    )
    assert alone == beside
