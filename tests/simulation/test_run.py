"""Running an experiment: the same numbers however it is run, and after any interruption."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.environments import Environment, LateFeedback
from slotwise.environments.datasets import load_dataset
from slotwise.errors import InvalidInput, UnknownName
from slotwise.policies import CUCB, ConUCB, Exp3M, FixedMix, LExp, Policy, Uniform
from slotwise.problem import Problem
from slotwise.simulation import Experiment, Results, oracle, run_blocks, run_experiment, simulate
from slotwise.simulation.experiment import N_CHECKPOINTS, current_commit
from slotwise.simulation.run_blocks import PlayedBlock, RunBlock
from tests.simulation.worlds import FLOOR, LINKS, N_LINKS, N_SLOTS

POLICIES: dict[str, Policy] = {
    "con-ucb": ConUCB(gamma_scale=1 / 72),
    "lexp": LExp(),
    "cucb": CUCB(),
    "exp3-m": Exp3M(),
}


def experiment(
    policies: dict[str, Policy] | None = None,
    n_runs: int = 5,
    environment: Environment = LINKS,
    n_rounds: int = 300,
    seed: int = 3,
) -> Experiment:
    problem = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=n_rounds)
    return Experiment(environment, problem, policies or POLICIES, n_runs, seed)


def assert_same(one: Results, other: Results, labels: list[str] | None = None) -> None:
    assert np.array_equal(one.rounds, other.rounds)
    for label in labels or one.labels:
        for quantity in one.totals[label]:
            assert np.array_equal(one.totals[label][quantity], other.totals[label][quantity])


@pytest.fixture
def count_plays(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the runs that are really played."""
    plays, play = [], RunBlock.play

    def counted(block: RunBlock) -> PlayedBlock:
        plays.append(block.runs)
        return play(block)

    monkeypatch.setattr(RunBlock, "play", counted)

    def take() -> int:
        n_plays = len(plays)
        plays.clear()
        return n_plays

    return take


class Stop(KeyboardInterrupt):
    """Ctrl-C, pressed by a test."""


def stop_after(n_runs: int) -> Callable[[int, int], None]:
    def progress(n_done: int, n_all: int) -> None:
        if n_done >= n_runs:
            raise Stop

    return progress


@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_change_no_number(n_threads: int) -> None:
    alone = run_experiment(experiment(), n_threads=1)
    assert_same(alone, run_experiment(experiment(), n_threads=n_threads))


def test_other_policies_change_no_number() -> None:
    all_of_them = run_experiment(experiment(), n_threads=2)
    turned = dict(reversed(POLICIES.items())) | {"uniform": Uniform()}
    assert_same(all_of_them, run_experiment(experiment(turned)), list(POLICIES))
    for label, policy in POLICIES.items():
        assert_same(all_of_them, run_experiment(experiment({label: policy})), [label])


def test_more_runs_change_no_number() -> None:
    few, many = run_experiment(experiment(n_runs=2)), run_experiment(experiment(n_runs=5))
    for label in few.labels:
        assert np.array_equal(few.final(label, "reward"), many.final(label, "reward")[:2])


def test_another_seed_changes_the_numbers() -> None:
    one, other = run_experiment(experiment()), run_experiment(experiment(seed=4))
    assert not np.array_equal(one.final("cucb", "reward"), other.final("cucb", "reward"))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_done", [0, 1, 7, 19])
def test_after_ctrl_c_the_same_call_goes_on(
    n_done: int, n_threads: int, tmp_path: Path, count_plays: Callable[[], int]
) -> None:
    whole = run_experiment(experiment(), n_threads=n_threads)
    count_plays()
    with pytest.raises(Stop):
        run_experiment(
            experiment(), n_threads=n_threads, parts=tmp_path, progress=stop_after(n_done)
        )
    n_played = count_plays()
    n_kept = len(list(tmp_path.rglob("*.npy")))
    assert n_kept == n_played >= n_done
    resumed = run_experiment(experiment(), n_threads=n_threads, parts=tmp_path)
    assert count_plays() == 20 - n_kept
    assert_same(whole, resumed)


