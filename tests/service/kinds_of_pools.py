"""Every kind of pool that a service can have, each with a little traffic of its own.

`train` fills one store with all of them. What was learned and what is shown can then be compared
before and after anything that must change neither. Used by `test_what_was_learned`.
Kinds of large pools are in `LARGE_KINDS`: their only difference is their size.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from slotwise.service.learning.promise_progress import evidence_of
from slotwise.service.records import (
    EQUAL_SLOTS,
    SECOND_US,
    ClickEvent,
    ConversionEvent,
    ImportedCounts,
    PoolRule,
)
from slotwise.service.refusals import UnreadableState
from slotwise.service.service import Service
from tests.service.rows import T0, link, pool

CLICK_WINDOW_S, REVENUE_WINDOW_S = 600, 1_200
N_SETTLED, N_OPEN = 60, 30
"""Page views of each pool whose windows have closed, and whose windows are open."""
TRAINED_US = T0 + 4_000 * SECOND_US
"""When the training ends."""

EIGHT_FEATURES = {f"f{k}": ["a", "b"] for k in range(8)}


class Kind(NamedTuple):
    """One pool: its settings, and how many links it has."""

    settings: dict[str, Any]
    n_links: int = 6
    rules: tuple[PoolRule, ...] = ()
    known: bool = False
    """Whether a link starts from imported counts."""
    n_settled: int = N_SETTLED

    @property
    def features(self) -> dict[str, Any]:
        features: dict[str, Any] = self.settings.get("features", {})
        return features


def _of_policy(policy: str, **settings: Any) -> Kind:
    return Kind({"policy": policy, "policy_settings": settings, "slot_weights": ()})


_RULES = (
    PoolRule(name="some", links=("l0", "l1"), at_least=0.5),
    PoolRule(name="few", links=("l2", "l3"), at_most=1.0),
)
_OWN = {"own_page": ("l1", "l0")}
KINDS = {
    "con-ucb": _of_policy("con-ucb", horizon=1000),
    "queue-ts": _of_policy("queue-ts"),
    "paced-bayes": _of_policy("paced-bayes"),
    "lexp": _of_policy("lexp", horizon=1000),
    "cucb": _of_policy("cucb"),
    "exp3-m": _of_policy("exp3-m", horizon=1000),
    "uniform": _of_policy("uniform"),
    "fixed-mix": _of_policy("fixed-mix", probabilities=[0.5, 0.5, 0.25, 0.25, 0.25, 0.25]),
    "equal-slots": Kind({"slot_weights": EQUAL_SLOTS}),
    "equal-slots-lexp": Kind(
        {"slot_weights": EQUAL_SLOTS, "policy": "lexp", "policy_settings": {"horizon": 1000}}
    ),
    "equal-slots-queue-ts": Kind({"slot_weights": EQUAL_SLOTS, "policy": "queue-ts"}),
    "equal-slots-words": Kind({"slot_weights": EQUAL_SLOTS, "features": {"device": ["a", "b"]}}),
    "given-slots": Kind({"slot_weights": (1.2, 0.8)}),
    "learned-slots": Kind({"learn_slot_weights": True}),
    "learned-slots-words": Kind({"learn_slot_weights": True, "features": {"device": ["a", "b"]}}),
    "words": Kind({"features": {"device": ["a", "b"]}}),
    "flag": Kind({"features": {"returning": "bool"}}),
    "bins": Kind({"features": {"days": [1, 7, 30]}}),
    "open-list": Kind({"features": {"country": "text"}}),
    "open-lists": Kind({"features": {"country": "text", "ref": "text"}}),
    # A view with 36 values and pairs takes 30 ms to be learned, as long as all others together.
    "eight-features": Kind({"features": EIGHT_FEATURES}, n_settled=20),
    "segment-floors": Kind(
        {"features": {"device": ["a", "b"]}, "segment_floors": {"device": {"a": 0.2}}}
    ),
    "rules": Kind({}, rules=_RULES),
    "rules-words": Kind({"features": {"device": ["a", "b"]}}, rules=_RULES),
    "holdout": Kind({"holdout": 0.3}),
    "own-page": Kind(_OWN | {"holdout": 0.3, "holdout_shows": "own"}),
    "promise": Kind(_OWN | {"keep": 0.7}),
    "promise-words": Kind(_OWN | {"keep": 0.7, "features": {"device": ["a", "b"]}}),
    "explore": Kind({"explore": 0.2}),
    "known-counts": Kind({}, known=True),
    "known-counts-words": Kind({"features": {"device": ["a", "b"]}}, known=True),
}
LARGE_KINDS = {"eight-features-many-links": Kind({"features": EIGHT_FEATURES}, n_links=460)}
"""Pairs of values of the eight features fit for 440 links, not for 452."""
_ALL_KINDS = KINDS | LARGE_KINDS

_VALUES: dict[str, list[Any]] = {
    "text": ["DE", "FR", "IT"],
    "bool": [True, False],
}


def visitor_of(kind: Kind, chance: random.Random) -> dict[str, Any]:
    """Return what a visitor of a pool says."""
    said = {}
    for name, declared in kind.features.items():
        values = _VALUES[declared] if isinstance(declared, str) else declared
        said[name] = chance.choice(values)
    return said


def set_up(service: Service, kinds: Mapping[str, Kind]) -> None:
    """Make a pool of each kind."""
    for pool_id, kind in kinds.items():
        settings = {
            "policy": "paced-bayes",
            "policy_settings": {},
            "slot_weights": (),
            "click_window_s": CLICK_WINDOW_S,
            "revenue_window_s": REVENUE_WINDOW_S,
        } | kind.settings
        service.directory.put_pool(pool(pool_id=pool_id, **settings), "test", T0).result()
        links = [link(f"l{k}", pool_id=pool_id) for k in range(kind.n_links)]
        service.directory.put_links(pool_id, links, "test", T0).result()
        if kind.rules:
            service.directory.put_rules(pool_id, kind.rules, "test", T0).result()
        if kind.known:
            counts = [ImportedCounts(views=50, clicks=9, revenue_micros=30_000_000)]
            service.directory.put_known(pool_id, {"l1": counts}, "test", T0).result()


def visit(service: Service, pool_id: str, n_views: int, start_us: int) -> None:
    """Send visitors to one pool, a view a second; two links are clicked often."""
    kind, chance = _ALL_KINDS[pool_id], random.Random(f"{pool_id} {start_us}")
    for k in range(n_views):
        now_us = start_us + k * SECOND_US
        page = service.decider.decide(pool_id, now_us, visitor=visitor_of(kind, chance))
        events: list[Any] = []
        for shown in page.shown:
            if chance.random() < (0.6 if shown.link_id in ("l0", "l4") else 0.1):
                one = (page.decision_id, shown.link_id)
                events.append(ClickEvent(*one))
                if chance.random() < 0.5:
                    sale = f"{pool_id}-{page.decision_id}-{shown.link_id}"
                    events.append(ConversionEvent(sale, *one, 20_000_000, "EUR"))
        if events:
            service.committer.submit_events(events, now_us + 1)


def train(service: Service, kinds: Mapping[str, Kind]) -> None:
    """Make a pool of each kind and let it learn; some views settle, the last ones stay open."""
    set_up(service, kinds)
    for pool_id, kind in kinds.items():
        visit(service, pool_id, kind.n_settled, T0 + SECOND_US)
    service.learner.learn(TRAINED_US - 100 * SECOND_US)
    for pool_id in kinds:
        visit(service, pool_id, N_OPEN, TRAINED_US - 90 * SECOND_US)
    service.learner.learn(TRAINED_US)
    service.flush().result()


class Known(NamedTuple):
    """What can be seen of one pool."""

    version: int
    pages: list[list[float]]
    """The probabilities of all links, for some visitors, and those of the groups of pages."""
    arrays: dict[str, list[Any]]
    """What its policy has learned, and what is known about its own page."""
    failure: str


def known_of(service: Service, pool_id: str) -> Known:
    """Return what a pool shows and what it has learned."""
    installed, chance = service.decider.installed(pool_id), random.Random(3)
    pages = [installed.probabilities.tolist()]
    kind = _ALL_KINDS[pool_id]
    if kind.features:
        said = [visitor_of(kind, chance) for _ in range(4)]
        visitors = [installed.known_visitors.know(one).values for one in said]
        pages = [installed.probabilities_for(one).tolist() for one in visitors]
    run = service.publisher.runs[pool_id]
    evidence = {"evidence": evidence_of(run.counters, run.pool.settings).sums.tolist()}
    shares = list(installed.groups.shares)
    pages = [page + shares for page in pages]
    try:
        learned = service.knowledge(pool_id)
    except UnreadableState as error:
        return Known(installed.version, pages, {}, str(error))
    arrays = {} if learned is None else learned.arrays
    return Known(
        installed.version,
        pages,
        {name: array.tolist() for name, array in arrays.items()} | evidence,
        run.failure,
    )


def assert_same(found: Known, before: Known, pool_id: str) -> None:
    """Compare what was learned exactly, and what is shown up to rounding."""
    assert found.failure == "", pool_id
    assert found.arrays == before.arrays, pool_id
    np.testing.assert_allclose(found.pages, before.pages, atol=1e-6, err_msg=pool_id)
