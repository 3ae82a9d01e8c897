"""The laws of an environment as tests: subclass `EnvironmentContract` and make yours there.

Such a subclass, whole:

    class TestMyLinks(EnvironmentContract):
        def make_environment(self) -> Environment:
            return MyLinks(click_rate=[0.5, 0.1, 0.3])
"""

from __future__ import annotations

import copy
import math
from typing import ClassVar

import numpy as np
import pytest

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.environments import Environment

FALSE_ALARM = 1e-7
"""The total probability that the comparison of means fails by accident."""


class EnvironmentContract:
    """One test for each law in the docstring of `slotwise.environments.Environment`."""

    n_rounds: ClassVar[int] = 20_000
    """Rounds served for the means: they must agree to about 3 / sqrt(n_rounds)."""

    def make_environment(self) -> Environment:
        raise NotImplementedError

    def serve(
        self, environment: Environment, world: object, n_rounds: int, seed: int = 1
    ) -> Floats:
        """Show all links in every round; return the outcomes by round, level and link."""
        rng = np.random.default_rng(seed)
        shown = np.arange(environment.n_links)
        outcomes = np.full((n_rounds, len(environment.levels), len(shown)), np.nan)
        visitor = np.zeros(len(environment.feature_sizes) + 1, np.int64)
        for k in range(n_rounds):
            switching(environment.arriving)(world, k + 1, rng, visitor)
            switching(environment.serving)(world, k + 1, visitor, shown, rng, outcomes[k])
        return outcomes

    def test_sizes_agree(self) -> None:
        environment = self.make_environment()
        rates = environment.rates(self.n_rounds)
        assert rates.shape == (len(environment.levels), environment.n_links)
        assert len(environment.delays) == len(environment.levels)
        assert min(environment.delays) >= 0
        assert environment.views_per_round >= 1

    def test_rates_are_means_of_products(self) -> None:
        rates = self.make_environment().rates(self.n_rounds)
        assert np.all((rates >= 0) & (rates <= 1))
        assert np.all(np.diff(rates, axis=0) <= 1e-12)

    def test_outcomes_lie_between_nothing_and_every_view(self) -> None:
        environment = self.make_environment()
        outcomes = self.serve(environment, environment.world(500), 500)
        assert np.all((outcomes >= 0) & (outcomes <= environment.views_per_round))

    def test_no_level_brings_more_than_the_level_before(self) -> None:
        environment = self.make_environment()
        outcomes = self.serve(environment, environment.world(500), 500)
        assert np.all(np.diff(outcomes, axis=1) <= 0)

    def test_means_are_those_of_rates(self) -> None:
        """By Hoeffding's inequality, fails by accident with probability below `FALSE_ALARM`."""
        environment = self.make_environment()
        rates = environment.rates(self.n_rounds)
        outcomes = self.serve(environment, environment.world(self.n_rounds), self.n_rounds)
        means = outcomes.mean(axis=0) / environment.views_per_round
        allowed = math.sqrt(math.log(2 * rates.size / FALSE_ALARM) / (2 * self.n_rounds))
        assert np.abs(means - rates).max() <= allowed

    def test_visitors_are_those_of_visitor_rates(self) -> None:
        """By Hoeffding's inequality, fails by accident with probability below `FALSE_ALARM`."""
        environment = self.make_environment()
        known = environment.visitor_rates(self.n_rounds)
        assert known.places.shape == (len(known.shares), len(environment.feature_sizes))
        assert known.shares.sum() == pytest.approx(1.0)
        means = np.tensordot(known.shares, known.rates, axes=1)
        np.testing.assert_allclose(means, environment.rates(self.n_rounds), atol=1e-12)
        first = np.concatenate([[0], np.cumsum(environment.feature_sizes)]).astype(int)
        rng, world = np.random.default_rng(7), environment.world(self.n_rounds)
        visitor = np.zeros(len(environment.feature_sizes) + 1, np.int64)
        seen = np.zeros(first[-1])
        for k in range(self.n_rounds):
            switching(environment.arriving)(world, k + 1, rng, visitor)
            for feature, place in enumerate(visitor[:-1]):
                assert first[feature] <= place < first[feature + 1]
                seen[place] += 1
        expected = np.zeros(first[-1])
        for feature in range(len(environment.feature_sizes)):
            np.add.at(expected, known.places[:, feature], known.shares)
        allowed = math.sqrt(math.log(2 * max(1, len(seen)) / FALSE_ALARM) / (2 * self.n_rounds))
        assert np.abs(seen / self.n_rounds - expected).max(initial=0.0) <= allowed

    def test_the_same_generator_gives_the_same_visitors(self) -> None:
        environment = self.make_environment()
        first, second, other = (
            self.serve(environment, environment.world(300), 300, seed) for seed in (3, 3, 4)
        )
        assert np.array_equal(first, second)
        assert not np.array_equal(first, other)

    def test_serving_leaves_the_world_as_it_was(self) -> None:
        environment = self.make_environment()
        world = environment.world(50)
        before = copy.deepcopy(world)
        self.serve(environment, world, 50)
        for one, other in zip(world, before, strict=True):
            assert np.array_equal(one, other)

    def test_a_page_answers_in_its_own_order(self) -> None:
        environment = self.make_environment()
        rng = np.random.default_rng(5)
        world = environment.world(400)
        link = environment.n_links - 1
        outcomes = np.zeros((len(environment.levels), 1))
        total = 0.0
        visitor = np.zeros(len(environment.feature_sizes) + 1, np.int64)
        for round_number in range(1, 401):
            switching(environment.arriving)(world, round_number, rng, visitor)
            switching(environment.serving)(
                world, round_number, visitor, np.array([link]), rng, outcomes
            )
            total += outcomes[0, 0] / environment.views_per_round
        allowed = math.sqrt(math.log(2 / FALSE_ALARM) / 800)
        assert abs(total / 400 - environment.rates(400)[0, link]) <= allowed
