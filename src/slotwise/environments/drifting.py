"""Links whose rates change during an experiment.

Experiments use it through `slotwise.environments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotwise.arrays import Floats, Places
from slotwise.compile import hot
from slotwise.environments.bernoulli import BernoulliLinks
from slotwise.environments.environment import Environment, Serve
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

    serve: ClassVar[Serve] = staticmethod(serve)

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
