"""Ask a warehouse over an export, in a process of its own.

DuckDB reports objects that are alive when its process ends; the tests end with their own report.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def query(folder: Path, *questions: str) -> list[list[tuple[Any, ...]]]:
    """Create the views of an export and return the rows that each question gives."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.service.reporting.warehouse_queries"],
        input=pickle.dumps([(folder / "views.sql").read_text(), *questions]),
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr.decode()
    rows: list[list[tuple[Any, ...]]] = pickle.loads(done.stdout)
    return rows


def main() -> None:
    import duckdb

    views, *questions = pickle.load(sys.stdin.buffer)
    with duckdb.connect() as warehouse:
        warehouse.execute(views)
        rows = [warehouse.execute(question).fetchall() for question in questions]
    sys.stdout.buffer.write(pickle.dumps(rows))


if __name__ == "__main__":
    main()
