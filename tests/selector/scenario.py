"""A day of a selector, played with and without compiled code: `python -m ... FOLDER`."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from slotwise import Selector
from slotwise.policies import POLICIES
from slotwise.selector import RevenueClipped
from tests.selector.selectors import knowledge, new_selector

N_PAGES = 25


def play_a_day(policy: str, folder: Path) -> dict[str, Any]:
    """Use everything a selector offers and return what came of it, as JSON has it."""
    selector = new_selector(policy, links=range(9), n_slots=3, click_floor=0.8, max_revenue=20.0)
    visitors = np.random.default_rng(4)
    pages = []
    for round_number in range(3 * N_PAGES):
        if round_number == N_PAGES and policy != "fixed-mix":
            selector.add_links([9, 10])
            selector.retire([2])
        if round_number == 2 * N_PAGES:
            selector.save(folder / f"{policy}.sel")
            selector = Selector.load(folder / f"{policy}.sel")
        restricted = round_number % 3 == 0
        page = selector.select(exclude=[0], pin=[4]) if restricted else selector.select()
        clicks = [link for link in page.shown if visitors.random() < 0.3]
        selector.update(page, clicks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RevenueClipped)
            selector.update(page.id, revenue={link: 25 * visitors.random() for link in clicks})
        pages.append([page.shown, sorted(page.probabilities.items())])
    if selector.policy.needs.takes_counts:
        selector.update_batch({1: 40, 3: 7}, {1: 4}, {1: 12.0})
    played = {
        "pages": pages,
        "knowledge": knowledge(selector),
        "report": dataclasses.asdict(selector.report()),
    }
    return json.loads(json.dumps(played))  # type: ignore[no-any-return]


if __name__ == "__main__":
    outcomes = {policy: play_a_day(policy, Path(sys.argv[1])) for policy in POLICIES}
    print(json.dumps(outcomes))
