"""Trials of open views in other policies: `python -m benchmarks.late_trials [--seed 30]`.

`queue-ts` with the clicks that open pages are expected to bring in its queue (rule 2 of decision
0028), and `con-ucb` with open views in the widths of its bounds (rule 1). The table has regret plus
priced shortfall without and with the rule. Decision 0040 has the result.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.late import played, pools
from slotwise.compile import hot
from slotwise.policies import ConUCB, QueueTS
from slotwise.policies.con_ucb import learn as learn_con_ucb
from slotwise.policies.evidence import count_open
from slotwise.policies.policy import Floats, Links, Visitor
from slotwise.policies.queue_ts import choose as choose_queue_ts
from slotwise.selection.floor_program import set_clicks, set_value

DELAYS = (200, 1_000)


@hot
def note_queue(state: Any, level: int, links: Links, n_views: float) -> None:
    count_open(state.evidence, level, links, n_views)


@hot
def choose_with_queue(state: Any, visitor: Visitor, rng: np.random.Generator) -> None:
    evidence, queues = state.evidence, state.queues
    before = queues.owed  # this policy does not use it
    for floor in range(len(before)):
        before[floor] = queues.lengths[floor]
        level = queues.levels[floor]
        expected = 0.0
        for link in range(len(evidence.open_views[level])):
            if evidence.open_views[level, link] > 0.0:
                rate = (evidence.sums[level, link] + 0.1) / (evidence.views[level, link] + 1.0)
                expected += evidence.open_views[level, link] * rate
        debt = queues.least[floor] * evidence.open_pages[level] - expected
        queues.lengths[floor] = max(0.0, before[floor] + debt)
    choose_queue_ts(state, visitor, rng)
    for floor in range(len(before)):
        queues.lengths[floor] = before[floor]


@dataclass(frozen=True)
class QueueTSWithOpen(QueueTS):
    note_open: ClassVar[Any] = staticmethod(note_queue)
    choose: ClassVar[Any] = staticmethod(choose_with_queue)


@hot
def set_bounds(state: Any, level: int, links: Links) -> None:
    """Set bounds with the mean of settled views and the width of settled and open ones."""
    for k in range(len(links)):
        link = links[k]
        n_views = state.counts.views[level, link]
        mean = state.counts.sums[level, link] / (n_views + 1.0)
        width = state.gamma / (n_views + state.gathered[2 + level, link] + 1.0)
        bound = min(1.0, mean + 2.0 * math.sqrt(width * mean) + 2.0 * width)
        if level == 0:
            set_clicks(state.program, link, bound)
        else:
            set_value(state.program, link, bound)


@hot
def note_bounds(state: Any, level: int, links: Links, n_views: float) -> None:
    for k in range(len(links)):
        state.gathered[2 + level, links[k]] += n_views
    set_bounds(state, level, links)


@hot
def learn_bounds(
    state: Any,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    learn_con_ucb(state, visitor, level, links, slots, probabilities, views, outcomes)
    set_bounds(state, level, links)


@dataclass(frozen=True)
class ConUCBWithOpen(ConUCB):
    note_open: ClassVar[Any] = staticmethod(note_bounds)
    learn: ClassVar[Any] = staticmethod(learn_bounds)

    def start(self, problem: Any) -> Any:
        state = super().start(problem)
        return state._replace(gathered=np.zeros((4, state.gathered.shape[1])))


def main() -> None:
    """Play every pool at every delay."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--runs", type=int, default=4)
    asked.add_argument("--rounds", type=int, default=20_000)
    asked.add_argument("--seed", type=int, default=30)
    options = asked.parse_args()
    settings: dict[str, Any] = {"horizon": options.rounds}
    narrow = {**settings, "gamma_scale": 1 / 1440}
    pairs = (
        ("queue-ts", QueueTS(**settings), QueueTSWithOpen(**settings)),
        ("con-ucb", ConUCB(**narrow), ConUCBWithOpen(**narrow)),
    )
    for name, without, with_open in pairs:
        for delay in DELAYS:
            ratios = []
            for pool in pools(options.seed):
                effort = (pool, delay, options.rounds, options.runs)
                before, short_before, _ = played(without, *effort)
                after, short, _ = played(with_open, *effort)
                ratios.append(after / before)
                print(
                    f"{name} {delay} {pool.name}: {before:,.0f} ({short_before:,.0f} short), "
                    f"with {after:,.0f} ({short:,.0f}): {ratios[-1]:.2f}",
                    flush=True,
                )
            logs = np.log(ratios)
            error = 2.0 * logs.std(ddof=1) / math.sqrt(len(logs))
            print(f"{name}, delay {delay}: {math.exp(logs.mean()):.3f} ± {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
