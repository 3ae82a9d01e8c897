"""A service that compiles nothing learns and publishes as well: `NUMBA_DISABLE_JIT=1`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from slotwise.policies import default_policy
from slotwise.service.records import ClickEvent
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from tests.service import rows
from tests.stores.memory_store import MemoryStore

ROOT = Path(__file__).parent.parent.parent.parent


def learn_a_little() -> str:
    """Return how a pool of the default policy stands after some settled views."""
    service = Service(MemoryStore(), ServiceOptions(seed=1))
    policy = default_policy().name
    pool = rows.pool(policy=policy, policy_settings={}, holdout=0.1)
    service.directory.put_pool(pool, "test", rows.T0).result()
    links = [rows.link(f"l{k}") for k in range(1, 6)]
    service.directory.put_links("home", links, "test", rows.T0).result()
    for second in range(30):
        page = service.decider.decide("home", rows.seconds(second))
        click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
        service.committer.submit_events([click], rows.seconds(second)).result()
    service.learner.learn(rows.seconds(1_000_000))
    [health] = service.health().pools
    service.close()
    return f"version {health.policy_version}, {health.n_failures} failures {health.failure}".strip()


def test_a_pool_learns_without_the_compiler() -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.service.learning.test_interpreted"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert outcome.stdout.strip() == learn_a_little() == "version 3, 0 failures"


if __name__ == "__main__":
    print(learn_a_little())
