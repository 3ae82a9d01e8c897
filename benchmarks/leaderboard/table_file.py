"""The leaderboard as a tidy Parquet table: one row per case and policy."""

from __future__ import annotations

from pathlib import Path

from benchmarks.leaderboard.board import GAINS, MEASURES, Leaderboard

__all__ = ["write_table"]


def write_table(board: Leaderboard, path: Path) -> None:
    """Write the table; a measure has three columns: its mean and the ends of its interval."""
    import polars as pl

    rows = []
    for case in board.cases:
        for standing in case.standings:
            row: dict[str, object] = {
                "case": case.name,
                "policy": standing.label,
                "rank": standing.rank,
                "keeps_floor": standing.keeps_floor,
                "judged_by": case.judged_by,
                "ratio": standing.ratio,
                "n_rounds": case.n_rounds,
                "n_runs": case.n_runs,
                "version": board.version,
                "seed": board.seed,
            }
            for name in (*MEASURES, *GAINS):
                measure = standing.measures.get(name)
                row[name] = None if measure is None else measure.mean
                row[f"{name}_low"] = None if measure is None else measure.low
                row[f"{name}_high"] = None if measure is None else measure.high
            rows.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
