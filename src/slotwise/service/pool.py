"""A pool as it stands, and the policy and the problem that its settings describe."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from slotwise.errors import UnknownName
from slotwise.policies import Policy, default_policy, make_policy, policy_class
from slotwise.problem import LEARN, Problem, asked_slot_weights
from slotwise.selection.page_order import PageOrder, learn_slot_weights, new_page_order
from slotwise.service.records import KnownCounts, LinkRecord, PoolSettings
from slotwise.service.visitors import VisitorCode, declared_features

__all__ = [
    "Pool",
    "has_slot_weights",
    "page_order_of",
    "policy_of",
    "pool_problem",
    "problem_of",
    "with_known_policy",
]

_log = logging.getLogger(__name__)


class Pool(NamedTuple):
    """The settings and links of a pool; never changed, only replaced."""

    settings: PoolSettings
    links: dict[str, LinkRecord]
    """By id, retired ones too."""
    active: tuple[str, ...]
    """The links that may be shown, by place."""
    revision: int
    """Grows with every change."""
    known_us: int = 0
    """When counts were last imported."""

    @classmethod
    def of(cls, settings: PoolSettings, links: Iterable[LinkRecord] = ()) -> Pool:
        """Return a pool that was not changed yet."""
        return cls(settings, {}, (), 0).with_links(links)._replace(revision=0)

    def with_settings(self, settings: PoolSettings) -> Pool:
        """Return the pool with other settings."""
        return self._replace(settings=settings, revision=self.revision + 1)

    def with_links(self, links: Iterable[LinkRecord]) -> Pool:
        """Return the pool with new or changed links."""
        all_links = {**self.links, **{link.link_id: link for link in links}}
        by_place = sorted(all_links.values(), key=lambda link: link.place)
        active = tuple(link.link_id for link in by_place if not link.retired)
        known_us = max((link.known_us for link in by_place), default=0)
        return self._replace(
            links=all_links, active=active, revision=self.revision + 1, known_us=known_us
        )

    def known_counts(self) -> Iterator[tuple[str, KnownCounts]]:
        """Yield the imported counts of links that may be shown."""
        for link_id in self.active if self.known_us else ():
            yield from ((link_id, counts) for counts in self.links[link_id].start_counts)

    def problem(self) -> Problem:
        """Return the problem of a page of this pool."""
        problem = pool_problem(self.settings, len(self.active), None)
        assert problem is not None
        return problem

    def policy(self, learned: Mapping[str, Any] | None = None) -> Policy:
        """Return the policy of this pool; visitors that differ may need one of their own.

        Where it has `learned` something, the form that did goes on.
        """
        policy = policy_of(self.settings)
        if not self.settings.features:
            return policy
        return policy.for_knowledge(self.problem(), {} if learned is None else learned)


def policy_of(pool: PoolSettings) -> Policy:
    """Return the policy that a pool asks for."""
    return make_policy(pool.policy, pool.policy_settings)


def with_known_policy(pool: PoolSettings) -> PoolSettings:
    """Return stored settings, with the default policy where theirs does not exist.

    A store may name a policy of an earlier version, or of a package that is no longer installed.
    The store keeps the name until the pool is changed.
    """
    try:
        policy_class(pool.policy)
    except UnknownName as error:
        default = default_policy().name
        _log.warning("pool %s uses %s: %s", pool.pool_id, default, error)
        return replace(pool, policy=default, policy_settings={})
    return pool


def problem_of(
    n_links: int, n_slots: int, click_floor: float, feature_sizes: tuple[int, ...] = ()
) -> Problem:
    """Return the problem of a page; a floor that no page reaches is lowered."""
    slots = min(n_slots, n_links)
    return Problem(
        n_links=n_links,
        n_slots=slots,
        click_floor=min(click_floor, float(np.nextafter(slots, 0))),
        feature_sizes=feature_sizes,
    )


def has_slot_weights(pool: PoolSettings) -> bool:
    """Say whether slots differ, or may."""
    asked = LEARN if pool.learn_slot_weights else pool.slot_weights
    return bool(asked_slot_weights(asked, pool.slots))


def page_order_of(pool: PoolSettings, clicks: Sequence[float] = ()) -> PageOrder:
    """Return the order of a pool's pages that has seen these clicks on pages in random order."""
    asked = LEARN if pool.learn_slot_weights else pool.slot_weights
    order = new_page_order(Problem(n_links=pool.slots, n_slots=pool.slots, slot_weights=asked))
    if clicks and len(clicks) == len(order.clicks):
        learn_slot_weights(order, np.array(clicks, np.float64))
    return order


def pool_problem(pool: PoolSettings, n_links: int, code: VisitorCode | None) -> Problem | None:
    """Return the problem of a page of a pool when it has so many links.

    With a `code` it has the floors of segments, too; None where the code has no place for one.
    """
    sizes = declared_features(pool.features).sizes if pool.features else ()
    problem = problem_of(n_links, pool.slots, pool.click_floor, sizes)
    if code is None or not pool.floors_by:
        return problem
    floors = code.value_floors(pool.floors_by, problem.n_slots)
    return None if floors is None else dataclasses.replace(problem, value_floors=floors)
