"""Run experiments: an experiment in, a results file out."""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.simulation`"):
    from slotwise.simulation.experiment import Experiment, label_policies
    from slotwise.simulation.experiment_file import ExperimentFile, load_experiment
    from slotwise.simulation.optimum import Optimum, best_fixed_mix, oracle
    from slotwise.simulation.results import Curve, Results, SummaryRow
    from slotwise.simulation.run import PlainPythonNote, run_experiment, simulate
    from slotwise.simulation.series import Planned, run_series
    from slotwise.simulation.shipped import experiment_path, shipped_experiments
    from slotwise.simulation.simulated_log import log_run, simulate_log

__all__ = [
    "Curve",
    "Experiment",
    "ExperimentFile",
    "Optimum",
    "PlainPythonNote",
    "Planned",
    "Results",
    "SummaryRow",
    "best_fixed_mix",
    "experiment_path",
    "label_policies",
    "load_experiment",
    "log_run",
    "oracle",
    "run_experiment",
    "run_series",
    "shipped_experiments",
    "simulate",
    "simulate_log",
]
