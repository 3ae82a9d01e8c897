"""Selectors to test, and everything there is to know about one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from slotwise import Policy, Selector, make_policy
from slotwise.policies import POLICIES, policy_class

LINKS = ("spring-sale", "new-in", "gift-cards", "outlet", "blog")
N_SLOTS = 2

KINDS = ("paced-bayes", "cucb", "exp3-m", "queue-ts")
"""The default, and policies that count, that need whole pages and that sample: what a selector
treats differently. The contract plays all policies."""
COUNTING = [name for name, kind in POLICIES.items() if kind.needs.takes_counts]
STEADY = [name for name, kind in POLICIES.items() if not kind.samples]
"""Policies whose chances follow from what they know; the others draw them anew for each page."""
NEEDING_PAGES = [name for name, kind in POLICIES.items() if not kind.needs.takes_counts]


def registered_policy(name: str, n_links: int = len(LINKS), n_slots: int = N_SLOTS) -> Policy:
    """Return a policy of the registry with settings that suit a short test."""
    fields = {field.name for field in dataclasses.fields(policy_class(name))}  # type: ignore[arg-type]
    wanted = {
        "horizon": 1000,
        "gamma_scale": 0.01,
        "probabilities": [n_slots / n_links] * n_links,
    }
    return make_policy(name, {key: value for key, value in wanted.items() if key in fields})


def new_selector(policy: str | Policy = "con-ucb", **settings: Any) -> Selector:
    """Return a small seeded selector; settings replace those of the README's first program."""
    chosen = {"links": LINKS, "n_slots": N_SLOTS, "click_floor": 0.3, "seed": 7, **settings}
    if isinstance(policy, str):
        policy = registered_policy(policy, len(chosen["links"]), chosen["n_slots"])
    return Selector(policy=policy, **chosen)


def play(selector: Selector, n_pages: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Show pages, settle them with seeded clicks and money, and return what was shown."""
    visitors = np.random.default_rng(seed)
    pages = []
    for _ in range(n_pages):
        page = selector.select()
        clicks = [link for link in page.shown if visitors.random() < 0.3]
        selector.update(page, clicks, {link: 0.5 * visitors.random() for link in clicks})
        pages.append(page.shown)
    return pages


def knowledge(selector: Selector) -> dict[str, Any]:
    """Return what the policy has learned, as plain lists."""
    return {name: array.tolist() for name, array in selector.knowledge().arrays.items()}


def everything(selector: Selector) -> dict[str, Any]:
    """Return all that can change in a selector, to compare before and after."""
    pages = selector._pages
    return {
        "links": selector.links,
        "problem": selector.problem,
        "knowledge": knowledge(selector),
        "report": selector.report(),
        "counts": [array.tolist() for array in selector.knowledge().counts],
        "rng": selector._rng.bit_generator.state,
        "open pages": [dataclasses.astuple(page) for page in pages],
        "issued": (pages.n_issued, pages.n_forgotten, pages.issued),
    }
