"""Sources of feedback for simulations, and data sets to build them from."""

from slotwise.environments.amounts import BetaRevenueLinks, FixedPriceLinks
from slotwise.environments.bernoulli import BernoulliLevels, BernoulliLinks, IntervalLinks
from slotwise.environments.changing import DriftingLinks, LateFeedback, drift_towards
from slotwise.environments.contract import Environment, VisitorRates
from slotwise.environments.drifting_segments import DriftingSegments
from slotwise.environments.visitors import LogisticLinks, SegmentLinks

__all__ = [
    "BernoulliLevels",
    "BernoulliLinks",
    "BetaRevenueLinks",
    "DriftingLinks",
    "DriftingSegments",
    "Environment",
    "FixedPriceLinks",
    "IntervalLinks",
    "LateFeedback",
    "LogisticLinks",
    "SegmentLinks",
    "VisitorRates",
    "drift_towards",
]
