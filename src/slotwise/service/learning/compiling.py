"""Compile policies ahead of their first page, in a thread of their own.

Compiling takes seconds on a new machine and is kept on disk afterwards; loading what was kept
takes a fraction of a second. No page view waits for either.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from slotwise.service.pool import policy_of, pool_problem
from slotwise.service.records import PoolSettings

__all__ = ["COMPILING", "PolicyCompiler", "WarmUp", "compiled_name"]

WarmUp = Callable[[PoolSettings], None]
"""Calls everything that a pool's policy and pages compile."""

_log = logging.getLogger(__name__)

COMPILING = "slotwise-compiling"
"""The name of the thread that compiles."""


def compiled_name(pool: PoolSettings) -> str:
    """Return the name of what a pool's policy compiles: with visitors it is other code."""
    if not pool.features:
        return pool.policy
    problem = pool_problem(pool, pool.slots, None)
    assert problem is not None  # it has no floors of segments
    return f"{pool.policy} as {type(policy_of(pool).for_problem(problem)).__name__}"


class PolicyCompiler:
    """Compiles policies one after the other in its own thread, each once per process.

    `compiled` is called in that thread with the name of each policy that is ready.
    """

    def __init__(self, warm_up: WarmUp, compiled: Callable[[str], None]) -> None:
        self._warm_up = warm_up
        self._compiled = compiled
        self._lock = Lock()
        self._asked: dict[str, Future[None]] = {}
        self._ready: set[str] = set()
        self._queue: deque[PoolSettings] = deque()
        self._thread: Thread | None = None

    @property
    def waiting(self) -> tuple[str, ...]:
        """The policies that are queued or being compiled."""
        with self._lock:
            return tuple(name for name, done in self._asked.items() if not done.done())

    def is_ready(self, policy: str) -> bool:
        """Say whether a policy is compiled."""
        return policy in self._ready

    def compile(self, pool: PoolSettings) -> Future[None]:
        """Compile the policy of a pool, unless it is compiled or queued already."""
        with self._lock:
            name = compiled_name(pool)
            done = self._asked.get(name)
            if done is None:
                done = self._asked[name] = Future()
                done.set_running_or_notify_cancel()  # callers wait for it and cannot cancel it
                self._queue.append(pool)
                if self._thread is None:
                    # No pool of threads: those would be waited for when the process ends.
                    self._thread = Thread(target=self._run, name=COMPILING, daemon=True)
                    self._thread.start()
            return done

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                pool = self._queue.popleft()
            try:
                self._warm_up(pool)
            except Exception:  # the pool is served all the same, or its version says what fails
                _log.exception("compiling policy %s failed", pool.policy)
            name = compiled_name(pool)
            self._ready.add(name)
            self._compiled(name)
            self._asked[name].set_result(None)
