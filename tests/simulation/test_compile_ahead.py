"""Loops are compiled once each, half of them by another process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slotwise.policies import CUCB, Exp3M, LExp, Uniform
from slotwise.problem import Problem
from slotwise.simulation import Experiment, compile_ahead as module
from slotwise.simulation.compile_ahead import compiled_elsewhere, distinct_loops
from slotwise.simulation.run_blocks import RunBlock
from tests.simulation.worlds import FLOOR, LINKS, N_LINKS, N_SLOTS


def experiment(**policies: object) -> Experiment:
    problem = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=20)
    return Experiment(LINKS, problem, policies, 3, 1)  # type: ignore[arg-type]


def test_policies_that_share_a_loop_are_compiled_once() -> None:
    blocks = distinct_loops([experiment(a=CUCB(), b=CUCB(), c=LExp()), experiment(d=LExp())])
    assert [type(block.policy) for block in blocks] == [CUCB, LExp]


@pytest.mark.parametrize(("seconds", "others"), [(0.1, []), (9.0, ["Uniform", "LExp"])])
def test_a_second_process_is_started_only_if_the_first_loop_was_compiled(
    seconds: float, others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, seconds])
    played: list[str] = []
    sent: list[str] = []

    class Elsewhere:
        def __init__(self, blocks: list[RunBlock]) -> None:
            sent.extend(type(block.policy).__name__ for block in blocks)

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def note(block: RunBlock) -> None:
        played.append(type(block.policy).__name__)

    monkeypatch.setattr(module, "compiles", lambda: True)
    monkeypatch.setattr(module, "is_machine_code", lambda *_: True)
    monkeypatch.setattr(module, "thread_time", lambda: next(clock))
    monkeypatch.setattr(module, "compiled_elsewhere", Elsewhere)
    monkeypatch.setattr(RunBlock, "play_first_round", note)
    module.compile_ahead([experiment(a=CUCB(), b=LExp(), c=Exp3M(), d=Uniform())], n_threads=2)
    assert sent == others
    assert sorted(played + sent) == ["CUCB", "Exp3M", "LExp", "Uniform"]


def test_the_other_process_stores_what_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SLOTWISE_COMPILE", raising=False)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    with compiled_elsewhere(distinct_loops([experiment(a=Uniform())])):
        pass
    assert [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_process_that_cannot_be_started_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with compiled_elsewhere(distinct_loops([experiment(a=Uniform())])):
        pass
