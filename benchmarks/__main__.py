"""Run the benchmarks: `python -m benchmarks [NAME ...] [--json FILE] [--markdown FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import numba
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.clustering import clustering
from benchmarks.deciding_for_visitors import deciding_for_visitors
from benchmarks.embedding import alternatives, first_pages, imports, large_pool_pages, page_views
from benchmarks.evaluating import evaluating
from benchmarks.measuring import Row
from benchmarks.reproducing import reproducing
from benchmarks.rounds import ad_clicks_rounds, growth, rounds, threads
from benchmarks.solving import solving
from benchmarks.switching import switching
from slotwise.version import __version__

BENCHMARKS: Mapping[str, Callable[[], list[Row]]] = {
    "solving": solving,
    "page-views": page_views,
    "large-pools": large_pool_pages,
    "visitors": deciding_for_visitors,
    "imports": imports,
    "first-pages": first_pages,
    "switching": switching,
    "rounds": rounds,
    "threads": threads,
    "growth": growth,
    "alternatives": alternatives,
    "reproducing": reproducing,
    "evaluating": evaluating,
    "clustering": clustering,
}
HEADINGS = ("what", "measured", "target", "reached", "")
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def main() -> None:
    """Measure what is asked for, print a table and write it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, default=Path(".cache/benchmarks.json"))
    parser.add_argument(
        "--markdown", type=Path, help=f"write the table between {START} and {END} of this file"
    )
    parser.add_argument(
        "--ad-clicks", type=Path, metavar="FOLDER", help="measure rounds on Ad-Clicks as well"
    )
    asked = parser.parse_args()
    # Interpreted code would be measured otherwise, until the compiler is ready.
    os.environ.setdefault("SLOTWISE_COMPILE", "first")
    for name in asked.names:
        if name not in BENCHMARKS:
            parser.error(f"`NAME` must be one of {', '.join(BENCHMARKS)}, got {name!r}")
    start = time.perf_counter()
    rows = []
    for name in asked.names or BENCHMARKS:
        print(f"measuring {name} ...", flush=True)
        rows += BENCHMARKS[name]()
        if name == "rounds" and asked.ad_clicks is not None:
            rows += ad_clicks_rounds(asked.ad_clicks)
    seconds = time.perf_counter() - start
    Console().print(as_table(rows))
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(as_record(rows, seconds), indent=1) + "\n")
    print(f"{machine()}; took {seconds:.0f} s; written to {asked.json}")
    if asked.markdown is not None:
        write_markdown(asked.markdown, rows)


def machine() -> str:
    """Say what the numbers were measured on."""
    return (
        f"slotwise {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"numba {numba.__version__}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def as_record(rows: list[Row], seconds: float) -> dict[str, object]:
    """Return what the JSON file holds."""
    return {
        "machine": machine(),
        "seconds": seconds,
        "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
    }


def as_table(rows: list[Row]) -> Table:
    """Return the table for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading)
    for row in rows:
        colour = {"met": "green", "missed": "red"}.get(row.verdict, "white")
        verdict = f"[{colour}]{row.verdict}[/]"
        table.add_row(row.name, row.measured, row.target, row.reading, verdict)
    return table


def write_markdown(path: Path, rows: list[Row]) -> None:
    """Put the table into a page, between its two marks; targets are for those who develop it."""
    lines = [f"Measured with {machine()}.", "", "| what | measured | result |"]
    lines.append("| --- | --- | --- |")
    lines += [f"| {row.name} | {row.measured} | {row.reading} |" for row in rows]
    text = path.read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    path.write_text("\n".join([before + START, "", *lines, "", END + after]))


if __name__ == "__main__":
    main()
