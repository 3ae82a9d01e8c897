"""The process that compiles: `python -m slotwise.compile`, started by `slotwise.compile.switch`.

It reads functions and descriptions of their arguments as JSON from its input, and leaves their
machine code in the cache on disk. One such process works at a time on a cache: the next one finds
what this one made.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator

from slotwise.compile.cache import cache_folder
from slotwise.compile.decorators import described_function, described_value
from slotwise.compile.switch import code_for

NICENESS = 10


def main() -> None:
    """Compile the functions named in the input."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    requests = json.load(sys.stdin)
    with _only_compiler():
        for function, described in requests:
            examples = described_value(json.loads(described))
            code_for(described_function(function), *examples).compile()


@contextlib.contextmanager
def _only_compiler() -> Iterator[None]:
    """Wait until no other process compiles into this cache; continue if files cannot be locked."""
    folder = cache_folder()
    try:
        import fcntl
    except ImportError:
        folder = None
    if folder is None:
        yield
        return
    with (folder / "compiling.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
