"""Ask a log what another policy, floor or page would have earned.

`log_reader` reads a log of page views in one pass, `candidates` says with what probability each
link would have been on a page, `estimators` adds up the pages, and `confidence_sequence` gives
intervals that hold at every length of the log. The command line and the service's reports use it.
It may import `player` and what is below, and it never simulates.
"""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.evaluation`"):
    from slotwise.evaluation.answers import Estimate, Evaluation
    from slotwise.evaluation.candidates import BestMix, Candidate, LinkMix, read_mix
    from slotwise.evaluation.estimators import ESTIMATORS
    from slotwise.evaluation.evaluate import EvaluationSettings, evaluate, evaluate_all
    from slotwise.evaluation.fitted_links import FittedLinks, fit_links
    from slotwise.evaluation.log_frontier import LogFrontier, frontier_of_log

__all__ = [
    "ESTIMATORS",
    "BestMix",
    "Candidate",
    "Estimate",
    "Evaluation",
    "EvaluationSettings",
    "FittedLinks",
    "LinkMix",
    "LogFrontier",
    "evaluate",
    "evaluate_all",
    "fit_links",
    "frontier_of_log",
    "read_mix",
]
