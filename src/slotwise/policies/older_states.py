"""Read what earlier versions of the default policy have learned.

They counted revenue in typical sales instead of counting sales, stored the discarded part of counts
next to the counts, had a queue for each floor and another for each floor of a segment, and other
names for visitors. Used by `paced_bayes`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slotwise.arrays import Floats
from slotwise.policies.floor_prices import MAX_EXPECTED, UNKNOWN
from slotwise.policies.link_rates import FIRST_VARIATION
from slotwise.policies.policy import Knowledge
from slotwise.policies.visitor_rates import N_RECENT
from slotwise.problem import Problem

MADE_BEFORE = frozenset({"queue", "forgotten_views", "precision"})
"""Names that only older states have."""


def upgraded(problem: Problem, knowledge: Mapping[str, Floats]) -> Knowledge:
    """Return what an earlier version has learned in the present form, or the knowledge as it is."""
    old = dict(knowledge)
    if not MADE_BEFORE & old.keys():
        return old
    n_levels, n_links = problem.n_levels, old["views"].shape[1]
    unit = float(old["sales"][0])
    new: Knowledge = {"rounds": old["rounds"], "clock": old["clock"]}
    for name in ("views", "sums"):
        new[name] = old[name] - old.get(f"forgotten_{name}", np.zeros_like(old[name]))
        new[name] = np.maximum(new[name], 0.0)
    new["sales"] = new["sums"][-1] / max(unit, 1e-300)
    new["squares"] = new["sums"][-1] * unit
    has_sold = bool(new["sums"][-1].any())
    new["amounts"] = np.array([unit if has_sold else 0.0, FIRST_VARIATION, FIRST_VARIATION, 1.0])
    rates = old["pool"].copy()
    rates[1:] /= np.maximum(old["pool"][:-1], 1e-300)
    rates[-1] /= max(unit, 1e-300)
    new["pool"] = rates.clip(1e-9, 0.999)
    new["worth"] = old.get("worth", np.ones(n_levels))
    new["margin"] = old.get("margin", np.ones(1))
    new["drift"] = old.get("drift", np.zeros(7))
    new |= _floors(problem, old)
    if not problem.feature_sizes:
        new["missing"] = old.get("missing", np.zeros(1))
        return new
    n_values, n_floors = sum(problem.feature_sizes), len(new["owed"])
    new["missing"] = np.zeros(1)
    new["segment_missing"] = old.get("missing", np.zeros(n_values))
    new["has_pairs"] = np.array([float("information" in old)])
    new["information"] = old.get("information", old.get("precision", np.zeros((0, 0, 0))))
    for name in ("tilt", "waiting", "value_views", "seen", "center", "variance"):
        new[name] = old[name]
    new["recent"] = np.zeros((1 + n_floors, N_RECENT, len(problem.feature_sizes)))
    new["turns"] = np.zeros(1 + n_floors)
    new["priced"] = np.zeros(1)
    for name in ("floor_views", "floor_sums"):
        new[name] = np.zeros((n_floors, n_links))
    return new


def _floors(problem: Problem, old: Mapping[str, Floats]) -> Knowledge:
    """Return what is owed to the floors of levels, and then to those of segments."""
    levels = [floor.level for floor in problem.active_floors]
    n_segments = len(problem.segment_floor_places)
    none = np.zeros(n_segments)
    queue = np.concatenate([old["queue"], old.get("segment_queue", none)])
    owed_before = old.get("owed", np.maximum(old["queue"], 0.0))
    owed = np.concatenate([owed_before, old.get("segment_owed", none)])
    rounds = np.concatenate([old["rounds"][levels], old.get("segment_rounds", none)])
    price = old.get("price", np.full(len(levels), UNKNOWN))
    price = np.concatenate([price, np.full(n_segments, UNKNOWN)]).clip(UNKNOWN, MAX_EXPECTED)
    return {
        "owed": owed,
        "reserve": np.maximum(queue - owed, 0.0),
        "price": price,
        "floor_rounds": rounds,
    }
