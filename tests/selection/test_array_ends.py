"""Vectors end where arrays end: pages chosen in arrays that border on memory nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.policies import NO_SLOTS, NOBODY, LinkFeedback, make_policy
from slotwise.problem import Problem
from slotwise.selection import draw_page

pytestmark = pytest.mark.compiled

POLICIES = ("paced-bayes", "con-ucb", "cucb", "exp3-m")
SIZES = (*range(1, 10), 15, 17, 33, 64, 65, 129, 601, 2_001)
N_ROUNDS = 6


def at_a_border(array: NDArray[Any], at_end: bool) -> NDArray[Any]:
    """Return a copy that ends, or starts, where memory that may be touched does."""
    n_bytes = -(-max(1, array.nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, n_bytes + 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = mmap.PAGESIZE + (n_bytes - array.nbytes if at_end else 0)
    copy: NDArray[Any] = np.frombuffer(memory, array.dtype, array.size, offset)
    copy = copy.reshape(array.shape)
    copy[...] = array
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for border in (start, start + mmap.PAGESIZE + n_bytes):
        assert protect(ctypes.c_void_p(border), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return copy


def bordered(state: Any, at_end: bool, copies: dict[int, NDArray[Any]]) -> Any:
    """Return a state whose arrays all lie at such borders; parts that share one still do."""
    if isinstance(state, np.ndarray):
        if id(state) not in copies:
            copies[id(state)] = at_a_border(state, at_end)
        return copies[id(state)]
    if isinstance(state, tuple):
        return type(state)(*(bordered(part, at_end, copies) for part in state))
    return state


def play(name: str, n_links: int, n_slots: int, at_end: bool) -> None:
    problem = Problem(n_links, n_slots, 0.3 * n_slots, horizon=N_ROUNDS)
    settings = {"horizon": N_ROUNDS} if name in ("con-ucb", "exp3-m") else {}
    policy = make_policy(name, settings).for_problem(problem)
    started = policy.start(problem)
    state = bordered(started, at_end, {})
    rng = np.random.default_rng(n_links)
    shown = at_a_border(np.zeros(n_slots, np.int64), at_end)
    drawn, views, outcomes = (at_a_border(np.ones(n_slots), at_end) for _ in range(3))
    for _ in range(N_ROUNDS):
        switching(type(policy).choose)(state, NOBODY, rng)
        switching(draw_page)(state.mix, rng, shown, drawn)
        assert len(set(shown.tolist())) == n_slots
        for level in range(2):
            outcomes[:] = rng.random(n_slots) < 0.5
            feedback = LinkFeedback(shown, NO_SLOTS, drawn, views, outcomes)
            switching(type(policy).learn)(state, NOBODY, level, feedback)


def play_all() -> None:
    for name in POLICIES:
        print(name, flush=True)
        for n_links in SIZES:
            for n_slots in {1, (n_links + 1) // 2, n_links} if n_links < 200 else {9}:
                for at_end in (True, False):
                    play(name, n_links, n_slots, at_end)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is protected otherwise there")
def test_nothing_beyond_an_array_is_touched() -> None:
    """In a process of its own, which such an access would end."""
    code = "from tests.selection.test_array_ends import play_all; play_all()"
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True
    )
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    assert ended.stdout.split() == list(POLICIES)
