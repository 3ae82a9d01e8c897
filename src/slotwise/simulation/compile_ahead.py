"""Compile the loops of experiments in two processes, before their runs are played.

numba compiles one function at a time in a process. A second process compiles half of the loops into
the cache on disk, from where this one loads them. It is started when the first loop had to be
compiled, and not where the code was on disk already. Used by `series`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import thread_time

from slotwise.compile import compiles
from slotwise.simulation.engine import is_machine_code
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.run_blocks import RunBlock, blocks_of

LOADED_WITHIN_S = 1.0
"""Processor time that loading a stored loop takes at most; compiling one takes several seconds."""


def compile_ahead(experiments: Iterable[Experiment], n_threads: int) -> None:
    """Compile the loops that these experiments need, in two processes where there are threads."""
    loops = distinct_loops(experiments) if compiles() else []
    if not loops:
        return
    first, *rest = loops
    started = thread_time()
    first.play_first_round()
    is_compiling = thread_time() - started > LOADED_WITHIN_S
    if n_threads < 2 or len(rest) < 2 or not is_compiling:
        for block in rest:
            block.play_first_round()
        return
    # The last loop of the paper, that of the default policy, takes the longest: it goes first.
    with compiled_elsewhere(rest[::-2]):
        for block in rest[-2::-2]:
            block.play_first_round()


def distinct_loops(experiments: Iterable[Experiment]) -> list[RunBlock]:
    """Return a run for each combination of policy and environment that has a loop of its own."""
    found: dict[tuple[object, ...], RunBlock] = {}
    for experiment in experiments:
        problem = experiment.problem
        for label, policy in experiment.policies.items():
            if is_machine_code(policy, experiment.environment):
                shape = (problem.n_levels, len(problem.feature_sizes), bool(problem.rules))
                key = (type(policy), type(experiment.environment), *shape)
                if key not in found:
                    (found[key],) = blocks_of(experiment, [(label, 0)], 1)
    return list(found.values())


@contextmanager
def compiled_elsewhere(blocks: Sequence[RunBlock]) -> Iterator[None]:
    """Let another process compile the loops of `blocks` meanwhile, and wait for it at the end.

    If it fails, this process compiles them when they are played.
    """
    try:
        pickled = pickle.dumps(list(blocks))
    except (pickle.PicklingError, AttributeError, TypeError):  # a policy of a notebook, say
        yield
        return
    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "slotwise.simulation.compile_ahead"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
    except OSError:
        yield
        return
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(pickled)
        yield
        process.wait()
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Compile the loops of the runs that the input has, as `pickle` writes them."""
    for block in pickle.load(sys.stdin.buffer):  # from the process that started this one
        block.play_first_round()


if __name__ == "__main__":
    main()
