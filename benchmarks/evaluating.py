"""Evaluating logs: how fast, and how often intervals hold what they promise.

`python -m benchmarks evaluating` measures speed; `python -m benchmarks.evaluating --logs 1000`
simulates as many logs of each kind and prints coverage, bias and widths.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Row, at_most, cpu_seconds, note
from benchmarks.simulated_logs import EXPLORE, KINDS, N_LINKS, N_SLOTS
from slotwise.evaluation import Evaluation, LinkMix, evaluate

N_PAGES, N_ON_PAGE, N_POOL = 1_000_000, 10, 50
PAGES_A_LOG = 1000


class Coverage(NamedTuple):
    """What came of many logs of one kind."""

    kind: str
    n_logs: int
    covered: float
    by_bootstrap: float
    bias: float
    """Mean error of the revenue, in standard errors of that mean."""
    width: float
    against_bootstrap: float
    against_hoeffding: float


def coverage(kind: str, n_logs: int, seed: int = 1) -> Coverage:
    """Evaluate simulated logs and count how often both intervals hold the truth."""
    held, held_too, errors, widths = [], [], [], []
    for number in range(n_logs):
        rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
        simulated = KINDS[kind](rng, PAGES_A_LOG)
        answer = evaluate(simulated.log, simulated.candidate)
        clicks, revenue = simulated.truth
        held.append(
            answer.clicks.low <= clicks <= answer.clicks.high
            and answer.revenue.low <= revenue <= answer.revenue.high
        )
        low, high = answer.bootstrap["revenue"]
        held_too.append(low <= revenue <= high)
        errors.append(answer.revenue.value - revenue)
        widths.append((answer.revenue.high - answer.revenue.low, high - low, hoeffding(answer)))
    width, bootstrap, by_hoeffding = np.mean(widths, axis=0)
    return Coverage(
        kind,
        n_logs,
        float(np.mean(held)),
        float(np.mean(held_too)),
        float(np.mean(errors) / (np.std(errors) / np.sqrt(n_logs))),
        float(width),
        float(width / bootstrap),
        float(width / by_hoeffding),
    )


def hoeffding(answer: Evaluation) -> float:
    """Return the width of Hoeffding's interval for weights up to the largest that can occur."""
    most = N_SLOTS * N_LINKS / (EXPLORE * N_SLOTS)
    alpha = (1 - answer.confidence) / 2
    return float(2 * most * np.sqrt(np.log(2 / alpha) / (2 * answer.n_pages)))


def write_large_log(path: Path, n_pages: int = N_PAGES) -> None:
    """Write a log of `n_pages` pages of ten of fifty links, a hundred thousand rows a group."""
    rng = np.random.default_rng(1)
    names = pa.array([f"link-{i}" for i in range(N_POOL)])
    step = 10_000
    writer = None
    for begin in range(0, n_pages, step):
        n_rows = step * N_ON_PAGE
        links = np.argpartition(rng.random((step, N_POOL)), N_ON_PAGE, axis=1)[:, :N_ON_PAGE]
        clicked = rng.random(n_rows) < 0.05
        numbers = np.repeat(np.arange(begin, begin + step), N_ON_PAGE)
        table = pa.table(
            {
                "page_id": pa.array([f"{number:032x}" for number in numbers.tolist()]),
                "time_us": numbers * 1000,
                "slot": np.tile(np.arange(1, N_ON_PAGE + 1), step),
                "link": pa.DictionaryArray.from_arrays(links.ravel().astype(np.int32), names).cast(
                    pa.string()
                ),
                "probability": np.full(n_rows, N_ON_PAGE / N_POOL),
                "clicked": clicked,
                "revenue": np.where(clicked, np.round(rng.random(n_rows), 2), 0.0),
                "min_probability": np.full(n_rows, N_ON_PAGE / N_POOL),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def read_once(path: Path) -> None:
    """Read every column of a file, and nothing more."""
    for _ in pq.ParquetFile(path).iter_batches(1 << 16):
        pass


MEMORY = """
import sys
from slotwise.evaluation import LinkMix, evaluate
evaluate(sys.argv[1], LinkMix.of({f"link-{i}": 1.0 for i in range(10)}))
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
"""
"""`ru_maxrss` of a started process begins at that of this one, which has written the log."""


def evaluating() -> list[Row]:
    """Measure one million page views of ten links."""
    mix = LinkMix.of({f"link-{i}": 1.0 for i in range(N_ON_PAGE)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_large_log(path)
        seconds = cpu_seconds(lambda: evaluate(path, mix), repeats=3)
        reading = cpu_seconds(lambda: read_once(path), repeats=3)
        peak = subprocess.run(
            [sys.executable, "-c", MEMORY, path], check=True, capture_output=True, text=True
        )
    what = "evaluating 1,000,000 page views of 10 links"
    return [
        at_most(what, "processor time", seconds, 3.0, "s"),
        at_most(what, "largest memory of the process", float(peak.stdout), 500.0, "MB"),
        note(what, "against one pass over the file", seconds / reading),
    ]


def as_table(rows: list[Coverage]) -> Table:
    """Return the table of coverages for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "log",
        "logs",
        "both intervals hold",
        "bootstrap holds",
        "bias / s.e.",
        "width",
        "/ bootstrap",
        "/ Hoeffding",
    ):
        table.add_column(heading, justify="left" if heading == "log" else "right")
    for row in rows:
        table.add_row(
            row.kind,
            str(row.n_logs),
            f"{row.covered:.1%}",
            f"{row.by_bootstrap:.1%}",
            f"{row.bias:+.1f}",
            f"{row.width:.4f}",
            f"{row.against_bootstrap:.2f}",
            f"{row.against_hoeffding:.3f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluating", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--logs", type=int, default=1000, help="how many of each kind")
    asked = parser.parse_args()
    rows = []
    for kind in asked.kinds or KINDS:
        rows.append(coverage(kind, asked.logs))
        print(rows[-1], flush=True)
    Console().print(as_table(rows))


if __name__ == "__main__":
    main()
