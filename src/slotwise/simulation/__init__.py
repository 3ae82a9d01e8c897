"""Run experiments: an experiment in, a results file out.

`engine` plays one run in a compiled loop, `experiment` and `experiment_file` describe what is
played, `series` and `gathering` play what is missing, on threads (`run_blocks`) or on a `cluster`,
`optimum` has the best mix that regret is measured against, and `results` holds what came out. The
command line and the benchmarks use it. It may import environments, `player` and what is below.
"""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.simulation`"):
    from slotwise.simulation.experiment import Experiment, label_policies
    from slotwise.simulation.experiment_file import ExperimentFile, load_experiment
    from slotwise.simulation.optimum import Optimum, best_fixed_mix, oracle
    from slotwise.simulation.results import Curve, Results, SummaryRow
    from slotwise.simulation.series import (
        PlainPythonNote,
        Planned,
        run_experiment,
        run_series,
        simulate,
    )
    from slotwise.simulation.shipped_experiments import experiment_path, shipped_experiments
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
