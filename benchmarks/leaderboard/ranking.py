"""Rank the policies of a case by a stated rule, and judge the aims of the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.leaderboard.board import (
    GAINS,
    CaseBoard,
    Leaderboard,
    Measure,
    Standing,
    rounded,
)
from slotwise import metrics
from slotwise.errors import InvalidInput
from slotwise.simulation.results import Results

Floats = NDArray[np.float64]

ORACLE = "oracle"
"""The label of the best fixed mix, which runs beside the policies and is not ranked."""

MOST_CLICKS = "most-clicks"
"""The label of a policy that only looks for clicks, played beside the others on drawn pools."""

ALLOWED_FACTOR = 1.3
"""The largest ratio of the default's priced regret to that of the best policy on a case."""

ALLOWED_SHARE = 0.001
LUCK = 0.4
"""Mean of the positive part of a standard normal: clicks vary by about sqrt(floor * rounds)."""
RESOLUTION_SHARE = 0.001
LEAST_GAIN = 1.001
"""A share of a gain is measured where the best mix earns this much more than the one without."""

RULE = (
    "A policy keeps the floor if its mean shortfall over runs is at most 0.1 % of floor times "
    "rounds, or 0.4 times the root of floor times rounds, whichever is larger. The "
    "last is luck: even the best fixed mix, which knows the rates and keeps the floor exactly on "
    "average, falls that far short by chance. Among the policies that keep the floor, the lowest "
    "priced regret is best: the regret, plus each click missing at the price of a click in the "
    "best mix, so that nobody gains by clicks not delivered. The others follow in the order of "
    "their shortfall. If no policy keeps the floor, because it is infeasible or the rounds are too "
    "few, the smallest shortfall is best, counted from the shortfall of the most clicked page. A "
    "ratio is the priced regret (or that shortfall) of a policy divided by that of the best one. A "
    "regret below the resolution of the runs counts as the resolution: half the 95 % interval of "
    "the regret of the best fixed mix, which is pure chance, or 0.1 % of its revenue if that is "
    "larger. A shortfall below the allowed one counts as the allowed one."
)
"""The rule by which the policies of a case are ordered; pages print it."""


class CaseRanking(NamedTuple):
    """The policies of a case from the best to the worst, and how they were compared."""

    judged_by: str
    allowed_shortfall: float
    oracle: dict[str, Measure]
    most_clicked: dict[str, Measure]
    standings: tuple[Standing, ...]


def rank_case(
    results: Results,
    seconds: Mapping[str, Sequence[float]],
    knows_horizon: Mapping[str, bool],
) -> CaseRanking:
    """Rank the policies of one case; `seconds` are processor seconds of every run."""
    labels = [label for label in results.labels if label not in (ORACLE, MOST_CLICKS)]
    allowed = allowed_shortfall(results)
    shortfalls = {label: results.final(label, "shortfall") for label in labels}
    is_reachable = results.config["optimum"]["status"] != "infeasible"
    keepers = {label for label in labels if is_reachable and shortfalls[label].mean() <= allowed}
    if keepers:
        judged_by, resolution = "regret", regret_resolution(results)
        price = results.config["optimum"].get("shadow_price") or 0.0
        losses = {
            label: results.final(label, "regret") + price * shortfalls[label] for label in labels
        }
    else:
        judged_by, resolution = "shortfall", allowed
        losses = {label: shortfalls[label] - unavoidable_shortfall(results) for label in labels}

    def order(label: str) -> tuple[bool, float]:
        is_last = bool(keepers) and label not in keepers
        return is_last, float((shortfalls if is_last else losses)[label].mean())

    ranked = sorted(labels, key=order)
    best = losses[ranked[0]]
    names = {one["label"]: one["name"] for one in results.config["policies"]}
    standings = tuple(
        Standing(
            label=label,
            policy=names[label],
            knows_horizon=knows_horizon[label],
            rank=place,
            keeps_floor=label in keepers,
            loss=float(losses[label].mean()),
            ratio=max(float(losses[label].mean()), resolution)
            / max(float(best.mean()), resolution),
            is_within=place == 1 or is_within(losses[label], best, resolution),
            measures=measures_of(results, label, seconds.get(label, ())),
        )
        for place, label in enumerate(ranked, start=1)
    )
    oracle, most_clicked = (
        measures_of(results, label, ()) if label in results.labels else {}
        for label in (ORACLE, MOST_CLICKS)
    )
    return CaseRanking(judged_by, allowed, oracle, most_clicked, standings)


def merge_boards(played: Leaderboard, earlier: Leaderboard) -> Leaderboard:
    """Return a board with the policies of an earlier one where they were not played again.

    A seed gives every run the same visitors, so numbers of a policy whose pages have not changed
    since hold. Cases that were not played again stay as they were; those with other rounds or runs
    are refused.
    """
    again = {case.name: case for case in played.cases}
    cases = [
        case if case.name not in again else _merged(again.pop(case.name), case)
        for case in earlier.cases
    ]
    labels = ", ".join(played.labels)
    note = f"{labels}: commit {played.commit}; what was not played again: commit {earlier.commit}"
    return replace(played, notes=(*earlier.notes, note), cases=(*cases, *again.values()))


