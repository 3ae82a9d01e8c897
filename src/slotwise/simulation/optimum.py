"""The best fixed mix on the true rates, with which every policy is compared.

Used by `experiment`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.environments import Environment, VisitorRates
from slotwise.errors import InvalidInput
from slotwise.policies import FixedMix
from slotwise.problem import Problem
from slotwise.selection import SlotRule, solve, solve_floors, solve_kinds, solve_rules
from slotwise.selection.rules import settle_rules
from slotwise.simulation.engine import simulated_rules


class Optimum(NamedTuple):
    """The best mix, and its expected outcomes per page view.

    `amounts` and `shadow_prices` hold those of every floor by name; `shadow_price` and `clicks`
    belong to the click floor. `largest_shortfall` is the largest relative shortfall of a floor,
    above 0 only if no mix keeps every floor.

    If visitors differ, `value` is that of the best mix that knows them, `value_without_visitors`
    that of the best mix for all, and `probabilities` are those of the latter. If slots differ, both
    put the best links into the best slots; `value_without_order` is `value` with links shuffled.
    `value_prices` are those of the floors of feature values, which `value` alone keeps.
    `by_place` has for each value of a feature the revenue per page view of its visitors with the
    best mix and with the best mix for all; it is empty where slots differ or segments have floors.
    """

    probabilities: Floats
    shadow_price: float
    status: str
    value: float
    clicks: float
    amounts: Mapping[str, float]
    shadow_prices: Mapping[str, float]
    largest_shortfall: float
    value_without_visitors: float | None = None
    value_without_order: float | None = None
    value_prices: tuple[float, ...] = ()
    by_place: tuple[tuple[float, float], ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the fields that results files keep, with None for infinite numbers."""
        kept: dict[str, Any] = {
            "value": self.value,
            "clicks": self.clicks,
            "shadow_price": _finite(self.shadow_price),
            "status": self.status,
        }
        if self.shadow_prices:
            kept["amounts"] = dict(self.amounts)
            kept["shadow_prices"] = {
                name: _finite(price) for name, price in self.shadow_prices.items()
            }
            kept["largest_shortfall"] = self.largest_shortfall
        if self.value_prices:
            kept["value_prices"] = [_finite(price) for price in self.value_prices]
        for name in ("value_without_visitors", "value_without_order"):
            if getattr(self, name) is not None:
                kept[name] = getattr(self, name)
        return kept


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


def find_optimum(environment: Environment, problem: Problem, n_rounds: int) -> Optimum:
    """Return the best mix for the mean rates over `n_rounds` rounds."""
    rates = np.minimum(1.0, environment.rates(n_rounds))
    rules = simulated_rules(problem).slot_rules() if problem.rules else []
    is_plain = problem.has_click_floor_only and problem.rewards_last_level_only
    if is_plain:
        program = rates[-1], rates[0], problem.n_slots, problem.click_floor
        best = solve_rules(*program, rules)[:5] if rules else solve(*program)
        found = Optimum(*best, amounts={}, shadow_prices={}, largest_shortfall=0.0)
        if environment.feature_sizes or environment.slot_weights:
            return _where_pages_differ(found, environment, problem, n_rounds, rules)
        return found
    if environment.feature_sizes or environment.slot_weights:
        rule = "on clicks alone where visitors or slots differ"
        raise InvalidInput.of("floors", rule, dict(problem.floors))
    return _with_several_floors(rates, problem, rules)


