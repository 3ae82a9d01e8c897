"""`slotwise merge`: put the results files of shards together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.simulation.gathering import merge_shards

__all__ = ["register"]

HELP = """Put the results files of shards together into those of whole experiments.

The option `--shard` of `slotwise simulate` and `reproduce` writes such files. Every
run of an experiment must be in exactly one of them. The merged results file lies beside them, and
the same command without `--shard` then finds it finished.

Examples:

  slotwise merge mine.shard-*.parquet

  slotwise merge paper/results/*.shard-*.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("merge", help=HELP)
    def merge(
        files: Annotated[
            list[Path], typer.Argument(metavar="SHARDS", help="The results files of all shards.")
        ],
    ) -> None:
        for path in merge_shards(files):
            typer.echo(path)
