"""Let the threads that answer requests run before others, as far as the system allows it.

Three busy processes share two cores on a small machine, so the event loop often waits for a core.
Linux lets a running thread use up its slice of about 3 ms before one that has just woken up runs.
Since version 6.12 a thread may request a shorter slice, and then preempts threads with longer ones.
A higher priority helps more: root has it, and others if the limit `nice` of their processes allows
it. What answers depend on, the commits, is raised likewise, or a busy event loop would let pages
queue up; what learns, reads and exports is not. A service that was started with a lower priority
keeps it. Used by `server` and `storage`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

REQUESTS, WRITER = -10, -5
"""The `nice` of threads that requests wait for, and of a process that writes for them."""
SHORT_SLICE_NS = 100_000
"""The shortest that Linux gives; one request takes less."""
DEFAULT_SLICE_NS = 0

_RESET_ON_FORK = 1
"""Threads and processes that this thread starts have the usual priority and slice."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The numbers of the system call: few C libraries have a function for it."""


def request_priority(nice: int, slice_ns: int = DEFAULT_SLICE_NS) -> bool:
    """Request a priority and a slice for this thread; return whether Linux gave the priority.

    Without it, the slice is requested alone. Only threads of ordinary priority are changed.
    """
    if sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    present = os.getpriority(os.PRIO_PROCESS, 0)  # on Linux: of this thread
    if present == 0 and _set(nice, slice_ns):
        return True
    if slice_ns:
        _set(present, slice_ns)
    return False


def _set(nice: int, slice_ns: int) -> bool:
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        return False
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    numbers = (48, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, slice_ns, 0, 0)
    attributes = struct.pack("=IIQiIQQQ", *numbers)
    zero = ctypes.c_long(0)
    return bool(ctypes.CDLL(None).syscall(ctypes.c_long(number), zero, attributes, zero) == 0)