def _merged(now: CaseBoard, before: CaseBoard) -> CaseBoard:
    for name in ("n_rounds", "n_runs", "judged_by", "click_floor"):
        own, other = getattr(now, name), getattr(before, name)
        if own != other and rounded(own) != rounded(other):
            raise InvalidInput.of(name, f"{other} on {now.name}, as it was played before", own)
    others = [one for one in before.standings if now.find(one.label) is None]
    standings, is_regret = [*now.standings, *others], now.judged_by == "regret"
    resolution = now.allowed_shortfall
    if is_regret:
        luck = now.oracle["regret"].high - now.oracle["regret"].mean if now.oracle else 0.0
        resolution = max(RESOLUTION_SHARE * now.best_revenue * now.n_rounds, luck)

    def order(one: Standing) -> tuple[bool, float]:
        is_last = is_regret and not one.keeps_floor
        return is_last, one.measures["shortfall"].mean if is_last else one.loss

    standings.sort(key=order)
    best, measure = standings[0], "regret" if is_regret else "shortfall"
    least = max(best.loss, resolution)

    def is_near(one: Standing) -> bool | None:
        """Say whether a policy is near the best; unlike within a run, both vary by themselves."""
        widths = [of.measures[measure].high - of.measures[measure].mean for of in (one, best)]
        beyond = one.loss - ALLOWED_FACTOR * least
        width = np.hypot(widths[0], ALLOWED_FACTOR * widths[1])
        return None if abs(beyond) < width else bool(beyond <= 0.0)

    ranked = tuple(
        replace(
            one,
            rank=place,
            ratio=max(one.loss, resolution) / least,
            is_within=place == 1 or is_near(one),
        )
        for place, one in enumerate(standings, start=1)
    )
    return replace(now, standings=ranked, refused={**before.refused, **now.refused})


def is_within(losses: Floats, best: Floats, resolution: float) -> bool | None:
    """Return whether losses are within the allowed factor of the best, None if undecided.

    In a run all policies meet the same visitors, so the interval is that of the difference within
    each run.

    >>> is_within(np.array([12.0, 12.1, 12.0]), np.array([10.0, 10.1, 10.1]), resolution=1.0)
    True
    >>> is_within(np.array([12.0, 15.5]), np.array([10.0, 10.1]), resolution=1.0) is None
    True
    """
    allowed = best if best.mean() > resolution else np.full(len(best), resolution)
    _, low, high = map(float, metrics.mean_interval(losses - ALLOWED_FACTOR * allowed))
    if high <= 0.0:
        return True
    if low > 0.0:
        return False
    return None


def allowed_shortfall(results: Results) -> float:
    """Return the largest shortfall at which a floor counts as kept."""
    promised = results.config["click_floor"] * results.n_rounds
    return float(max(ALLOWED_SHARE * promised, LUCK * np.sqrt(promised)))


def unavoidable_shortfall(results: Results) -> float:
    """Return the shortfall of the most clicked page."""
    missing = results.config["click_floor"] - results.config["optimum"]["attainable_clicks"]
    return float(max(0.0, missing) * results.n_rounds)


def regret_resolution(results: Results) -> float:
    """Return the regret below which differences are due to chance."""
    revenue = float(results.config["optimum"]["value"] * results.n_rounds)
    luck = 0.0
    if ORACLE in results.labels:
        interval = metrics.mean_interval(results.final(ORACLE, "regret"))
        luck = float(interval.high - interval.mean)
    return max(RESOLUTION_SHARE * revenue, luck)


def measures_of(results: Results, label: str, seconds: Sequence[float]) -> dict[str, Measure]:
    """Return mean and interval of every measure, without time if none was measured.

    Shares of a gain are among them where visitors or slots differ enough for one.
    """
    samples = {
        name: results.final(label, name) for name in ("regret", "violation", "shortfall", "deficit")
    }
    if seconds:
        samples["microseconds"] = 1e6 * np.asarray(seconds) / results.n_rounds
    best = results.config["optimum"]
    for name, without in GAINS.items():
        least = best.get(without)
        if least is not None and best["value"] > LEAST_GAIN * least:
            earned = results.final(label, "reward") / results.n_rounds
            samples[name] = (earned - least) / (best["value"] - least)
    return {
        name: Measure(*map(float, metrics.mean_interval(sample)))
        for name, sample in samples.items()
    }


REFERENCE = "queue-ts"
"""The policy that the aims are relative to: posterior sampling with a queue."""

MIN_RUNS, MIN_LONG_RUNS = 20, 5
"""The runs needed for a verdict: fewer for a million rounds, over which chance averages out."""


class AimVerdict(Enum):
    """The verdict on an aim."""

    MET = "met"
    MISSED = "missed"
    NOT_JUDGED = "not judged"


