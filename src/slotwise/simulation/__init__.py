"""An experiment in, a results file out."""

from slotwise.simulation.experiment import Experiment, label_policies, oracle
from slotwise.simulation.experiment_file import load_experiment
from slotwise.simulation.results import Curve, Results, SummaryRow
from slotwise.simulation.run import PlainPythonNote, run_experiment, simulate

__all__ = [
    "Curve",
    "Experiment",
    "PlainPythonNote",
    "Results",
    "SummaryRow",
    "label_policies",
    "load_experiment",
    "oracle",
    "run_experiment",
    "simulate",
]
