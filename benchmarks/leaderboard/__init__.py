"""The leaderboard: every policy on a suite of cases, ranked by a stated rule."""

from benchmarks.leaderboard.aims import REFERENCE, AimCheck, AimVerdict, check_aims
from benchmarks.leaderboard.board import (
    GAINS,
    MEASURES,
    CaseBoard,
    Leaderboard,
    Measure,
    Standing,
)
from benchmarks.leaderboard.bounds import bound_case, with_bounds
from benchmarks.leaderboard.entrants import all_entrants, pick_entrants
from benchmarks.leaderboard.ranking import ALLOWED_FACTOR, RULE, rank_case
from benchmarks.leaderboard.records import (
    RECOMMENDATION_RULE,
    Record,
    best_without_horizon,
    records,
)
from benchmarks.leaderboard.run import (
    PlannedCase,
    plan_leaderboard,
    run_leaderboard,
    shard_cases,
)
from benchmarks.leaderboard.suite import (
    QUICK_CASES,
    Case,
    Effort,
    Suite,
    build_suite,
    fresh_suite,
    pick_cases,
)
from benchmarks.leaderboard.table_file import write_table

__all__ = [
    "ALLOWED_FACTOR",
    "GAINS",
    "MEASURES",
    "QUICK_CASES",
    "RECOMMENDATION_RULE",
    "REFERENCE",
    "RULE",
    "AimCheck",
    "AimVerdict",
    "Case",
    "CaseBoard",
    "Effort",
    "Leaderboard",
    "Measure",
    "PlannedCase",
    "Record",
    "Standing",
    "Suite",
    "all_entrants",
    "best_without_horizon",
    "bound_case",
    "build_suite",
    "check_aims",
    "fresh_suite",
    "pick_cases",
    "pick_entrants",
    "plan_leaderboard",
    "rank_case",
    "records",
    "run_leaderboard",
    "shard_cases",
    "with_bounds",
    "write_table",
]
