"""Loops made of the functions that they call, compiled for each set of functions and kept on disk.

numba cannot keep a loop that takes functions as arguments: their types differ between processes.
Here a loop is made of its functions instead, as a closure. Its machine code lies on disk under the
names of the functions, with a digest of all sources that determine what they do.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from slotwise.compile.decorators import OwnTypesCache, hot_loop, is_compiled

Loop = TypeVar("Loop", bound=Callable[..., Any])

_making = threading.RLock()


class _LoopCache(OwnTypesCache):
    """Machine code of a loop made of the functions `names`, as long as sources have this digest."""

    def __init__(self, loop: Any, names: tuple[str, ...], sources: str) -> None:
        start: Any = super().__init__
        start(loop)
        self._names = names
        file: Any = self._cache_file
        file._source_stamp = (file._source_stamp, sources)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return the types, the processor and the functions, where numba would pickle those."""
        return sig, codegen.magic_tuple(), self._names


def kept_loop(make: Callable[..., Loop], source_digest: Callable[[], str]) -> Callable[..., Loop]:
    """Return `make`, which makes a loop of functions, with the loop compiled like `hot`.

    The loop is interpreted where one of its functions is. Its machine code is kept on disk if all
    functions are slotwise's own: those of others may change without notice.
    """
    made: dict[tuple[Any, ...], Loop] = {}

    def loop_of(*functions: Any) -> Loop:
        with _making:  # a loop made twice would be compiled twice
            if functions not in made:
                made[functions] = _compiled(make(*functions), functions, source_digest)
        return made[functions]

    return loop_of


def _compiled(loop: Any, functions: tuple[Any, ...], source_digest: Callable[[], str]) -> Any:
    if not all(is_compiled(function) for function in functions):
        return loop
    names = tuple(f"{one.__module__}.{one.__qualname__}" for one in functions)
    # an index of its own: numba may mix up entries of one index that two processes write at once
    loop.__qualname__ += f".{hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}"
    compiled: Any = hot_loop(loop)
    if all(name.startswith("slotwise.") for name in names):
        compiled._cache = _LoopCache(loop, names, source_digest())
    return compiled
