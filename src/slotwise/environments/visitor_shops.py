"""Different visitors: kinds of visitors, or features with too many combinations to list.

Both have slots that may differ, too: a link in slot l is clicked with `slot_weights[l]` times its
rate, and revenue given a click does not depend on the slot (the position-based model). Used by
`simulation`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.environments.environment import Arrive, Environment, Serve, VisitorRates
from slotwise.errors import InvalidInput
from slotwise.features import Features
from slotwise.problem import check_slot_weights, is_finite_number
from slotwise.selection.solve import check_kinds, check_rates

MOST_LISTED = 4096
"""If features have more combinations, the best mix is found for this many sampled visitors."""


class SegmentWorld(NamedTuple):
    """Conditional rates of every kind, cumulated shares, features and slot weights."""

    conditional: Floats
    reached: Floats
    places: Places
    slot_weights: Floats


class LogisticWorld(NamedTuple):
    """Logits of the links, effects of every feature value, and how often values occur.

    `reached[v]` is the cumulated share of value v within its feature; feature f has the values
    from `first[f]` up to `first[f + 1]`.
    """

    logits: Floats
    effects: Floats
    reached: Floats
    first: Places
    slot_weights: Floats


@hot
def arrive_segment(
    world: SegmentWorld, round_number: int, rng: np.random.Generator, visitor: Places
) -> None:
    """Draw a kind; its features are visible to policies, the kind itself, at the end, is not."""
    draw = rng.random()
    kind = 0
    while kind < len(world.reached) - 1 and draw >= world.reached[kind]:
        kind += 1
    n_features = len(visitor) - 1
    for feature in range(n_features):
        visitor[feature] = world.places[kind, feature]
    visitor[n_features] = kind


@hot
def serve_segment(
    world: SegmentWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw every level of every link shown at the rates of the visitor's kind."""
    conditional = world.conditional[visitor[len(visitor) - 1]]
    weights = world.slot_weights
    for slot in range(len(shown)):
        alive = 1.0
        for level in range(len(conditional)):
            rate = conditional[level, shown[slot]]
            if level == 0 and len(weights) > 0:
                rate *= weights[slot]
            alive = alive if rng.random() < rate else 0.0
            outcomes[level, slot] = alive


@hot
def arrive_logistic(
    world: LogisticWorld, round_number: int, rng: np.random.Generator, visitor: Places
) -> None:
    """Draw a value of every feature."""
    for feature in range(len(world.first) - 1):
        draw = rng.random()
        place = world.first[feature]
        while place < world.first[feature + 1] - 1 and draw >= world.reached[place]:
            place += 1
        visitor[feature] = place


