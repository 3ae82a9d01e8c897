"""The thread that learns rests between its steps while others need the interpreter."""

from __future__ import annotations

import pytest

from slotwise.service import giving_way
from slotwise.service.giving_way import REST_S, WAITED, WORK_S, give_way, in_background
from tests.service.conftest import OpenService
from tests.service.rows import T0


class Clocks:
    """The time, the time that this thread has computed, and its rests."""

    def __init__(self) -> None:
        self.now_s = self.computed_s = 0.0
        self.rests: list[float] = []

    def pass_by(self, computed_s: float, waited_s: float = 0.0) -> None:
        self.computed_s += computed_s
        self.now_s += computed_s + waited_s

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(giving_way, "perf_counter", lambda: clocks.now_s)
    monkeypatch.setattr(giving_way, "thread_time", lambda: clocks.computed_s)
    monkeypatch.setattr(giving_way, "sleep", clocks.sleep)
    return clocks


def test_it_rests_after_each_piece_of_work_that_others_interrupted(clocks: Clocks) -> None:
    with in_background() as background:
        for _ in range(3):
            clocks.pass_by(WORK_S / 2, WORK_S)
            give_way()  # too early
            clocks.pass_by(WORK_S / 2)
            give_way()
    assert clocks.rests == [REST_S] * 3
    assert background.rested_s == pytest.approx(3 * REST_S)


def test_it_does_not_rest_while_nobody_else_computes(clocks: Clocks) -> None:
    with in_background():
        for _ in range(3):
            clocks.pass_by(WORK_S, 0.9 * WAITED * WORK_S)
            give_way()
    assert clocks.rests == []


def test_work_for_a_caller_who_waits_never_rests(clocks: Clocks) -> None:
    with in_background():
        pass
    clocks.pass_by(1.0, 1.0)
    give_way()
    list(giving_way.giving_way(range(100)))
    assert clocks.rests == []


def test_only_the_thread_that_learns_is_in_the_background(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(fold_every_s=0.0)
    seen: list[bool] = []

    def learn(now_us: int) -> None:
        seen.append(giving_way._local.background is not None)
        service.learner._stopping.set()

    monkeypatch.setattr(service.learner, "learn", learn)
    service.learner._run(lambda: T0)
    assert seen == [True]
    assert giving_way._local.background is None
