"""A service without machine code is ready at once and shows the pages of its policies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import slotwise

PROGRAM = """
import sys
import httpx
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings

POOL = {
    "slots": 2, "click_floor": 0.1, "click_window_s": 5, "revenue_window_s": 10,
    "max_revenue": {"amount_micros": 50000000, "currency": "EUR"},
    "allowed_hosts": ["shop.example"],
}
LINKS = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(9)]
with BackgroundServer(Settings(port=0, store="sqlite:///cold.db")) as server:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        assert client.get("/readyz").json()["ready"]
        client.put("/v1/pools/home", json=POOL).raise_for_status()
        client.post("/v1/pools/home/links:batch", json={"links": LINKS}).raise_for_status()
        for _ in range(30):
            page = client.post("/v1/pools/home/decide", json={}).json()
            assert not page["fallback"]
            assert len(page["links"]) == 2
assert "numba" not in sys.modules
"""


def test_a_new_pool_is_served_without_the_compiler(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "SLOTWISE_COMPILE": "auto",
        "PYTHONPATH": str(Path(slotwise.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
