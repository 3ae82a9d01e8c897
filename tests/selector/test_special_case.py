"""No features and equal slots are the paper's problem: pages are what they were without either."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import Selector, make_policy
from slotwise.policies import POLICIES, policy_class
from tests.plug_in import install_plug_in

KEPT = Path(__file__).parent.parent / "golden" / "pages-of-equal-visitors.json"
"""Pages of a selector without features or slot weights, each as the numbers of links.

They were those of the last version that knew neither, until a faster search met links in another
order, so that the same seed draws other links; they are pinned again since. Paced
Bayes are not among them: their rules changed later, for other reasons. `make golden` writes them.
"""
PAGES: dict[str, str] = json.loads(KEPT.read_text())
LINKS = [f"link {k}" for k in range(9)]
NEITHER: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "no features": {"features": {}},
    "no order": {"slot_weights": ()},
    "both": {"features": None, "slot_weights": ()},
}


def pages(name: str, **neither: Any) -> str:
    """Play 120 pages with seeded clicks."""
    fields = {field.name for field in dataclasses.fields(policy_class(name))}  # type: ignore[arg-type]
    wanted = {"horizon": 1000, "gamma_scale": 0.01, "probabilities": [3 / 9] * 9}
    policy = make_policy(name, {key: wanted[key] for key in wanted if key in fields})
    chosen = {"slot_weights": (), **neither}  # pages were pinned before slots were learned
    selector = Selector(LINKS, 3, policy=policy, click_floor=0.8, seed=7, **chosen)
    rng = np.random.default_rng(5)
    shown = []
    for _ in range(120):
        page = selector.select()
        places = [LINKS.index(str(link)) for link in page.shown]
        clicks = [LINKS[place] for place in places if rng.random() < 0.05 + 0.05 * place]
        selector.update(page, clicks, {link: 0.5 * rng.random() for link in clicks})
        shown.append("".join(map(str, places)))
    return " ".join(shown)


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_those_that_were_pinned(name: str) -> None:
    assert pages(name) == PAGES[name]


@pytest.mark.parametrize("said", [key for key in NEITHER if key != "nothing said"])
@pytest.mark.parametrize("name", POLICIES)
def test_saying_that_nothing_differs_changes_nothing(name: str, said: str) -> None:
    assert pages(name, **NEITHER[said]) == pages(name)


def test_every_policy_is_kept_but_those_whose_rules_changed() -> None:
    assert set(POLICIES) - set(PAGES) == {"paced-bayes"}


def test_the_file_of_pages_is_written_as_it_is() -> None:
    """By a program of its own, as `make golden` does it."""
    command = [sys.executable, "-m", "tests.selector.test_special_case"]
    done = subprocess.run(command, cwd=KEPT.parents[2], check=True, capture_output=True)
    assert done.stdout == KEPT.read_bytes()


if __name__ == "__main__":
    install_plug_in()
    print(json.dumps({name: pages(name) for name in PAGES}, indent=1))
