"""The time slice of a thread: what lets one that wakes for a request run at once.

Linux lets a running thread use up its slice, 3 ms and rounded up to a tick of its clock, before one
that has just woken comes on. Since version 6.12 it makes an exception of a thread that asked for a
shorter slice than the running one has. Everybody may ask for a slice of their own.
"""

from __future__ import annotations

import ctypes
import os
import sys

SHORT_SLICE_NS = 100_000
"""The shortest that Linux gives; one request takes less."""
DEFAULT_SLICE_NS = 0
"""What asks for the system's own."""

_SET_AND_GET = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr(2) and sched_getattr(2): few C libraries have functions for them."""
_NORMAL_POLICIES = (0, 3)
"""SCHED_OTHER and SCHED_BATCH; threads of any other have no slice that could be asked for."""


class _Attributes(ctypes.Structure):
    """The kernel's `struct sched_attr`, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def ask_for_slice(length_ns: int, thread: int = 0) -> None:
    """Ask for the slice of a thread (0: this one); where that cannot be asked for, do nothing.

    Threads and processes that it starts later have the same slice. Its priority stays.
    """
    attributes = _attributes(thread)
    if attributes is not None and attributes.policy in _NORMAL_POLICIES:
        attributes.runtime = length_ns
        _call(0, thread, ctypes.byref(attributes), 0)


def slice_ns(thread: int = 0) -> int | None:
    """Return the slice of a thread, None or 0 where the system does not say."""
    attributes = _attributes(thread)
    return None if attributes is None else int(attributes.runtime)


def _attributes(thread: int) -> _Attributes | None:
    attributes = _Attributes()
    size = ctypes.sizeof(attributes)
    return attributes if _call(1, thread, ctypes.byref(attributes), size, 0) else None


def _call(which: int, *arguments: object) -> bool:
    """Call sched_setattr (0) or sched_getattr (1); return whether the system took it."""
    numbers = _SET_AND_GET.get(os.uname().machine)
    if sys.platform != "linux" or numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    longs = (ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    return bool(call(ctypes.c_long(numbers[which]), *longs) == 0)
