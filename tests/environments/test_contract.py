"""The shipped contract over every environment, and over one that a user might write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.environments import (
    BernoulliLevels,
    BernoulliLinks,
    BetaRevenueLinks,
    DriftingLinks,
    Environment,
    FixedPriceLinks,
    IntervalLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.testing import EnvironmentContract

CLICKS, REVENUE = [0.6, 0.05, 0.3, 0.9], [0.5, 0.9, 0.2, 0.05]
LINKS = BernoulliLinks(CLICKS, REVENUE)

ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "bernoulli": lambda: LINKS,
    "three levels": lambda: BernoulliLevels([CLICKS, REVENUE, CLICKS], ("click", "cart", "buy")),
    "interval": lambda: IntervalLinks(CLICKS, REVENUE, views_per_round=30),
    "beta": lambda: BetaRevenueLinks(CLICKS, REVENUE, concentration=3.0),
    "fixed price": lambda: FixedPriceLinks(CLICKS, REVENUE, [0.1, 1.0, 0.5, 0.7]),
    "drifting": lambda: DriftingLinks(
        [LINKS, BernoulliLinks(REVENUE, CLICKS), BernoulliLinks(CLICKS[::-1], REVENUE)]
    ),
    "wandering": lambda: drift_towards(LINKS, seed=3, strength=1.0),
    "late": lambda: LateFeedback(LINKS, click_delay=3, revenue_delay=40),
    "late intervals": lambda: LateFeedback(IntervalLinks(CLICKS, REVENUE, 7), 1, 2),
}


class QuickContract(EnvironmentContract):
    """The contract with fewer rounds: means must agree to 0.045 instead of 0.023."""

    n_rounds = 5_000


@pytest.mark.parametrize("kind", ENVIRONMENTS)
class TestEveryEnvironment(QuickContract):
    @pytest.fixture(autouse=True)
    def _kind(self, kind: str) -> None:
        self.kind = kind

    def make_environment(self) -> Environment:
        return ENVIRONMENTS[self.kind]()


@pytest.mark.compiled
def test_machine_code_serves_what_the_interpreter_serves() -> None:
    """No other fast test plays links that drift as machine code."""
    links, nobody, shown = ENVIRONMENTS["drifting"](), np.zeros(0, np.int64), np.array([2, 0, 3])
    world, served = links.world(100), np.zeros((2, 100, 2, 3))
    for form, serve in enumerate((links.serving, switching(links.serving))):
        rng = np.random.default_rng(6)
        for k in range(100):
            serve(world, k + 1, nobody, shown, rng, served[form, k])
    assert 0.0 < served[0].mean() < 1.0
    np.testing.assert_array_equal(served[0], served[1])


class WeekendWorld(NamedTuple):
    click_rate: NDArray[np.float64]


def serve_weekends(
    world: WeekendWorld,
    round_number: int,
    visitor: NDArray[np.int64],
    shown: NDArray[np.int64],
    rng: np.random.Generator,
    outcomes: NDArray[np.float64],
) -> None:
    boost = 2.0 if round_number % 7 in (6, 0) else 1.0
    outcomes[0] = rng.random(len(shown)) < boost * world.click_rate[shown]
    outcomes[1] = 0.5 * outcomes[0]


class WeekendLinks(Environment):
    """What a user might write in plain Python: twice the clicks on two days of seven."""

    serve: ClassVar[Any] = staticmethod(serve_weekends)

    @property
    def n_links(self) -> int:
        return 3

    def world(self, n_rounds: int) -> WeekendWorld:
        return WeekendWorld(np.array([0.1, 0.2, 0.4]))

    def rates(self, n_rounds: int) -> NDArray[np.float64]:
        rounds = np.arange(1, n_rounds + 1)
        boost = np.where(np.isin(rounds % 7, (6, 0)), 2.0, 1.0).mean()
        clicks = boost * np.array([0.1, 0.2, 0.4])
        return np.array([clicks, 0.5 * clicks])


class TestPlainPythonEnvironment(QuickContract):
    def make_environment(self) -> Environment:
        return WeekendLinks()


class WrongMeans(BernoulliLinks):
    def rates(self, n_rounds: int) -> NDArray[np.float64]:
        return super().rates(n_rounds) * 0.9


def test_the_contract_sees_wrong_means() -> None:
    class Wrong(QuickContract):
        def make_environment(self) -> Environment:
            return WrongMeans(CLICKS, REVENUE)

    with pytest.raises(AssertionError):
        Wrong().test_means_are_those_of_rates()