class AimCheck(NamedTuple):
    """One aim, the numbers of the reference and of the default, and the verdict."""

    case: str
    aim: str
    reference: str
    reached: str
    verdict: AimVerdict
    why: str = ""


class _Aim(NamedTuple):
    """A largest regret, absolute or relative to the best policy's, and a largest shortfall.

    Without either, the aim is to be the best policy. A `max_shortfall` of None means 0.1 % of floor
    times rounds, for a ratio what the rule of the leaderboard allows.
    """

    case: str
    n_rounds: int
    max_regret: float | None = None
    max_ratio: float | None = None
    max_shortfall: float | None = None
    min_runs: int = MIN_RUNS


AIMS = (
    _Aim("coupon-mild", 50_000, max_regret=2_100, max_shortfall=50),
    _Aim("ad-clicks-12", 50_000, max_regret=2_100, max_shortfall=50),
    _Aim("edx-9", 50_000, max_regret=850, max_shortfall=50),
    _Aim("expensive-0.6", 50_000, max_regret=4_000, max_shortfall=50),
    _Aim("few-links", 50_000, max_ratio=ALLOWED_FACTOR),
    _Aim("tiny-rates", 1_000_000, min_runs=MIN_LONG_RUNS),
)


def check_aims(board: Leaderboard) -> list[AimCheck]:
    """Judge every aim; an aim whose case has too few runs, or none, is not judged."""
    checks = [_check(aim, board) for aim in AIMS]
    return [*checks, _check_robustness(board)]


def _check(aim: _Aim, board: Leaderboard) -> AimCheck:
    case = board.find(aim.case)
    asked = _asked(aim, case)
    default = None if case is None else case.find(board.default)
    if case is None or default is None:
        return AimCheck(aim.case, asked, "", "", AimVerdict.NOT_JUDGED, "not run")
    reference = case.find(REFERENCE)
    known = (_numbers(reference) if reference else "not run", _numbers(default))
    if case.n_rounds != aim.n_rounds or case.n_runs < aim.min_runs:
        why = f"{case.n_runs} runs of {case.n_rounds:,} rounds; a verdict needs {aim.min_runs} or "
        why += f"more of {aim.n_rounds:,}"
        return AimCheck(aim.case, asked, *known, AimVerdict.NOT_JUDGED, why)
    is_met = _is_low_enough(aim, default) and (
        default.measures["shortfall"].mean <= _max_shortfall(aim, case)
    )
    verdict = AimVerdict.MET if is_met else AimVerdict.MISSED
    why = "" if default.rank == 1 else f"best is {case.standings[0].label}"
    return AimCheck(aim.case, asked, *known, verdict, why)


def _is_low_enough(aim: _Aim, default: Standing) -> bool:
    if aim.max_regret is not None:
        return default.measures["regret"].mean <= aim.max_regret
    if aim.max_ratio is not None:
        return default.ratio <= aim.max_ratio
    return default.rank == 1


def _max_shortfall(aim: _Aim, case: CaseBoard) -> float:
    if aim.max_shortfall is not None:
        return aim.max_shortfall
    return (
        0.001 * case.click_floor * aim.n_rounds if aim.max_ratio is None else case.allowed_shortfall
    )


def _asked(aim: _Aim, case: CaseBoard | None) -> str:
    if aim.max_regret is not None:
        regret = f"regret at most {aim.max_regret:,.0f}"
    elif aim.max_ratio is not None:
        regret = f"priced regret at most {aim.max_ratio:g} of the best policy's"
    else:
        regret = "the best of all policies"
    if aim.max_shortfall is None and case is None:
        return f"{regret}, shortfall at most 0.1 % of floor times rounds"
    most = aim.max_shortfall if case is None else _max_shortfall(aim, case)
    return f"{regret}, shortfall at most {most:,.0f}"


def _numbers(standing: Standing) -> str:
    measures = standing.measures
    return f"{measures['regret'].mean:,.0f} / {measures['shortfall'].mean:,.0f}"


def _check_robustness(board: Leaderboard) -> AimCheck:
    """Judge whether the default is near the best on every case and keeps every floor."""
    asked = f"at most {ALLOWED_FACTOR:g} times the best on every case, the floor kept"
    played = [(case, one) for case in board.cases if (one := case.find(board.default)) is not None]
    if not played:
        return AimCheck("all cases", asked, "", "", AimVerdict.NOT_JUDGED, "not run")
    worst_case, worst = max(played, key=lambda pair: pair[1].ratio)
    reached = f"{worst.ratio:.2f} on {worst_case.name}"
    failed = [
        case.name
        for case, one in played
        if one.ratio > ALLOWED_FACTOR or (case.judged_by == "regret" and not one.keeps_floor)
    ]
    verdict = AimVerdict.MISSED if failed else AimVerdict.MET
    why = f"missed on {', '.join(failed)}" if failed else ""
    return AimCheck("all cases", asked, "", reached, verdict, why)
