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
from slotwise.selector import Selector

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
        slot_weights=[],
    )
    rng = np.random.default_rng(7)
    for _ in range(4):
        visit(admin, pool, rng, 200)
        let_windows_close(3)

    file = tmp_path / "rounds.jsonl"
    file.write_bytes(admin.get(f"/v1/pools/{pool}/export").content)
    counts = count_links(read_rounds(file))
    assert sum(counts.click_views.values()) == 800 * N_SLOTS

    selector = Selector(
        sorted(counts.click_views),
        N_SLOTS,
        policy=make_policy("con-ucb", CON_UCB),
        click_floor=CLICK_FLOOR,
        seed=1,
    )
    selector.update_batch(counts.click_views, clicks=counts.clicks)
    selector.update_batch(counts.revenue_views, revenue=counts.revenue)
    chosen: dict[str, float] = {}
    for _ in range(200):  # a link with probability 0.1 stays unseen with probability 1e-9
        decision = selector.select()
        chosen |= {str(link): decision.probabilities[link] for link in decision.shown}

    stats = admin.get(f"/v1/pools/{pool}/stats").json()
    published = {link["link_id"]: link["probability"] for link in stats["links"]}
    shown = {link_id: chance for link_id, chance in published.items() if chance > 0}
    assert shown == pytest.approx(chosen, abs=1e-9)
    assert any(0.1 < chance < 0.9 for chance in shown.values()), "the floor binds"
