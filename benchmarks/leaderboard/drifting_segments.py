"""Kinds of visitors whose taste changes: the world of one case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.environments import Environment, SegmentLinks, VisitorRates
from slotwise.environments.visitor_shops import SegmentWorld, arrive_segment, serve_segment
from slotwise.errors import InvalidInput


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
def serve_segments(
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
    serve: ClassVar[Callable[..., None]] = staticmethod(serve_segments)

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
        self.features = first.features
        self.slot_weights = first.slot_weights

    def world(self, n_rounds: int) -> DriftingSegmentsWorld:
        """Return the stations and the rounds they are spread over."""
        rates = np.stack([station.world(n_rounds).conditional for station in self._stations])
        rest = self._stations[0].world(n_rounds)[1:]
        return DriftingSegmentsWorld(rates, max(1, n_rounds), *rest)

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return shares and mean rates over the rounds of the visitors that can be told apart."""
        rounds = np.arange(max(1, n_rounds))
        lengths = np.bincount(
            rounds * len(self._stations) // len(rounds), minlength=len(self._stations)
        )
        listed = [station.visitor_rates(n_rounds) for station in self._stations]
        mean = np.tensordot(lengths / len(rounds), np.stack([one.rates for one in listed]), axes=1)
        return listed[0]._replace(rates=mean)
