"""`slotwise plan`: more traffic where there is less to see."""

from __future__ import annotations

import json
import math
import shlex
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from slotwise.cli import needed_traffic
from slotwise.cli.main import main
from slotwise.errors import InvalidInput
from slotwise.service.counting.attribution import Counters, Group, PageCounters
from slotwise.service.counting.counters import SHARE_UNIT
from slotwise.service.reporting.pool_report import report_lift
from slotwise.simulation.simulated_log import RoughPage, _lift_visible, _waiting, plan_traffic
from tests.docs.pages import blocks_of, command_lines, read_page
from tests.service.rows import pool

pytestmark = pytest.mark.compiled

PAGE = ["plan", "--links", "6", "--slots", "2", "--click-rate", "0.2", "--views-per-day", "500"]
FEW = ["--cases", "12", "--views", "2000"]


def test_days_are_printed_and_numbers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*PAGE, "--revenue-per-click", "0.4", "--floor", "0.3", *FEW]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "floor kept:   " in printed
    assert "in 95% of 12 simulated cases" in printed
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_cases"] == 12
    again = plan_traffic(RoughPage(6, 2, 0.2, 0.4, 0.3), n_views=2000, n_cases=12)
    assert found["floor"]["views"] == (again.floor.views if again.floor.views < math.inf else None)


def test_the_manual_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = blocks_of(read_page("docs/web-team.md"))
    [at] = [index for index, block in enumerate(blocks) if "slotwise plan" in block.code]
    [command] = command_lines(blocks[at].code)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == blocks[at + 1].code


def test_a_floor_that_asks_for_nothing_is_kept_at_once_and_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = plan_traffic(RoughPage(6, 2, 0.2, 0.4), n_views=1000, n_cases=10)
    assert plan.floor.views == 1.0
    assert plan.share_of_floors_in_reach == 1.0
    assert main([*PAGE, "--revenue-per-click", "0.4", *FEW]) == 0
    printed = capsys.readouterr().out
    assert "floor" not in printed
    assert "lift visible: " in printed


def test_ctrl_c_is_answered_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needed_traffic, "plan_traffic", lambda *_, **__: signal.raise_signal(2))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main([*PAGE, "--revenue-per-click", "0.4", *FEW]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    _, *lines = capsys.readouterr().err.splitlines()
    stopping = "stopping when current compilations and runs have finished"
    assert lines == [stopping, "slotwise: interrupted"]


def test_a_floor_out_of_reach_is_never_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAGE, "--revenue-per-click", "0.4", "--floor", "1.9", *FEW]) == 0
    printed = capsys.readouterr().out
    assert "floor kept:   not within 4 days (2,000 page views)" in printed
    assert "in reach of the links in 0% of cases" in printed


def test_the_quantile_is_an_order_statistic() -> None:
    found = _waiting(np.arange(1.0, 101.0), 0.9)
    assert (found.views, found.low, found.high) == (90.0, 85.0, 96.0)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"click_rate": 0.0}, "`click_rate` must be between 0 and 1"),
        ({"holdout": 1.0}, "`holdout` must be between 0 and 1"),
        ({"revenue_per_click": float("nan")}, "`revenue_per_click` must be between 0 and 1"),
    ],
)
def test_rates_are_rates(change: dict[str, float], rule: str) -> None:
    rough = {"click_rate": 0.1, "revenue_per_click": 0.5, "holdout": 0.1} | change
    with pytest.raises(InvalidInput, match=rule):
        RoughPage(6, 2, **rough)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--slots", "7"], "`--slots` must be from 1 to the number of links (6), got 7"),
        (["--slots", "0"], "`--slots` must be from 1 to the number of links (6), got 0"),
        (["--links", "0"], "`--links` must be at least 1, got 0"),
        (["--click-rate", "2"], "`--click-rate` must be between 0 and 1, got 2.0"),
        (["--floor", "-1"], "`--floor` must be at least 0 and below n_slots (2), got -1.0"),
        (["--cases", "1"], "`--cases` must be at least 10, got 1"),
        (["--views", "0"], "`--views` must be at least 1, got 0"),
    ],
)
def test_a_wrong_option_is_named(
    options: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PAGE, "--revenue-per-click", "0.4", *options]) == 2
    assert rule in capsys.readouterr().err


def test_lines_tell_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAGE, "--revenue-per-click", "0.4", *FEW, "--json-lines"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["done"] for line in lines[:-1]] == [round(case / 12, 4) for case in range(13)]
    assert lines[-1]["plan"]["n_cases"] == 12


def test_it_gives_up_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*PAGE, "--revenue-per-click", "0.4"]
    long = [sys.executable, "-m", "slotwise", *asked, "--cases", "100000", "--within", "0.01"]
    ended = subprocess.run(long, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "slotwise: the simulation took longer than 0.01 seconds\n" in ended.stderr
    assert main([*asked, *FEW, "--within", "500"]) == 0  # and nothing ends this process later
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)
    for wrong in ("0", "nan"):
        assert main([*asked, *FEW, "--within", wrong]) == 2
        assert "`--within` must be a positive number of seconds" in capsys.readouterr().err


def test_a_certainty_that_is_nearly_1_is_answered() -> None:
    nearly = math.nextafter(1.0, 0.0)
    plan = plan_traffic(RoughPage(6, 2, 0.2, 0.4), certainty=nearly, n_views=200, n_cases=10)
    assert plan.lift.views == math.inf


def test_rules_name_links_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    rule = ["--rule", "partner: a,1 >= 0.5"]
    assert main([*PAGE, "--revenue-per-click", "0.3", *rule]) == 2
    message = "`links` of rule 'partner' must be numbers from 0 on, got 'a,1'"
    assert message in capsys.readouterr().err


def test_a_lift_is_visible_when_the_dashboard_calls_it_certain() -> None:
    page = RoughPage(6, 2, 0.2, 0.4, holdout=0.25)
    views = np.arange(200.0, 8001.0, 200.0)
    seen = _lift_visible(0.3 * views, 0.2 * views, views, page)
    assert 200.0 < seen < 8000.0

    def lift(n_views: float) -> float:
        pages: dict[Group, PageCounters] = {}
        shown: list[tuple[Group, float, float]] = [("policy", 0.75, 0.3), ("holdout", 0.25, 0.2)]
        for group, share, mean in shown:
            n = round(share * n_views)
            squares = round(n * mean * (1 - mean / 2 + mean) * SHARE_UNIT**2)
            pages[group] = PageCounters(
                revenue_views=n, revenue_micros=round(n * mean * 1e6), revenue_squared=squares
            )
        found = report_lift(Counters(pages=pages), pool(slots=2, max_revenue_micros=1_000_000))
        return -1.0 if found is None else found.low

    assert lift(seen) > 0.0 >= lift(seen - 200.0)
    assert _lift_visible(0.2 * views, 0.2 * views, views, page) == math.inf


def test_a_plan_for_an_own_page_says_when_pages_are_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [*PAGE, "--revenue-per-click", "0.4", *FEW, "--own-page"]
    assert main([*asked, "--keep", "0.9"]) == 0
    printed = capsys.readouterr().out
    assert "half chosen:  after " in printed
    assert "all chosen:   after " in printed
    assert "at least 90% of it at all times" in printed
    views = []
    for keep in ("0.9", "0.95"):
        assert main([*asked, "--keep", keep, "--json"]) == 0
        views.append(json.loads(capsys.readouterr().out)["ramp"]["all"])
    assert views[0] < views[1]
    assert main([*asked, "--keep", "1.5"]) == 2
    assert "`--keep` must be a number between 0 and 1" in capsys.readouterr().err
