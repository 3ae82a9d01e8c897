"""Measure the service: `make bench-service`. Prints a table, then the same as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.service.measures import (
    Measure,
    decide_against_constant,
    decide_beside_others,
    decide_tail,
    decide_while_folding,
    decide_while_republishing,
    decide_with_rules,
    events_against_single_commits,
    healthz_while_pipelining,
    running_target,
    start_to_ready,
)
from slotwise.policies import default_policy


def measure(folder: Path, policy: str, n_decisions: int, only: str) -> list[Measure]:
    measures = []
    if only not in ("start", "others"):
        with running_target(folder) as target:
            target.make_pool("100-links", 100, policy)
            if only in ("", "decide"):
                measures.append(decide_against_constant(target, "100-links", 0.6))
                measures.append(decide_tail(target, "100-links"))
            if only in ("", "rules"):
                measures.append(decide_with_rules(target, "100-links", 20))
            if only in ("", "folding"):
                measures.append(decide_while_folding(target, policy))
            if only in ("", "pipelining"):
                measures.append(healthz_while_pipelining(target))
            if only in ("", "large"):
                target.make_pool("10000-links", 10_000, policy)
                measures.append(decide_against_constant(target, "10000-links", 0.4))
                measures.append(decide_while_republishing(target, "10000-links"))
            if only in ("", "events"):
                measures.append(events_against_single_commits(target, "100-links", folder))
    if only in ("", "others"):
        measures.append(decide_beside_others(folder, policy))
    if only in ("", "start"):
        measures.append(start_to_ready(folder, n_decisions))
    return measures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default=default_policy().name)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument(
        "--only",
        default="",
        choices=["decide", "rules", "folding", "pipelining", "large", "events", "others", "start"],
    )
    parser.add_argument("--folder", type=Path, default=None, help="disk to measure on")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-", dir=arguments.folder) as folder:
        measures = measure(Path(folder), arguments.policy, arguments.decisions, arguments.only)
    print(f"{'measure':<28} {'value':>9} {'target':>9}  reached  both sides")
    for one in measures:
        sides = ", ".join(f"{name} {value:,.4g}" for name, value in one.sides.items())
        sign = ">=" if one.at_least else "<="
        reached = "yes" if one.reached else "NO"
        print(f"{one.name:<28} {one.value:>9.3f} {sign:>4} {one.target:>4g}  {reached:<7}  {sides}")
    print(json.dumps([asdict(one) | {"reached": one.reached} for one in measures]))
    return 0 if all(one.reached for one in measures) else 1


if __name__ == "__main__":
    sys.exit(main())
