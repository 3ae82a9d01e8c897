"""Sources of feedback for simulations, and data sets to build them from."""

from slotwise.environments.bernoulli import (
    BernoulliLevels,
    BernoulliLinks,
    BetaRevenueLinks,
    FixedPriceLinks,
    IntervalLinks,
)
from slotwise.environments.changing import (
    DriftingLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.environments.environment import Environment, VisitorRates
from slotwise.environments.visitor_shops import LogisticLinks, SegmentLinks

__all__ = [
    "BernoulliLevels",
    "BernoulliLinks",
    "BetaRevenueLinks",
    "DriftingLinks",
    "Environment",
    "FixedPriceLinks",
    "IntervalLinks",
    "LateFeedback",
    "LogisticLinks",
    "SegmentLinks",
    "VisitorRates",
    "drift_towards",
]