def test_ctrl_c_while_runs_are_submitted_waits_for_none_that_has_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_shut_down, played = threading.Event(), []

    class Interrupted(ThreadPoolExecutor):
        def submit(self, play: Callable[..., object], /, block: RunBlock) -> Future[object]:  # type: ignore[override]
            if block.runs == (2,):
                raise Stop
            return super().submit(play, block)

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            is_shut_down.set()
            super().shutdown(wait=wait)

    def play(block: RunBlock) -> PlayedBlock:
        is_shut_down.wait()
        played.append(block.runs)
        return PlayedBlock([], [])

    monkeypatch.setattr(run_blocks, "ThreadPoolExecutor", Interrupted)
    monkeypatch.setattr(RunBlock, "play", play)
    with pytest.raises(Stop):
        run_experiment(experiment({"cucb": CUCB()}), n_threads=1)
    assert (1,) not in played


def test_kept_runs_serve_more_runs_and_more_policies(
    tmp_path: Path, count_plays: Callable[[], int]
) -> None:
    run_experiment(experiment(n_runs=3), parts=tmp_path)
    assert count_plays() == 12
    more = {"uniform": Uniform(), **POLICIES}
    grown = run_experiment(experiment(more, n_runs=5), parts=tmp_path)
    assert count_plays() == 5 + 4 * 2
    assert_same(grown, run_experiment(experiment(more, n_runs=5)))


@pytest.mark.parametrize(
    "other",
    [
        experiment(seed=4),
        experiment(n_rounds=301),
        experiment(environment=LateFeedback(LINKS, 0, 1)),
        experiment({"con-ucb": ConUCB(gamma_scale=1 / 71)}),
    ],
    ids=["seed", "rounds", "delay", "settings"],
)
def test_kept_runs_of_another_experiment_are_left_alone(
    other: Experiment, tmp_path: Path, count_plays: Callable[[], int]
) -> None:
    run_experiment(experiment(), parts=tmp_path)
    count_plays()
    run_experiment(other, parts=tmp_path)
    assert count_plays() == other.n_runs * len(other.policies)


def test_a_broken_part_is_played_again(tmp_path: Path, count_plays: Callable[[], int]) -> None:
    whole = run_experiment(experiment(), parts=tmp_path)
    count_plays()
    next(tmp_path.rglob("*.npy")).write_bytes(b"half a fi")
    assert_same(whole, run_experiment(experiment(), parts=tmp_path))
    assert count_plays() == 1


