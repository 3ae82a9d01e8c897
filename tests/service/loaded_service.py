"""Import `slotwise serve` and load its compiled code: what forked servers start from."""

from __future__ import annotations

import importlib

from slotwise.cli.warm_up import serve_pool
from slotwise.service.records import PoolSettings

importlib.import_module("slotwise.cli.main")
importlib.import_module("slotwise.cli.serving")
importlib.import_module("uvicorn.lifespan.on")
HOME = PoolSettings(
    pool_id="home",
    slots=2,
    click_floor=0.1,
    max_revenue_micros=50_000_000,
    currency="EUR",
    click_window_s=1,
    revenue_window_s=1,
    policy="uniform",
)
serve_pool(HOME, {}, learns_slots=False)
