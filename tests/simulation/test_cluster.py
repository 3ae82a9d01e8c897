"""Experiments on a real Dask cluster of processes: the same numbers, whatever happens to it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.config
import numpy as np
import pytest
from distributed import Client, LocalCluster

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.policies import CUCB, Uniform
from slotwise.problem import Problem
from slotwise.simulation import Planned, Results, cluster, run_experiment, run_series, simulate
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock, blocks_of
from tests.simulation.worlds import FLOOR, LINKS, N_LINKS, N_SLOTS

N_RUNS, N_ROUNDS = 12, 100
POLICIES = {"cucb": CUCB(), "uniform": Uniform()}
N_ALL = N_RUNS * len(POLICIES)


def experiment() -> Experiment:
    problem = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=N_ROUNDS)
    return Experiment(LINKS, problem, POLICIES, N_RUNS, seed=3)


def start_cluster(n_workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with start_cluster(2) as workers, Client(workers, set_as_default=False) as one:
        yield one


@pytest.fixture(scope="module")
def local() -> Results:
    return run_experiment(experiment(), n_threads=1)


def assert_same(one: Results, other: Results) -> None:
    assert one.labels == other.labels
    assert np.array_equal(one.rounds, other.rounds)
    for label in one.labels:
        for quantity, values in one.totals[label].items():
            assert np.array_equal(values, other.totals[label][quantity])


@pytest.mark.parametrize("blocks_per_thread", [1, 4, 1000])
def test_the_numbers_are_those_of_one_machine(
    blocks_per_thread: int, client: Client, local: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "BLOCKS_PER_THREAD", blocks_per_thread)
    seen: list[tuple[int, int]] = []
    results = run_experiment(
        experiment(), scheduler=client, progress=lambda *done: seen.append(done)
    )
    assert_same(results, local)
    assert seen[0] == (0, N_ALL)
    assert seen[-1] == (N_ALL, N_ALL)
    assert results.config["seconds"]["cpu"] > 0


def test_a_series_shares_runs_and_counts_the_seconds_of_workers(
    client: Client, local: Results, tmp_path: Path
) -> None:
    plan = [Planned(experiment(), tmp_path / f"{name}.parquet") for name in ("one", "same")]
    results = run_series(plan, tmp_path / "parts", scheduler=client)
    for found in results:
        assert_same(found, local)
    first, second = (found.config["seconds"]["cpu"] for found in results)
    assert first > 0.0
    assert second == 0.0  # all its runs are those of the first


def test_simulate_takes_an_address(client: Client, local: Results) -> None:
    assert client.scheduler is not None
    results = simulate(
        LINKS,
        POLICIES,
        N_SLOTS,
        FLOOR,
        n_rounds=N_ROUNDS,
        n_runs=N_RUNS,
        seed=3,
        scheduler=client.scheduler.address,
    )
    assert_same(results, local)


def test_a_worker_that_is_killed_changes_no_number(
    client: Client, local: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "BLOCKS_PER_THREAD", 1000)
    victims = list(client.run(os.getpid).values())[:1]

    def kill_one(n_done: int, _: int) -> None:
        if n_done >= 3 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    assert_same(run_experiment(experiment(), scheduler=client, progress=kill_one), local)
    assert not victims


class Stop(KeyboardInterrupt):
    """Ctrl-C, pressed by a test."""


def test_after_ctrl_c_the_same_call_continues(
    client: Client, local: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "BLOCKS_PER_THREAD", 1000)

    def stop(n_done: int, _: int) -> None:
        if n_done >= 5:
            raise Stop

    with pytest.raises(Stop):
        run_experiment(experiment(), scheduler=client, parts=tmp_path, progress=stop)
    n_kept = len(list(tmp_path.rglob("*.npy")))
    assert n_kept >= 5
    seen: list[int] = []
    results = run_experiment(
        experiment(), scheduler=client, parts=tmp_path, progress=lambda n, _: seen.append(n)
    )
    assert seen[0] == n_kept
    assert_same(results, local)


def test_a_lost_scheduler_keeps_what_is_finished(
    local: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "BLOCKS_PER_THREAD", 1000)
    soon = {"distributed.comm.timeouts.connect": "1s"}  # how long a client tries to reconnect
    with (
        dask.config.set(soon),
        start_cluster(1) as workers,
        Client(workers, set_as_default=False) as lost,
    ):

        def end_scheduler(n_done: int, _: int) -> None:
            if n_done == 3:
                workers.close()

        with pytest.raises(SlotwiseError, match=r"was lost; finished runs are kept, and the same"):
            run_experiment(experiment(), scheduler=lost, parts=tmp_path, progress=end_scheduler)
    n_kept = len(list(tmp_path.rglob("*.npy")))
    assert 3 <= n_kept < N_ALL
    assert_same(run_experiment(experiment(), n_threads=1, parts=tmp_path), local)


@pytest.mark.parametrize("name", list(cluster.versions()))
def test_other_versions_of_a_worker_are_refused(
    name: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = cluster.versions()
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "versions", lambda: {**theirs, name: "0.0"})
        patched.setattr(client, "run", lambda _: {"tcp://worker": theirs})
        message = f"worker tcp://worker has {name} {theirs[name]}, this process has 0.0; install"
        with pytest.raises(SlotwiseError, match=message):
            run_experiment(experiment(), scheduler=client)


def test_a_worker_that_joins_late_with_other_versions_refuses_its_block(client: Client) -> None:
    (block, *_) = blocks_of(experiment(), [("cucb", 0)], 1)
    task = client.submit(cluster.play_checked, block, {**cluster.versions(), "numpy": "0.0"})
    with pytest.raises(SlotwiseError, match=r"this process has 0\.0; install the same versions"):
        task.result()


def missing_slotwise() -> Callable[[Any], Any]:
    def run(_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'slotwise'", name="slotwise")

    return run


def test_workers_without_slotwise_are_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "run", missing_slotwise())
    with pytest.raises(SlotwiseError, match=r"has no slotwise, .*install slotwise\[cluster\]=="):
        run_experiment(experiment(), scheduler=client)


def test_a_cluster_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WORKERS_S", 0.2)
    with (
        start_cluster(0) as empty,
        pytest.raises(SlotwiseError, match="has no workers; start some with: dask worker tcp://"),
    ):
        run_experiment(experiment(), scheduler=empty.scheduler_address)


def test_an_address_where_nobody_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(SlotwiseError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1 .*dask"):
        run_experiment(experiment(), scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("scheduler", ["head:8786", "", 8786])
def test_what_is_no_address_is_refused(scheduler: Any) -> None:
    with pytest.raises(InvalidInput, match="`scheduler` must be an address such as tcp://host:"):
        run_experiment(experiment(), scheduler=scheduler)


def test_threads_belong_to_the_workers(client: Client) -> None:
    with pytest.raises(InvalidInput, match="`n_threads` must be left out with `scheduler`"):
        run_experiment(experiment(), scheduler=client, n_threads=2)


def test_without_distributed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(
        "importlib.metadata.requires", lambda _: ["distributed>=1; extra == 'cluster'"]
    )
    with pytest.raises(SlotwiseError, match=r"`scheduler` needs .*'slotwise\[cluster\]'"):
        run_experiment(experiment(), scheduler="tcp://127.0.0.1:1")


def test_an_error_of_a_policy_comes_back_as_it_is(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(block: RunBlock, _: object) -> PlayedBlock:
        raise ArithmeticError(block.label)

    monkeypatch.setattr(cluster, "play_checked", fail)
    with pytest.raises(ArithmeticError, match=r"^(cucb|uniform)$"):
        run_experiment(experiment(), scheduler=client)


def test_blocks_cover_every_missing_run_once_and_are_not_too_long() -> None:
    missing = [(label, run) for run in range(7) for label in POLICIES]
    blocks = blocks_of(experiment(), missing, 3)
    assert sorted((block.label, run) for block in blocks for run in block.runs) == sorted(missing)
    assert max(len(block.runs) for block in blocks) == 3
    assert [block.label for block in blocks[:2]] == ["cucb", "uniform"]
