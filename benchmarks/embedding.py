"""slotwise inside a program: a page view from Python, the import, and what users pick instead."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring import REPEATS, Row, at_most, cpu_seconds, note
from slotwise import ConUCB, Rule, Selector
from slotwise.environments.datasets import load_dataset
from slotwise.policies import default_policy

DATA = load_dataset("coupon-mild")
N_LINKS, N_SLOTS = DATA.n_links, DATA.n_slots
N_VIEWS = 2_000
N_SELECTED = 200
Visit = Callable[[Sequence[int], int], tuple[list[int], dict[int, float]]]


def make_visit() -> Visit:
    """Return a function that says what a page brought: its clicks, and what they earned."""
    rng = np.random.default_rng(4)
    clicks, revenue = DATA.click_rate.tolist(), DATA.revenue_per_click.tolist()
    uniforms = rng.random((N_VIEWS, 2, N_SLOTS)).tolist()

    def visit(shown: Sequence[int], view: int) -> tuple[list[int], dict[int, float]]:
        first, second = uniforms[view % N_VIEWS]
        clicked, earned = [], {}
        for slot, link in enumerate(shown):
            if first[slot] < clicks[link]:
                clicked.append(link)
                earned[link] = 1.0 if second[slot] < revenue[link] else 0.0
        return clicked, earned

    return visit


def selector_views() -> Callable[[], None]:
    """Return page views through `Selector` with Con-UCB under a floor that binds."""
    selector = Selector(
        range(N_LINKS),
        N_SLOTS,
        click_floor=DATA.click_floor,
        policy=ConUCB(horizon=50_000, gamma_scale=1 / 72),
        seed=1,
    )
    visit = make_visit()

    def views() -> None:
        for view in range(N_VIEWS):
            page = selector.select()
            clicked, earned = visit(page.shown, view)
            selector.update(page, clicks=clicked, revenue=earned)

    return views


def numpy_views() -> Callable[[], None]:
    """Return page views of CUCB in plain numpy, as one would write it in ten lines."""
    n_views, earned_sums = np.ones(N_LINKS), np.full(N_LINKS, 0.5)
    visit = make_visit()
    clock = [1]

    def views() -> None:
        for view in range(N_VIEWS):
            clock[0] += 1
            bounds = earned_sums / n_views + np.sqrt(1.5 * np.log(clock[0]) / n_views)
            shown = np.argpartition(-bounds, N_SLOTS)[:N_SLOTS]
            _, earned = visit(shown.tolist(), view)
            n_views[shown] += 1
            earned_sums[list(earned)] += list(earned.values())

    return views


def mabwiser_views(n_views: int) -> Callable[[], None]:
    """Return page views that take MABWiser's largest expectations."""
    from mabwiser.mab import MAB, LearningPolicy

    model: Any = MAB(list(range(N_LINKS)), LearningPolicy.UCB1(alpha=1.0))
    model.fit(list(range(N_LINKS)), [0.5] * N_LINKS)
    visit = make_visit()

    def views() -> None:
        for view in range(n_views):
            expected = model.predict_expectations()
            shown = sorted(expected, key=expected.__getitem__)[-N_SLOTS:]
            _, earned = visit(shown, view)
            model.partial_fit(shown, [earned.get(link, 0.0) for link in shown])

    return views


def river_views(n_views: int) -> Callable[[], None]:
    """Return page views that take the head of river's ranking."""
    from river import bandit

    policy: Any = bandit.UCB(delta=1.0, seed=1)
    links = list(range(N_LINKS))
    for link in links:
        policy.update(link, 0.5)
    visit = make_visit()

    def views() -> None:
        for view in range(n_views):
            policy.pull(links)
            shown = policy.ranking[:N_SLOTS]
            _, earned = visit(shown, view)
            for link in shown:
                policy.update(link, earned.get(link, 0.0))

    return views


def page_views() -> list[Row]:
    """Compare a page view through `Selector` with one of plain numpy."""
    ours = cpu_seconds(selector_views()) / N_VIEWS
    plain = cpu_seconds(numpy_views()) / N_VIEWS
    return [
        at_most(
            "Selector.select + update against numpy CUCB",
            f"{ours * 1e6:.1f} µs against {plain * 1e6:.1f} µs, K = {N_LINKS}, L = {N_SLOTS}, "
            "Con-UCB under a binding floor, called from Python",
            ours / plain,
            3.0,
        ),
        *select_with_rules(),
    ]