@pytest.mark.compiled
def test_memory_does_not_grow_with_rounds() -> None:
    def peak(n_rounds: int) -> int:
        run_experiment(experiment(n_rounds=100, n_runs=1), n_threads=1)  # compiles
        tracemalloc.start()
        run_experiment(experiment(n_rounds=n_rounds, n_runs=2), n_threads=1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(100_000) < peak(1_000) + 1_000_000


def test_memory_of_the_whole_paper_is_small() -> None:
    """200 runs of 6 policies keep three kinds of totals of two levels at the checkpoints."""
    checkpoints = experiment(n_rounds=50_000).checkpoints
    n_bytes = 8 * 3 * 2 * len(checkpoints) * 200 * 6
    assert len(checkpoints) <= 1.25 * N_CHECKPOINTS
    assert n_bytes < 50e6


@pytest.mark.parametrize("n_rounds", [1, 2, 17, 240, 50_000])
def test_checkpoints_grow_and_end_with_the_last_round(n_rounds: int) -> None:
    checkpoints = experiment(n_rounds=n_rounds).checkpoints
    assert checkpoints[0] == 1
    assert checkpoints[-1] == n_rounds
    assert np.all(np.diff(checkpoints) > 0)


def test_progress_is_told_from_nothing_to_all() -> None:
    told: list[tuple[int, int]] = []
    run_experiment(experiment(n_runs=2), progress=lambda *counts: told.append(counts))
    assert told == [(n_done, 8) for n_done in range(9)]


@pytest.mark.compiled
def test_the_oracle_has_no_regret_and_keeps_the_floor() -> None:
    """Means over 20,000 rounds; by Hoeffding each fails by accident below 1e-7."""
    best = oracle(LINKS, N_SLOTS, FLOOR, 20_000)
    results = simulate(LINKS, {"oracle": best}, N_SLOTS, FLOOR, 20_000, n_runs=1)
    allowed = N_SLOTS * np.sqrt(20_000 * np.log(2 / 1e-7) / 2)
    assert abs(results.final("oracle", "regret")[0]) < allowed
    assert results.final("oracle", "shortfall")[0] < allowed
    assert results.config["optimum"]["status"] == "binding"


def test_a_floor_out_of_reach_is_said_with_the_best_that_can_be_had() -> None:
    results = simulate(LINKS, [Uniform()], N_SLOTS, 2.5, n_rounds=10, n_runs=1)
    most = np.sort(np.linspace(0.1, 0.6, N_LINKS))[-N_SLOTS:].sum()
    optimum = results.config["optimum"]
    assert optimum["status"] == "infeasible"
    assert optimum["shadow_price"] is None
    assert optimum["clicks"] == pytest.approx(most)
    assert optimum["attainable_clicks"] == pytest.approx(most)


def test_settings_of_any_kind_can_be_filed(tmp_path: Path) -> None:
    share = np.full(N_LINKS, N_SLOTS / N_LINKS)
    results = simulate(LINKS, [FixedMix(share)], N_SLOTS, n_rounds=10, n_runs=1)  # type: ignore[arg-type]
    results.save(tmp_path / "mix.parquet")
    loaded = Results.load(tmp_path / "mix.parquet")
    assert loaded.config["policies"][0]["settings"]["probabilities"] == share.tolist()
    assert loaded.config["commit"] == current_commit()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_runs": 2.5}, "`n_runs` must be a whole number, got 2.5"),
        ({"n_runs": 0}, "`n_runs` must be at least 1, got 0"),
        ({"n_rounds": 0}, "`n_rounds` must be at least 1, got 0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"seed": 1.5}, "`seed` must be a whole number, got 1.5"),
        ({"n_threads": 0}, "`n_threads` must be at least 1, got 0"),
        ({"n_slots": 13}, "`n_slots` must be at most the number of links (12), got 13"),
        ({"policies": []}, "`policies` must be at least one policy, got []"),
        ({"policies": [CUCB(), CUCB()]}, "give a mapping from label to policy"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], message: str) -> None:
    arguments = {"policies": [CUCB()], "n_slots": N_SLOTS, "n_rounds": 10, "n_runs": 1} | changes
    with pytest.raises(InvalidInput) as error:
        simulate(LINKS, **arguments)  # type: ignore[arg-type]
    assert message in str(error.value)


SMALL: dict[str, Any] = {"n_rounds": 20, "n_runs": 2}


def test_a_data_set_brings_its_page_and_its_description() -> None:
    ads = load_dataset("ads-like")
    named = simulate("ads-like", ["con-ucb", "cucb"], **SMALL)
    given = simulate(ads, ["con-ucb", CUCB()], **SMALL)
    by_hand = simulate(
        ads.links,
        [ConUCB(failure_probability=ads.failure_probability), CUCB()],
        ads.n_slots,
        ads.click_floor,
        **SMALL,
    )
    assert_same(named, given)
    assert_same(named, by_hand)
    assert named.config["dataset"]["title"] == ads.title
    assert named.config["failure_probability"] == ads.failure_probability
    other = simulate(ads, "uniform", n_slots=3, click_floor=0.5, **SMALL)
    assert (other.config["n_slots"], other.config["click_floor"]) == (3, 0.5)


def test_one_policy_needs_no_list() -> None:
    for policy in ("uniform", Uniform()):
        assert simulate(LINKS, policy, N_SLOTS, **SMALL).labels == ("uniform",)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"links": [0.5, 0.2]}, InvalidInput, r"`links` must be .*BernoulliLinks\(click_rate, rev"),
        ({"links": "coupon-lik"}, UnknownName, "did you mean 'coupon-like'"),
        ({"links": LINKS}, InvalidInput, "`n_slots` must be given with an environment, got None"),
        ({"rounds": 5}, TypeError, "`simulate` has no argument `rounds`; did you mean `n_rounds`"),
    ],
)
def test_what_people_try_first_is_answered_in_one_sentence(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    given: dict[str, Any] = {"links": "ads-like", "policies": "uniform", **SMALL, **arguments}
    with pytest.raises(error, match=message):
        simulate(**given)
