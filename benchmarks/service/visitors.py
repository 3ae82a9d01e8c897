"""What visitors that differ cost: `decide` for a visitor against `decide` without, and memory.

`python -m benchmarks.service.visitors` prints both; `--only memory` the second alone.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service.load import Result
from benchmarks.service.measures import ROUNDS, Target, running_target
from slotwise.service.records import SECOND_US, LinkRecord, PoolSettings
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from tests.stores.memory_store import MemoryStore

FEATURES: dict[str, Any] = {
    "device": ["phone", "tablet", "desktop"],
    "country": "text",
    "returning": "bool",
    "days": [1, 7, 30],
}
SEGMENT_FLOORS = {
    "country": {"DE": 0.3, "FR": 0.3, "IT": 0.2, "ES": 0.2},
    "returning": {"True": 0.3},
}
COUNTRIES = ("DE", "FR", "IT", "ES", "NL", "PL", "AT", "SE")
N_LINKS, N_SLOTS = 100, 10
_IDLE_CPU_S = 0.03


def visitors() -> list[dict[str, object]]:
    """Return 192 different visitors."""
    kinds = itertools.product(FEATURES["device"], COUNTRIES, (False, True), (0, 3, 10, 99))
    names = ("device", "country", "returning", "days")
    return [dict(zip(names, kind, strict=True)) for kind in kinds]


def decide_for_visitors(target: Target) -> dict[str, float]:
    """Compare three pools on computing time and on answers a second; the rounds alternate.

    One has no features, one has some, one has floors for some visitors as well.

    Windows are a second long, so each pool learns meanwhile. A round ends when its views are
    learned: neither pool pays for the other, and computing time has everything that a view costs.
    """
    target.make_pool("plain", N_LINKS, "paced-bayes", click_window_s=1, revenue_window_s=1)
    settings = {"click_window_s": 1, "revenue_window_s": 1, "features": FEATURES}
    target.make_pool("whom", N_LINKS, "paced-bayes", **settings)
    plain = [target.request("/v1/pools/plain/decide", "{}")]
    target.make_pool("floors", N_LINKS, "paced-bayes", **settings, segment_floors=SEGMENT_FLOORS)
    whom, floors = (
        [
            target.request(f"/v1/pools/{pool}/decide", json.dumps({"visitor": one}))
            for one in visitors()
        ]
        for pool in ("whom", "floors")
    )
    for requests in (plain, whom, floors):
        target.load(requests, seconds=2.0)  # the first views close, words become frequent
        _idle_cpu_s(target)
    rates, costs = [], []
    for _ in range(ROUNDS):
        without, without_us = _learned_load(target, plain)
        with_visitors, with_us = _learned_load(target, whom)
        _, floors_us = _learned_load(target, floors)
        rates.append(with_visitors.per_s / without.per_s)
        costs.append((without_us, with_us, floors_us))
    without_us, with_us, floors_us = np.median(costs, axis=0).tolist()
    return {
        "rate with visitors over rate without (at least 0.8)": statistics.median(rates),
        "computing time without over with": without_us / with_us,
        "computing time without over with visitors and their floors": without_us / floors_us,
        "computing time without, us": without_us,
        "computing time with visitors, us": with_us,
    }


def _learned_load(target: Target, requests: list[str]) -> tuple[Result, float]:
    """Return what came of a load, and the server's computing time until it was learned, in us."""
    before_s = _idle_cpu_s(target)
    result = target.load(requests)
    return result, 1e6 * (_idle_cpu_s(target) - before_s) / result.n_answers


def _idle_cpu_s(target: Target) -> float:
    """Wait until the server has nothing to do and return its computing time until then."""
    while True:
        before_s = float(target.client.get("/cpu-seconds").json())
        time.sleep(1.5)
        if target.client.get("/cpu-seconds").json() - before_s < _IDLE_CPU_S:
            return before_s


def memory_of_a_pool(n_links: int = 10_000, n_pages: int = 2_000) -> dict[str, float]:
    """Return the memory of a service's pool with 64 feature values, less that of its rows."""
    words = [f"w{k}" for k in range(30)]
    features: dict[str, Any] = {"first": words, "second": [f"v{k}" for k in range(31)]}
    pool = PoolSettings(
        pool_id="large",
        slots=10,
        click_floor=0.2,
        max_revenue_micros=1_000_000,
        currency="EUR",
        click_window_s=1,
        revenue_window_s=1,
        policy="paced-bayes",
    )
    sizes = []
    for declared in ({}, features):
        gc.collect()
        tracemalloc.start()
        service = Service(MemoryStore(), ServiceOptions(seed=1, commit_every_ms=0.0))
        settings = {name: getattr(pool, name) for name in pool.__struct_fields__}
        service.directory.put_pool(
            PoolSettings(**{**settings, "features": declared}), "bench", 1
        ).result()
        links = [
            LinkRecord(pool_id="large", link_id=f"link-{k}", url=f"https://shop.example/{k}")
            for k in range(n_links)
        ]
        service.directory.put_links("large", links, "bench", 1).result()
        rng = np.random.default_rng(1)
        now_us = 10 * SECOND_US
        for k in range(n_pages):
            said = {"first": words[rng.integers(30)], "second": f"v{rng.integers(31)}"}
            service.decider.decide("large", now_us, visitor=said if declared else {})
            if k % 500 == 499:
                now_us += 10 * SECOND_US
                service.learner.learn(now_us)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)
        tracemalloc.stop()
        service.close()
    return {
        "pool without features, MB": sizes[0],
        "pool with 64 feature values, MB": sizes[1],
        "more for visitors, MB (at most 50)": sizes[1] - sizes[0],
    }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", choices=["", "decide", "memory"])
    only = parser.parse_args().only
    measured: dict[str, float] = {}
    if only in ("", "decide"):
        with tempfile.TemporaryDirectory() as folder, running_target(Path(folder)) as target:
            measured |= decide_for_visitors(target)
    if only in ("", "memory"):
        measured |= memory_of_a_pool()
    for name, value in measured.items():
        print(f"{name:60} {value:10.3f}")


if __name__ == "__main__":
    main()