@hot
def serve_logistic(
    world: LogisticWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw every level of every link shown; the logit is a sum over the visitor's features."""
    weights = world.slot_weights
    for slot in range(len(shown)):
        alive = 1.0
        for level in range(len(world.logits)):
            logit = world.logits[level, shown[slot]]
            for feature in range(len(world.first) - 1):
                logit += world.effects[level, visitor[feature], shown[slot]]
            rate = 1.0 / (1.0 + math.exp(-logit))
            if level == 0 and len(weights) > 0:
                rate *= weights[slot]
            alive = alive if rng.random() < rate else 0.0
            outcomes[level, slot] = alive


def _read_features(visitors: Any, n_kinds: int) -> tuple[Places, Features]:
    """Return the values of every kind's features, each counted from 0, and the features."""
    rows = list(visitors)
    if len(rows) != n_kinds or not all(isinstance(row, Mapping) for row in rows):
        rule = f"a mapping of features to values for each of the {n_kinds} kinds"
        raise InvalidInput.of("visitors", rule, visitors)
    names = list(rows[0])
    if any(list(row) != names for row in rows):
        raise InvalidInput.of("visitors", "the same features, in one order, for every kind", rows)
    columns = [list(dict.fromkeys(row[name] for row in rows)) for name in names]
    values = [
        [column.index(row[name]) for name, column in zip(names, columns, strict=True)]
        for row in rows
    ]
    labels = {
        str(name): [str(value) for value in column]
        for name, column in zip(names, columns, strict=True)
    }
    return np.array(values, np.int64).reshape(n_kinds, len(names)), Features.of_values(labels)


class SegmentLinks(Environment):
    """Links whose rates differ between kinds of visitors.

    Rates have a row for each kind and a column for each link; `shares` has each kind's share of the
    page views. `visitors` gives the features of every kind, which a policy may know; without it the
    kind itself is the one feature. Kinds with the same features cannot be distinguished; without
    features (`visitors=[{}]` for one kind) nothing is known of visitors.

    >>> links = SegmentLinks(click_rate=[[0.4, 0.1], [0.1, 0.2]], shares=[0.75, 0.25],
    ...                      revenue_per_click=[[0.5, 0.5], [0.5, 1.0]],
    ...                      visitors=[{"device": "phone"}, {"device": "desktop"}])
    >>> links.rates(1)[0].round(3).tolist(), links.feature_sizes
    ([0.325, 0.125], (2,))
    """

    arrive: ClassVar[Arrive] = staticmethod(arrive_segment)
    serve: ClassVar[Serve] = staticmethod(serve_segment)

    def __init__(
        self,
        click_rate: ArrayLike,
        revenue_per_click: ArrayLike,
        shares: ArrayLike,
        visitors: Sequence[Mapping[str, object]] | None = None,
        slot_weights: Sequence[float] | None = None,
    ) -> None:
        names = ("revenue_per_click", "click_rate")
        revenue, clicks, weights = check_kinds(revenue_per_click, click_rate, 1, shares, names)
        n_kinds = len(clicks)
        if visitors is None:
            visitors = [{"kind": kind} for kind in range(n_kinds)]
        values, self.features = _read_features(visitors, n_kinds)
        first = np.array(self.features.offsets, np.int64)
        self.slot_weights = check_slot_weights(slot_weights)
        if clicks.max() * max(self.slot_weights, default=1.0) > 1.0:
            rule = "so low that no slot's weight lifts them above 1"
            raise InvalidInput.of("click_rate", rule, float(clicks.max()))
        self._shares = weights
        self._world = SegmentWorld(
            conditional=np.stack([clicks, revenue], axis=1),
            reached=np.cumsum(weights),
            places=values + first,
            slot_weights=np.array(self.slot_weights),
        )

    def world(self, n_rounds: int) -> SegmentWorld:
        """Return the rates, shares and features."""
        return self._world

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return shares and rates of the visitors that can be distinguished."""
        compound = np.cumprod(self._world.conditional, axis=1)
        places, group = np.unique(self._world.places, axis=0, return_inverse=True)
        shares = np.zeros(len(places))
        np.add.at(shares, group.ravel(), self._shares)
        rates = np.zeros((len(places), *compound.shape[1:]))
        np.add.at(rates, group.ravel(), self._shares[:, None, None] * compound)
        some = shares > 0.0
        return VisitorRates(places[some], shares[some], rates[some] / shares[some, None, None])


class LogisticLinks(Environment):
    """Links whose rates follow a logistic model of many features.

        P(click on link i by visitor x) = 1 / (1 + exp(-(logit_i + sum_f effect_f[x_f, i])))

    and the same with its own numbers for revenue given a click. `click_effects` and
    `revenue_effects` have for each feature a row for each value and a column for each link;
    `value_shares` has the frequency of each value, independent of the other features.

    >>> links = LogisticLinks([0.0, 0.0], [[[1.0, 0.0], [-1.0, 0.0]]], [0.0, 0.0],
    ...                       [[[0.0, 0.0], [0.0, 0.0]]], value_shares=[[0.5, 0.5]])
    >>> links.visitor_rates(1).rates[:, 0].round(3).tolist()
    [[0.731, 0.5], [0.269, 0.5]]
    """

    arrive: ClassVar[Arrive] = staticmethod(arrive_logistic)
    serve: ClassVar[Serve] = staticmethod(serve_logistic)

    def __init__(
        self,
        click_logit: ArrayLike,
        click_effects: Sequence[ArrayLike],
        revenue_logit: ArrayLike,
        revenue_effects: Sequence[ArrayLike],
        value_shares: Sequence[ArrayLike],
        slot_weights: Sequence[float] | None = None,
    ) -> None:
        logits = np.array([click_logit, revenue_logit], dtype=np.float64)
        shares = [check_rates("value_shares", share) for share in value_shares]
        self.features = Features.of_values(
            {f"feature {f}": [f"value {v}" for v in range(len(s))] for f, s in enumerate(shares)}
        )
        effects = []
        for name, given in (("click_effects", click_effects), ("revenue_effects", revenue_effects)):
            rows = [np.asarray(effect, np.float64) for effect in given]
            wanted = [(size, logits.shape[1]) for size in self.feature_sizes]
            if [row.shape for row in rows] != wanted:
                rule = f"an array for each feature, of shapes {wanted}"
                raise InvalidInput.of(name, rule, [row.shape for row in rows])
            effects.append(np.concatenate(rows))
        if not (np.isfinite(logits).all() and np.isfinite(effects).all()):
            raise InvalidInput.of("logits and effects", "finite numbers", "others")
        for share in shares:
            if abs(share.sum() - 1.0) > 1e-6:
                raise InvalidInput.of("value_shares", "numbers that sum to 1", share.tolist())
        self.slot_weights = check_slot_weights(slot_weights)
        self._world = LogisticWorld(
            logits=logits,
            effects=np.array(effects),
            reached=np.concatenate([np.cumsum(share) for share in shares]),
            first=np.concatenate([[0], np.cumsum(self.feature_sizes)]).astype(np.int64),
            slot_weights=np.array(self.slot_weights),
        )
        self._shares = shares

    @property
    def n_links(self) -> int:
        """How many links there are."""
        return int(self._world.logits.shape[1])

    def world(self, n_rounds: int) -> LogisticWorld:
        """Return the model."""
        return self._world

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return shares and rates of all visitors, or of `MOST_LISTED` drawn from them."""
        world = self._world
        if math.prod(self.feature_sizes) <= MOST_LISTED:
            listed = itertools.product(*(range(size) for size in self.feature_sizes))
            values = np.array(list(listed), np.int64).reshape(-1, len(self.feature_sizes))
            shares = np.prod([share[values[:, f]] for f, share in enumerate(self._shares)], axis=0)
        else:
            rng = np.random.default_rng(0)
            draws = [
                rng.choice(len(share), MOST_LISTED, p=share / share.sum()) for share in self._shares
            ]
            values = np.stack(draws, axis=1)
            shares = np.full(MOST_LISTED, 1.0 / MOST_LISTED)
        places = values + world.first[:-1]
        logits = world.logits + world.effects[:, places].sum(axis=2).transpose(1, 0, 2)
        rates = np.cumprod(1.0 / (1.0 + np.exp(-logits)), axis=1)
        return VisitorRates(places, shares / shares.sum(), rates)


LEAST_RATE = 1e-6
"""Minimum distance of rates from 0 and 1, which have no logit."""


def _sigmoid(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _logit(rate: ArrayLike) -> Floats:
    inside = np.clip(np.asarray(rate, np.float64), LEAST_RATE, 1.0 - LEAST_RATE)
    return np.asarray(np.log(inside / (1.0 - inside)))


def segments_of(
    rates: tuple[ArrayLike, ArrayLike],
    shares: Sequence[float],
    spread: float,
    seed: int,
    visitors: Sequence[Mapping[str, object]] | None = None,
    slot_weights: Sequence[float] | None = None,
) -> SegmentLinks:
    """Return links whose rates differ between segments: logits move by `spread` times a normal.

    `rates` are the click rates and the revenue per click of the links.

    >>> rates = [0.1, 0.2], [0.5, 0.5]
    >>> segments_of(rates, [0.5, 0.5], spread=0.0, seed=1).rates(1)[0].round(6)
    array([0.1, 0.2])
    """
    _check_spread("spread", spread)
    rng = np.random.default_rng(seed)
    clicks, revenue = (_logit(one) for one in rates)
    moved = spread * rng.normal(size=(2, len(shares), len(clicks)))
    of_segments = _sigmoid(clicks + moved[0]), _sigmoid(revenue + moved[1])
    return SegmentLinks(*of_segments, shares, visitors, slot_weights)


def logistic_of(
    rates: tuple[ArrayLike, ArrayLike],
    sizes: Sequence[int],
    effect: float,
    seed: int,
    slot_weights: Sequence[float] | None = None,
) -> LogisticLinks:
    """Return links on which features with these numbers of values have additive effects.

    All features together move a logit by about `effect` times a normal; values are equally often.
    """
    _check_spread("effect", effect)
    rng = np.random.default_rng(seed)
    clicks, revenue = (_logit(one) for one in rates)
    each = effect / math.sqrt(max(1, len(sizes)))
    effects = [each * rng.normal(size=(2, size, len(clicks))) for size in sizes]
    return LogisticLinks(
        clicks,
        [of_value[0] for of_value in effects],
        revenue,
        [of_value[1] for of_value in effects],
        [np.full(size, 1.0 / size) for size in sizes],
        slot_weights,
    )


def _check_spread(name: str, spread: float) -> None:
    if not (is_finite_number(spread) and spread >= 0):
        raise InvalidInput.of(name, "a finite number that is at least 0", spread)
