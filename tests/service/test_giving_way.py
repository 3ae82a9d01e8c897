"""The thread that learns rests between its steps; other threads never do."""

from __future__ import annotations

import time

import pytest

from slotwise.service import giving_way
from slotwise.service.giving_way import REST_S, WORK_S, give_way, in_background
from tests.service.conftest import OpenService
from tests.service.rows import T0


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the lengths of rests, and do not rest."""
    found: list[float] = []
    monkeypatch.setattr(giving_way, "sleep", found.append)
    return found


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_thread_in_the_background_rests_after_each_piece_of_work(rests: list[float]) -> None:
    with in_background() as background:
        for _ in range(3):
            compute(WORK_S)
            give_way()
        give_way()  # has computed nothing since
    assert rests == [REST_S] * 3
    assert background.rested_s == pytest.approx(3 * REST_S)


def test_work_for_a_caller_who_waits_never_rests(rests: list[float]) -> None:
    with in_background():
        pass
    compute(WORK_S)
    give_way()
    list(giving_way.giving_way(range(100)))
    assert rests == []


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
