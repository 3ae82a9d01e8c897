"""Visitors of several kinds whose taste changes in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.environments.contract import Environment, Floats, VisitorRates
from slotwise.environments.visitors import SegmentLinks, SegmentWorld, arrive_segment, serve_segment
from slotwise.errors import InvalidInput
from slotwise.selection.compiled import hot

__all__ = ["DriftingSegments"]

Places = NDArray[np.int64]


class DriftingSegmentsWorld(NamedTuple):
    """The conditional rates of every station, and the rest of a world of segments."""

    stations: Floats
    n_rounds: int
    reached: Floats
    places: Places
    slot_weights: Floats


@hot
def _at(world: DriftingSegmentsWorld, station: int) -> SegmentWorld:
    rates = world.stations[station]
    return SegmentWorld(rates, world.reached, world.places, world.slot_weights)


@hot
def arrive(
    world: DriftingSegmentsWorld, round_number: int, rng: np.random.Generator, visitor: Places
) -> None:
    """Draw a kind, as where nothing drifts."""
    arrive_segment(_at(world, 0), round_number, rng, visitor)


@hot
def serve(
    world: DriftingSegmentsWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Serve at the rates of the station that the round belongs to."""
    here = (round_number - 1) * len(world.stations) // world.n_rounds
    now = _at(world, min(here, len(world.stations) - 1))
    serve_segment(now, round_number, visitor, shown, rng, outcomes)


class DriftingSegments(Environment):
    """Kinds of visitors whose rates step from one station to the next, each equally long.

    The stations are `SegmentLinks` with the same kinds, shares and slots. Regret is against the
    best mix for the mean rates.

    >>> before = SegmentLinks([[0.4, 0.1]], [[0.5, 0.5]], [1.0])
    >>> after = SegmentLinks([[0.2, 0.3]], [[0.5, 0.5]], [1.0])
    >>> DriftingSegments([before, after]).rates(100)[0].round(3).tolist()
    [0.3, 0.2]
    """

    arrive: ClassVar[Any] = staticmethod(arrive)
    serve: ClassVar[Callable[..., None]] = staticmethod(serve)

    def __init__(self, stations: Sequence[SegmentLinks]) -> None:
        if len(stations) < 2:
            raise InvalidInput.of("stations", "at least two", len(stations))
        first = stations[0]
        for station in stations[1:]:
            worlds = (first.world(1), station.world(1))
            if not all(
                np.array_equal(*pair) for pair in zip(worlds[0][1:], worlds[1][1:], strict=True)
            ):
                rule = "of the same kinds, shares and slots"
                raise InvalidInput.of("stations", rule, "others")
            if worlds[0].conditional.shape != worlds[1].conditional.shape:
                raise InvalidInput.of("stations", "of one number of links", station.n_links)
        self._stations = tuple(stations)
        self.feature_sizes = first.feature_sizes
        self.value_labels = first.value_labels
        self.feature_names = first.feature_names
        self.slot_weights = first.slot_weights

    @property
    def n_links(self) -> int:
        """How many links there are."""
        return self._stations[0].n_links

    def world(self, n_rounds: int) -> DriftingSegmentsWorld:
        """Return the stations and the rounds they are spread over."""
        rates = np.stack([station.world(n_rounds).conditional for station in self._stations])
        rest = self._stations[0].world(n_rounds)[1:]
        return DriftingSegmentsWorld(rates, max(1, n_rounds), *rest)

    def rates(self, n_rounds: int) -> Floats:
        """Return the mean outcome of a view over visitors and rounds, in a slot of weight 1."""
        visitors = self.visitor_rates(n_rounds)
        return np.tensordot(visitors.shares, visitors.rates, axes=1)

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return shares and mean rates over the rounds of the visitors that can be told apart."""
        rounds = np.arange(max(1, n_rounds))
        lengths = np.bincount(
            rounds * len(self._stations) // len(rounds), minlength=len(self._stations)
        )
        listed = [station.visitor_rates(n_rounds) for station in self._stations]
        mean = np.tensordot(lengths / len(rounds), np.stack([one.rates for one in listed]), axes=1)
        return listed[0]._replace(rates=mean)
