"""Environments that change or delay: rates that drift, and late feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.environments.bernoulli import BernoulliLinks
from slotwise.environments.environment import Environment, VisitorRates
from slotwise.environments.visitor_shops import (
    SegmentLinks,
    SegmentWorld,
    arrive_segment,
    serve_segment,
)
from slotwise.errors import InvalidInput


class DriftingWorld(NamedTuple):
    """Conditional rates at evenly spaced rounds, of shape (n_stations, n_levels, n_links)."""

    stations: Floats
    n_rounds: int


@hot
def serve(
    world: DriftingWorld,
    round_number: int,
    visitor: Places,
    shown: Places,
    rng: np.random.Generator,
    outcomes: Floats,
) -> None:
    """Draw every level at rates interpolated between the last station and the next."""
    stations = world.stations
    along = round_number / world.n_rounds * (len(stations) - 1)
    station = min(int(along), len(stations) - 2)
    part = along - station
    for slot in range(len(shown)):
        link = shown[slot]
        alive = 1.0
        for level in range(stations.shape[1]):
            before, after = stations[station, level, link], stations[station + 1, level, link]
            alive = alive if rng.random() < before + part * (after - before) else 0.0
            outcomes[level, slot] = alive


class DriftingLinks(Environment):
    """Links whose rates change linearly between stations over the experiment.

    Regret is relative to the best fixed mix for the mean rates; a policy that follows the drift
    can earn more than that mix.

    >>> calm = BernoulliLinks([0.2, 0.4], [0.5, 0.5])
    >>> sale = BernoulliLinks([0.6, 0.4], [0.5, 0.5])
    >>> DriftingLinks([calm, sale]).rates(1000)[0].round(3).tolist()
    [0.4, 0.4]
    """

    serve: ClassVar[Any] = staticmethod(serve)

    def __init__(self, stations: Sequence[BernoulliLinks]) -> None:
        if len(stations) < 2:
            raise InvalidInput.of("stations", "at least two", len(stations))
        sizes = {station.n_links for station in stations}
        if len(sizes) > 1:
            raise InvalidInput.of("stations", "of one number of links", sorted(sizes))
        self._stations = np.array([np.asarray(links.rates_given_last) for links in stations])

    def world(self, n_rounds: int) -> DriftingWorld:
        """Return the stations and the rounds they are spread over."""
        return DriftingWorld(self._stations, n_rounds)

    def rates(self, n_rounds: int) -> Floats:
        """Return the mean of each compound over the rounds; it is quadratic between stations."""
        n_rounds = max(n_rounds, 1)
        along = np.arange(1, n_rounds + 1) / n_rounds * (len(self._stations) - 1)
        station = np.minimum(along.astype(int), len(self._stations) - 2)
        part = along - station
        mean = np.zeros(self._stations.shape[1:])
        for k in range(len(self._stations) - 1):
            here = part[station == k]
            before, step = self._stations[k], self._stations[k + 1] - self._stations[k]
            # sum over t of (p + t dp)(q + t dq) needs only the first moments of t
            count, first, second = len(here), here.sum(), (here**2).sum()
            mean[0] += count * before[0] + first * step[0]
            mean[1] += (
                count * before[0] * before[1]
                + first * (before[0] * step[1] + step[0] * before[1])
                + second * step[0] * step[1]
            )
        return mean / n_rounds


class LateFeedback(Environment):
    """Links whose clicks and later levels become known some rounds after the page view.

    >>> late = LateFeedback(BernoulliLinks([0.2], [0.5]), click_delay=10, revenue_delay=500)
    >>> late.delays
    (10, 500)
    """

    def __init__(self, links: Environment, click_delay: int, revenue_delay: int) -> None:
        for name, delay in (("click_delay", click_delay), ("revenue_delay", revenue_delay)):
            if delay < 0:
                raise InvalidInput.of(name, "at least 0", delay)
        self._links = links
        self.levels = links.levels
        self.views_per_round = links.views_per_round
        self.features = links.features
        self.slot_weights = links.slot_weights
        self.delays = (click_delay, *(revenue_delay for _ in links.levels[1:]))

    @property
    def serving(self) -> Callable[..., None]:
        """The function that serves the wrapped links."""
        return self._links.serving

    @property
    def arriving(self) -> Callable[..., None]:
        """The function that writes the visitors of the links themselves."""
        return self._links.arriving

    @property
    def n_links(self) -> int:
        """How many links there are."""
        return self._links.n_links

    def world(self, n_rounds: int) -> Any:
        """Return the world of the wrapped links."""
        return self._links.world(n_rounds)

    def rates(self, n_rounds: int) -> Floats:
        """Return the rates of the wrapped links."""
        return self._links.rates(n_rounds)

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return those of the links themselves."""
        return self._links.visitor_rates(n_rounds)


def drift_towards(
    links: BernoulliLinks, seed: int, n_stations: int = 4, strength: float = 0.5
) -> DriftingLinks:
    """Return links with drifting rates: each station multiplies them by up to 1 + `strength`.

    >>> drift_towards(BernoulliLinks([0.2, 0.4], [0.5, 0.5]), seed=1).n_links
    2
    """
    rng = np.random.default_rng(seed)
    rates: ArrayLike = links.rates_given_last
    stations = [links]
    for _ in range(n_stations - 1):
        factor = np.exp(rng.uniform(-1, 1, np.shape(rates)) * np.log1p(strength))
        stations.append(BernoulliLinks(*np.minimum(1.0, np.asarray(rates) * factor)))
    return DriftingLinks(stations)


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
