"""Request a short time slice for a thread, so that it runs as soon as a request wakes it.

Linux lets a running thread use up its slice of about 3 ms before one that has just woken up runs.
Since version 6.12 a thread may request a shorter slice, and then preempts threads with longer ones.
Three busy processes share two cores on a small machine, so the event loop often waits for a core.
Used by `server` and `storage`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

SHORT_SLICE_NS = 100_000
"""The shortest that Linux gives; one request takes less."""
DEFAULT_SLICE_NS = 0

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The numbers of the system call: few C libraries have a function for it."""


def request_slice(length_ns: int) -> bool:
    """Request the slice of this thread and of those that it starts; return whether Linux took it.

    Only threads with an ordinary priority have a slice; nothing else is changed.
    """
    number = _SCHED_SETATTR.get(os.uname().machine)
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, length_ns, 0, 0)
    zero = ctypes.c_long(0)
    return bool(ctypes.CDLL(None).syscall(ctypes.c_long(number), zero, attributes, zero) == 0)
