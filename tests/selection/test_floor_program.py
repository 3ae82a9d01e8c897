from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.selection import Solution, floor_program, solve
from tests.reference.certificate import check_certificate
from tests.reference.floor_program import best_clicks, clicks_of_best_value
from tests.selection.instances import RATES, Instance, make_rates
from tests.selection.warm_program import WarmProgram

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]


@pytest.fixture(params=[0, floor_program.SMALL], ids=["zones", "whole"], autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search pools of any size in zones, or small ones whole."""
    monkeypatch.setattr(floor_program, "SMALL", request.param)


def check_same(warm: Solution, instance: Instance) -> str:
    """Prove the answer right and compare with `solve` afresh; return the status."""
    cold = solve(*instance)
    check_certificate(warm, *instance)
    check_certificate(cold, *instance)
    value, clicks, n_slots, floor = instance
    prices = [price for price in (warm.shadow_price, cold.shadow_price) if math.isfinite(price)]
    accuracy = 1e-9 + 1e-12 * n_slots * max(prices, default=0.0)
    assert warm.value == pytest.approx(cold.value, abs=accuracy)
    assert warm.clicks == pytest.approx(cold.clicks, abs=1e-9)
    # where the floor is met by a page exactly, many prices and two names fit one best mix
    free, most = clicks_of_best_value(value, clicks, n_slots), best_clicks(clicks, n_slots)
    if min(abs(floor - free), abs(floor - most)) > 1e-9:
        assert warm.status == cold.status
    if not np.allclose(warm.probabilities, cold.probabilities, rtol=0, atol=1e-7):
        # two best mixes: only where many prices fit, and ties differ from one to the other
        assert warm.shadow_price != pytest.approx(cold.shadow_price, rel=1e-7, abs=1e-7)
        is_open = (cold.probabilities > 1e-7) & (cold.probabilities < 1.0 - 1e-7)
        assert not is_open.any() or np.ptp(clicks[is_open]) < 1e-7
    return cold.status


class Playing:
    """A program and the plain arrays it should know, changed together."""

    def __init__(self, value: Floats, clicks: Floats, n_slots: int, floor: float) -> None:
        self.value, self.clicks = value.copy(), clicks.copy()
        self.n_slots, self.floor = n_slots, floor
        self.program = WarmProgram(value, clicks, n_slots, floor)

    def change(self, links: NDArray[np.int64], value: Floats, clicks: Floats) -> None:
        self.value[links], self.clicks[links] = value, clicks
        self.program.change(links, value, clicks)

    def check(self) -> str:
        instance = Instance(self.value, self.clicks, self.n_slots, self.floor)
        return check_same(self.program.solve(), instance)


def some_links(n_links: int, n_changed: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.choice(n_links, size=min(n_changed, n_links), replace=False)


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize(
    ("n_links", "n_slots", "floor_share", "n_steps"),
    [
        (1, 1, 0.3, 60),
        (2, 1, 0.6, 100),
        (7, 3, 0.7, 200),
        (7, 7, 0.5, 60),
        (40, 5, 0.85, 200),
        (271, 15, 0.9, 100),
    ],
)
def test_random_changes_give_the_answers_of_solve(
    kind: str, n_links: int, n_slots: int, floor_share: float, n_steps: int
) -> None:
    rng = np.random.default_rng([n_links, RATES.index(kind)])
    value, clicks = make_rates(kind, n_links, rng)
    playing = Playing(value, clicks, n_slots, floor_share * best_clicks(clicks, n_slots))
    for _ in range(n_steps):
        links = some_links(n_links, int(rng.integers(1, n_slots + 2)), rng)
        new_value, new_clicks = make_rates(kind, n_links, rng)
        playing.change(links, new_value[links], new_clicks[links])
        playing.check()


@pytest.mark.parametrize(
    ("n_links", "n_slots", "n_known"),
    [(30, 4, 0), (271, 15, 0), (2000, 20, 300), (2000, 1, 300)],
)
def test_bounds_that_sink_as_links_are_shown(n_links: int, n_slots: int, n_known: int) -> None:
    """Play optimistically, the work the program is made for: from all links at 1 to a mix."""
    rng = np.random.default_rng(n_links + n_slots)
    click_rate = rng.beta(1, 3, n_links)
    revenue_rate = click_rate * rng.beta(1, 1.5, n_links) * np.exp(-3 * click_rate)
    n_views = np.full(n_links, float(n_known))
    spread = 1.0 / np.sqrt(1.0 + n_views)
    free = clicks_of_best_value(revenue_rate, click_rate, n_slots)
    floor = 0.3 * free + 0.7 * best_clicks(click_rate, n_slots)
    playing = Playing(
        np.minimum(1.0, revenue_rate + spread),
        np.minimum(1.0, click_rate + spread),
        n_slots,
        floor,
    )
    seen = {playing.check()}
    for _ in range(700):
        likely = playing.program.solve().probabilities + 1e-3 * rng.random(n_links)
        shown = np.argsort(-likely)[:n_slots]
        n_views[shown] += rng.integers(1, 5, n_slots)
        width = 1.0 / np.sqrt(1.0 + n_views[shown])
        noise = 1.0 + 0.1 * width * rng.standard_normal(n_slots)
        playing.change(
            shown,
            np.clip(revenue_rate[shown] * noise + width, 0.0, 1.0),
            np.clip(click_rate[shown] * noise + width, 0.0, 1.0),
        )
        seen.add(playing.check())
    assert "binding" in seen


def test_the_first_rounds_of_a_program() -> None:
    """While it still learns how wide its zones must be, no link may be left in a wrong one."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n_links, n_slots = 70, 8
        click_rate = rng.beta(1, 2, n_links)
        revenue_rate = click_rate * rng.random(n_links)
        n_views = np.zeros(n_links)
        playing = Playing(np.ones(n_links), np.ones(n_links), n_slots, 4.0)
        playing.check()
        for _ in range(20):
            likely = playing.program.solve().probabilities + 1e-3 * rng.random(n_links)
            shown = np.argsort(-likely)[:n_slots]
            n_views[shown] += 1.0
            width = 0.6 / (n_views[shown] + 1.0)
            playing.change(
                shown,
                np.minimum(1.0, revenue_rate[shown] + width * rng.random(n_slots)),
                np.minimum(1.0, click_rate[shown] + width * rng.random(n_slots)),
            )
            playing.check()


def test_links_reach_the_top_and_leave_it() -> None:
    rng = np.random.default_rng(11)
    n_links, n_slots = 25, 4
    value, clicks = 0.5 * rng.random(n_links), 0.5 * rng.random(n_links)
    playing = Playing(value, clicks, n_slots, 2.5)
    n_at_top = []
    for step in range(900):
        # fill the top for a while, then empty it, past the slots and back
        is_filling = (step // 60) % 2 == 0
        at_top = np.flatnonzero((playing.value == 1.0) & (playing.clicks == 1.0))
        if is_filling and len(at_top) < 9:
            links = some_links(n_links, 1, rng)
            playing.change(links, np.ones(1), np.ones(1))
        elif not is_filling and len(at_top):
            links = rng.choice(at_top, size=1)
            playing.change(links, 0.5 * rng.random(1), 0.5 * rng.random(1))
        else:
            links = some_links(n_links, 2, rng)
            playing.change(links, 0.5 * rng.random(2), 0.5 * rng.random(2))
        playing.check()
        n_at_top.append(int(np.sum((playing.value == 1.0) & (playing.clicks == 1.0))))
    assert min(n_at_top) == 0
    assert max(n_at_top) > n_slots


@pytest.mark.parametrize("n_links", [6, 60, 2000])
def test_floors_out_of_reach_for_a_while(n_links: int) -> None:
    rng = np.random.default_rng(n_links)
    clicks = 0.3 + 0.1 * rng.random(n_links)
    playing = Playing(rng.random(n_links), clicks, 3, 1.5)
    statuses = []
    for step in range(400):
        rises = (step // 50) % 2 == 0
        links = some_links(n_links, max(3, n_links // 40), rng)
        high = 0.9 if rises else 0.4
        playing.change(links, rng.random(len(links)), high * rng.random(len(links)))
        statuses.append(playing.check())
        if not rises:
            # sink the most clicked, so that the floor is lost within the stretch
            top = np.argsort(-playing.clicks)[: max(2, n_links // 20)]
            playing.change(top, playing.value[top], 0.6 * playing.clicks[top])
    assert {"infeasible", "binding"} <= set(statuses)
    changes = sum(a != b for a, b in pairwise(statuses))
    assert changes >= 4


def test_prices_that_jump_and_creep() -> None:
    """Many quiet steps teach the program narrow margins; a jump must not fool it."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n_links, n_slots = 400, 10
        clicks = rng.random(n_links)
        value = np.clip(1.0 - clicks + 0.1 * rng.standard_normal(n_links), 0.0, 1.0)
        playing = Playing(value, clicks, n_slots, 7.0)
        for step in range(300):
            if step % 40 == 39:
                links = some_links(n_links, 200, rng)
                factor = rng.choice([0.5, 0.8, 1.25, 2.0])
                playing.change(
                    links,
                    np.minimum(1.0, factor * playing.value[links]),
                    np.minimum(1.0, playing.clicks[links] / factor),
                )
            else:
                links = some_links(n_links, 10, rng)
                nudge = 1.0 + 1e-4 * rng.standard_normal(len(links))
                playing.change(
                    links,
                    np.minimum(1.0, playing.value[links] * nudge),
                    np.minimum(1.0, playing.clicks[links] * nudge),
                )
            playing.check()


@pytest.mark.parametrize("kind", ["grid", "few values"])
def test_floors_that_a_page_meets_exactly(kind: str) -> None:
    """Sums in another order differ in the last digit; that must not look like a cheaper floor."""
    for seed in range(120):
        rng = np.random.default_rng([RATES.index(kind), seed])
        n_links = int(rng.integers(10, 25))
        n_slots = int(rng.integers(n_links // 2, n_links))
        value, clicks = make_rates(kind, n_links, rng)
        floor = float(clicks[rng.permutation(n_links)[:n_slots]].sum())
        playing = Playing(value, clicks, n_slots, floor)
        for _ in range(10):
            links = some_links(n_links, 2, rng)
            factor = rng.choice([0.5, 1.0, 1.5], (2, 2))
            playing.change(
                links,
                np.minimum(1.0, playing.value[links] * factor[0]),
                np.minimum(1.0, playing.clicks[links] * factor[1]),
            )
            playing.check()


def test_changing_nothing_answers_the_same() -> None:
    rng = np.random.default_rng(2)
    program = WarmProgram(rng.random(50), rng.random(50), n_slots=5, floor=3.5)
    first = program.solve()
    again = program.solve()
    assert again.probabilities.tolist() == pytest.approx(first.probabilities.tolist(), abs=1e-12)
    assert again.shadow_price == pytest.approx(first.shadow_price)
