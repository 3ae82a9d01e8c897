"""Plans run in a process of their own: one at a time, and only while somebody waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from slotwise.service.planning import Planner
from slotwise.service.refusals import Conflict
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings

pytestmark = pytest.mark.compiled

SAY = "import sys; print('{\"done\": 0.5}', flush=True); "


def planner(program: str, within_s: float = 600.0) -> Planner:
    return Planner(within_s, (sys.executable, "-c", SAY + program))


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def all_lines(lines: AsyncGenerator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line async for line in lines]


def test_lines_come_as_they_are_written() -> None:
    async def ask() -> None:
        plans = planner('print(\'{"plan": {"links": "\' + sys.argv[1] + \'"}}\')')
        for number in ("4", "5"):  # the second is not refused: the first has ended
            lines = await all_lines(plans.start([number]))
            assert lines == [{"done": 0.5}, {"plan": {"links": number}}]

    run(ask)


def test_the_process_is_told_how_long_it_may_take() -> None:
    async def ask() -> None:
        plans = planner("print('{\"plan\": \"' + sys.argv[-1] + '\"}')", within_s=45.5)
        assert (await all_lines(plans.start([])))[-1] == {"plan": "--within=45.5"}

    run(ask)


def test_a_traceback_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        plans = planner("raise ValueError('p must be in the range 0.0 < p < 1.0')")
        assert await all_lines(plans.start([])) == [
            {"done": 0.5},
            {"failed": "the simulation ended without an answer"},
        ]

    run(ask)
    assert caplog.messages == ["a plan failed: ValueError"]


def test_the_last_line_of_a_failure_is_told() -> None:
    async def ask() -> None:
        plans = planner("sys.exit('first\\nslotwise: `slots` must be less')")
        assert await all_lines(plans.start([])) == [
            {"done": 0.5},
            {"failed": "slotwise: `slots` must be less"},
        ]

    run(ask)


def test_a_second_plan_is_refused_until_the_first_is_closed() -> None:
    async def ask() -> None:
        plans = planner("sys.stdin = None; import threading; threading.Event().wait()")
        lines = plans.start([])
        assert await anext(lines) == {"done": 0.5}
        with pytest.raises(Conflict, match="another plan is being simulated"):
            plans.start([])
        await lines.aclose()  # the process would wait for ever
        while True:
            try:
                again = plans.start([])
                break
            except Conflict:
                await asyncio.sleep(0)
        async with aclosing(again):
            assert await anext(again) == {"done": 0.5}

    run(ask)


def test_a_plan_that_takes_too_long_is_ended() -> None:
    async def ask() -> None:
        plans = planner("import threading; threading.Event().wait()", within_s=0.5)
        last = (await all_lines(plans.start([])))[-1]
        assert last["failed"].startswith("the simulation took longer than 0.5 seconds; ask for")

    run(ask)


def test_closing_ends_the_process() -> None:
    async def ask() -> None:
        plans = planner("import threading; threading.Event().wait()")
        lines = plans.start([])
        assert await anext(lines) == {"done": 0.5}
        plans.close()
        assert await all_lines(lines) == []

    run(ask)


def test_a_service_that_stops_ends_its_plan(tmp_path: Path) -> None:
    long = {"links": 9, "slots": 2, "click_rate": 0.1, "revenue_per_click": 0.1}
    long |= {"views_per_day": 1, "max_views": 1_000_000, "cases": 1000}
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'plan.db'}")
    with (
        BackgroundServer(settings) as server,
        httpx.Client(base_url=server.url, timeout=600) as client,
        client.stream("POST", "/v1/plan", json=long) as answer,
    ):
        assert next(answer.iter_lines()) == '{"done":0.0}'
        run = server.context.planner._run
        server.stop()
    assert run is not None
    assert run._process is not None
    assert run._process.wait() < 0  # by a signal