def select_with_rules() -> list[Row]:
    """Compare `select` under rules for 20 groups with `select` without rules, in turns."""
    rules = [
        Rule(
            f"group {place}", range(place, N_LINKS, 20), at_least=float(place % 4 == 3), at_most=1.0
        )
        for place in range(20)
    ]
    rows = []
    for name, policy in (("the default", default_policy()), ("Con-UCB", ConUCB(horizon=50_000))):
        spent = [float("inf"), float("inf")]
        floor = 0.5 * DATA.click_floor
        selectors = [
            Selector(range(N_LINKS), N_SLOTS, click_floor=floor, policy=policy, seed=1, rules=asked)
            for asked in ((), rules)
        ]
        for selector in selectors:
            visit = make_visit()
            for view in range(N_VIEWS):
                page = selector.select()
                clicked, earned = visit(page.shown, view)
                selector.update(page, clicks=clicked, revenue=earned)
        for _ in range(4 * REPEATS):
            for place, selector in enumerate(selectors):
                start = time.process_time()
                pages = [selector.select() for _ in range(N_SELECTED)]
                taken = (time.process_time() - start) / N_SELECTED
                spent[place] = min(spent[place], taken)
                for page in pages:
                    selector.settle(page)
        plain, ruled = spent
        described = f"{ruled * 1e6:.1f} µs against {plain * 1e6:.1f} µs, K = {N_LINKS}"
        rows.append(at_most(f"select, 20 rules, {name}", described, ruled / plain, 1.5))
    return rows


def large_pool_pages() -> list[Row]:
    """Measure how long single pages of a pool of 10,000 links take, by the clock."""
    selector = Selector(range(10_000), 15, click_floor=2.0, seed=1)
    rng = np.random.default_rng(2)
    spent = []
    for view in range(6_000):
        start = time.perf_counter()
        page = selector.select()
        if view >= 1_000:
            spent.append(time.perf_counter() - start)
        clicked = [link for link in page.shown if rng.random() < 0.2]
        selector.update(page, clicks=clicked, revenue=dict.fromkeys(clicked[:1], 0.5))
    median, tail = np.quantile(spent, [0.5, 0.99]) * 1e6
    described = f"{median:.0f} µs in the median, {tail:,.0f} µs at the 99th percentile"
    return [
        at_most("Selector.select, K = 10^4, median", described, float(median), 30.0, "µs"),
        at_most("Selector.select, K = 10^4, 99th percentile", "", float(tail), 300.0, "µs"),
    ]


def _process_seconds(program: str, environment: Mapping[str, str] | None = None) -> float:
    """Return the processor time of a Python program that runs in a process of its own."""
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def imports() -> list[Row]:
    """Measure what importing the selector takes beyond importing numba."""
    numba, slotwise = (
        min(_process_seconds(f"import {module}") for _ in range(5))
        for module in ("numba", "slotwise.selector")
    )
    described = f"{slotwise:.2f} s against {numba:.2f} s for numba"
    return [at_most("import slotwise.selector beyond numba", described, slotwise - numba, 0.6, "s")]


def first_pages() -> list[Row]:
    """Measure the first page of a selector when nothing has been compiled before."""
    rows = []
    for name, policy, limit in (
        ("the default policy", "default_policy()", 5.0),
        ("Con-UCB", "ConUCB(horizon=50_000)", 8.0),
    ):
        imported = "from slotwise.policies import ConUCB, default_policy; import slotwise; "
        asked = f"slotwise.Selector(range(271), 15, policy={policy}, click_floor=4.0).select()"
        spent = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as empty:
                environment = {**os.environ, "NUMBA_CACHE_DIR": empty}
                environment.pop("SLOTWISE_COMPILE", None)  # as for a user
                environment.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)  # it may name another cache
                both = _process_seconds(imported + asked, environment)
                spent.append(both - _process_seconds(imported, environment))
        described = f"{min(spent):.1f} s of processor time beyond the import, empty cache"
        rows.append(at_most(f"first page of {name}", described, min(spent), limit, "s"))
    return rows


def alternatives() -> list[Row]:
    """Show what others take for choosing the top 15 of 271 and learning from it, a page view."""
    ours = cpu_seconds(selector_views()) / N_VIEWS
    plain = cpu_seconds(numpy_views()) / N_VIEWS
    rows = [
        note("slotwise Selector, with a click floor", f"{ours * 1e6:.1f} µs a page view", 1.0),
        note("numpy, argpartition, no floor", f"{plain * 1e6:.1f} µs a page view", plain / ours),
    ]
    for name, make in (("MABWiser UCB1", mabwiser_views), ("river UCB", river_views)):
        n_views = 20
        try:
            views = make(n_views)
        except ModuleNotFoundError as error:
            advice = "pip install 'slotwise[compare]'"
            rows.append(note(f"{name}, no floor", f"skipped: no {error.name}; {advice}"))
            continue
        spent = cpu_seconds(views, 3) / n_views
        rows.append(note(f"{name}, no floor", f"{spent * 1e6:,.0f} µs a page view", spent / ours))
    return rows
