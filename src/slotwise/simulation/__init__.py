"""An experiment in, a results file out."""

from slotwise.simulation.results import Curve, Results, SummaryRow

__all__ = ["Curve", "Results", "SummaryRow"]