def _where_pages_differ(
    shuffled: Optimum,
    environment: Environment,
    problem: Problem,
    n_rounds: int,
    rules: Sequence[SlotRule],
) -> Optimum:
    """Return the best mix that knows visitors and slots, and its value without either."""
    known, n_slots = environment.visitor_rates(n_rounds), problem.n_slots
    floors = [(np.ones(len(known.shares), bool), problem.click_floor)]
    for place, least in problem.segment_floor_places:
        floors.append(((known.places == place).any(axis=1), least))
    rates = known.rates[:, -1], known.rates[:, 0], known.shares
    best = solve_kinds(*rates, np.ones(n_slots), floors, rules)
    blind, without_order = shuffled.value, None
    if environment.slot_weights:
        weights = np.array(environment.slot_weights)
        if len(weights) != n_slots:
            raise InvalidInput.of("n_slots", f"as many as `slot_weights` ({len(weights)})", n_slots)
        without_order = best.value
        average = np.tensordot(known.shares, known.rates, axes=1)
        for_all = [(np.ones(1, bool), problem.click_floor)]
        of_all = average[-1:], average[:1], np.ones(1)
        blind = solve_kinds(*of_all, weights, for_all, rules).value
        best = solve_kinds(*rates, weights, floors, rules)
    has_slots_or_segments = environment.slot_weights or problem.segment_floors
    n_places = 0 if has_slots_or_segments else sum(environment.feature_sizes)
    return shuffled._replace(
        by_place=tuple(
            _to_visitors(known, place, best.probabilities, shuffled.probabilities)
            for place in range(n_places)
        ),
        shadow_price=float(best.shadow_prices[0]),
        status=best.status,
        value=best.value,
        clicks=float(best.clicks[0]),
        value_without_visitors=blind if environment.feature_sizes else None,
        value_without_order=without_order,
        value_prices=tuple(best.shadow_prices[1:].tolist()),
    )


def _to_visitors(
    known: VisitorRates, place: int, knowing: Floats, for_all: Floats
) -> tuple[float, float]:
    """Return the revenue of visitors with one value, with a mix for each kind and one for all."""
    shares = known.shares * (known.places == place).any(axis=1)
    if shares.sum() == 0.0:
        return 0.0, 0.0
    shares = shares / shares.sum()
    value = known.rates[:, -1]
    return float(shares @ (knowing * value).sum(axis=1)), float(shares @ (value @ for_all))


def _with_several_floors(rates: Floats, problem: Problem, rules: Sequence[SlotRule]) -> Optimum:
    """Return the best fixed mix under several floors; rules are further floors."""
    floors, n_links, n_slots = problem.active_floors, problem.n_links, problem.n_slots
    value = sum(
        weight * rates[problem.levels.index(level)] for level, weight in problem.rewards.items()
    )
    demands = [rates[floor.level] - floor.rate * rates[floor.level - 1] for floor in floors]
    least = [floor.least for floor in floors]
    for rule in settle_rules(rules, n_links, n_slots).granted if rules else ():
        is_of_rule = np.isin(np.arange(n_links), rule.links).astype(np.float64)
        # a cap on some links is a floor on the rest of the page
        demands += [is_of_rule, 1.0 - is_of_rule]
        least += [rule.least, max(0.0, n_slots - rule.most)]
    if not demands:  # weighted rewards without a floor: a floor of 0 keeps the shape of the program
        demands, least = [np.zeros(n_links)], [0.0]
    best = solve_floors(np.asarray(value), np.array(demands), n_slots, least)
    if rules and best.status == "infeasible":
        # the smallest shortfall would be one of rules and floors together, and rules come first
        reach = "such that every floor can be kept within them where levels have floors"
        raise InvalidInput.of("rules", reach, [one.name for one in problem.rules])
    names = [floor.name for floor in floors]
    prices = dict(zip(names, best.shadow_prices.tolist(), strict=False))
    is_slack = rules and not any(prices.values())
    return Optimum(
        probabilities=best.probabilities,
        shadow_price=prices.get(problem.levels[0], 0.0),
        status="slack" if is_slack else best.status,
        value=best.value,
        clicks=float(best.probabilities @ rates[0]),
        amounts=dict(zip(names, best.amounts.tolist(), strict=False)),
        shadow_prices=prices,
        largest_shortfall=best.largest_shortfall,
    )


def best_fixed_mix(environment: Environment, problem: Problem) -> FixedMix:
    """Return the best fixed mix for a problem, as a policy to compare with."""
    best = find_optimum(environment, problem, problem.horizon or 1)
    return FixedMix(tuple(best.probabilities.tolist()))


def oracle(environment: Environment, n_slots: int, click_floor: float, n_rounds: int) -> FixedMix:
    """Return the best fixed mix under a click floor, as a policy to compare with."""
    problem = Problem(
        environment.n_links, n_slots, click_floor, levels=environment.levels, horizon=n_rounds
    )
    return best_fixed_mix(environment, problem)
