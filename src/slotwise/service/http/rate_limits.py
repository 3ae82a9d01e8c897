"""How often one caller may call, and how deeply JSON may be nested."""

from __future__ import annotations

import math
import re
from collections import OrderedDict

from slotwise.service.http.problems import RequestProblem, refuse

__all__ = ["RateLimit", "check_depth"]

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_MAX_CALLERS = 10_000


def check_depth(body: bytes, max_depth: int) -> None:
    """Refuse JSON whose arrays and objects are nested deeper than `max_depth`.

    Runs before the decoder does, in time linear in the body and without recursion.
    """
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    depth = 0
    for byte in _STRINGS.sub(b"", body).translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > max_depth:
            detail = f"`body` must be nested at most {max_depth} deep; flatten it"
            raise RequestProblem("too-deep", detail)


class RateLimit:
    """A token bucket per caller: `per_s` calls a second, up to `burst` at once.

    Remembers the most recent callers only, so its memory is bounded; a forgotten caller starts
    with a full bucket.

    >>> limit = RateLimit(per_s=1, burst=2)
    >>> limit.spend("k1", now_s=0.0), limit.spend("k1", now_s=0.0)
    (None, None)
    >>> limit.spend("k1", now_s=0.0)
    Traceback (most recent call last):
    slotwise.service.http.problems.RequestProblem: at most 1 calls a second, 2 at once; wait 1 s
    """

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str, *, now_s: float, n: int = 1) -> None:
        """Take `n` tokens of the caller's bucket, or refuse and say when to come back.

        A batch larger than the burst is accepted when the bucket is full, and the bucket goes
        below zero: the caller then waits longer before its next call.
        """
        tokens, since = self._buckets.get(caller, (self._burst, now_s))
        tokens = min(self._burst, tokens + (now_s - since) * self._per_s)
        needed = min(n, self._burst)
        if tokens < needed:
            wait_s = max(1, math.ceil((needed - tokens) / self._per_s))
            detail = (
                f"at most {self._per_s:g} calls a second, {self._burst:g} at once; wait {wait_s} s"
            )
            raise refuse("rate-limited", detail, retry_after_s=wait_s)
        self._buckets[caller] = (tokens - n, now_s)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)
