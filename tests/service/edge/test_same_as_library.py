"""A pool fed by visitors over HTTP chooses as the library does with the same feedback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from slotwise.client import count_links, read_rounds
from slotwise.policies import make_policy
from slotwise.problem import Problem
from slotwise.selection.mix import dense_probabilities

N_LINKS, N_SLOTS, CLICK_FLOOR = 6, 2, 0.55
CLICK_RATES = (0.1, 0.2, 0.3, 0.4, 0.15, 0.05)
BUYS = (0.9, 0.6, 0.3, 0.05, 0.5, 0.4)
CON_UCB = {"horizon": 5_000, "gamma_scale": 1e-4}


def visit(admin: httpx.Client, pool: str, rng: np.random.Generator, n_views: int) -> None:
    """Send visitors who click and buy at fixed rates."""
    events: list[dict[str, Any]] = []
    for number in range(n_views):
        page = admin.post(f"/v1/pools/{pool}/decide").json()
        for link in page["links"]:
            place = int(link["link_id"][1:]) - 1
            if rng.random() >= CLICK_RATES[place]:
                continue
            one = {"decision_id": page["decision_id"], "link_id": link["link_id"]}
            events.append({"type": "click", **one})
            if rng.random() < BUYS[place]:
                order = f"{page['decision_id']}-{number}-{place}"
                money = {"revenue_micros": 50_000_000, "currency": "EUR"}
                events.append({"type": "conversion", "conversion_id": order, **one, **money})
    outcomes = admin.post("/v1/events:batch", json={"events": events}).json()["outcomes"]
    assert {outcome["outcome"] for outcome in outcomes} == {"accepted"}


def test_the_service_publishes_what_the_library_would_choose(
    admin: httpx.Client,
    make_pool: Callable[..., str],
    let_windows_close: Callable[[float], None],
    tmp_path: Path,
) -> None:
    pool = make_pool(
        N_LINKS,
        slots=N_SLOTS,
        click_floor=CLICK_FLOOR,
        policy={"name": "con-ucb", "settings": CON_UCB},
        click_window_s=1,
        revenue_window_s=2,
        holdout=0.3,
    )
    rng = np.random.default_rng(7)
    for _ in range(4):
        visit(admin, pool, rng, 200)
        let_windows_close(3)

    file = tmp_path / "rounds.jsonl"
    file.write_bytes(admin.get(f"/v1/pools/{pool}/export").content)
    counts = count_links(read_rounds(file))
    counted = [counts[f"l{number}"] for number in range(1, N_LINKS + 1)]
    assert sum(link.click_views for link in counted) == 800 * N_SLOTS

    policy: Any = make_policy("con-ucb", CON_UCB)
    state = policy.start(Problem(N_LINKS, N_SLOTS, CLICK_FLOOR))
    links, chances = np.arange(N_LINKS), np.ones(N_LINKS)
    for level, views, outcomes in (
        (0, [link.click_views for link in counted], [link.clicks for link in counted]),
        (1, [link.revenue_views for link in counted], [link.revenue for link in counted]),
    ):
        policy.learn(
            state, level, links, chances, np.array(views, float), np.array(outcomes, float)
        )
    policy.choose(state, rng)
    chosen = dense_probabilities(state.mix)

    stats = admin.get(f"/v1/pools/{pool}/stats").json()
    published = [link["probability"] for link in stats["links"]]
    assert published == pytest.approx(chosen.tolist(), abs=1e-9)
    assert any(0.01 < chance < 0.99 for chance in published), "the floor binds"
