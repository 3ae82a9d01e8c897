"""The aims of the default policy, judged from a leaderboard alone."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from benchmarks.leaderboard.board import CaseBoard, Leaderboard, Standing
from benchmarks.leaderboard.ranking import ALLOWED_FACTOR

__all__ = ["REFERENCE", "AimCheck", "AimVerdict", "check_aims"]

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
    _Aim("coupon-like", 50_000, max_regret=2_100, max_shortfall=50),
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
