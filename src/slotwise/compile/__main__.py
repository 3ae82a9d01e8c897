"""The process that compiles: `python -m slotwise.compile`, started by `slotwise.compile.switch`.

It reads functions and descriptions of their arguments as JSON from its input, and leaves their
machine code in the cache on disk.
"""

from __future__ import annotations

import json
import os
import sys

from slotwise.compile.decorators import described_function, described_value
from slotwise.compile.switch import code_for

NICENESS = 10


def main() -> None:
    """Compile the functions named in the input."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    requests = json.load(sys.stdin)
    for function, described in requests:
        examples = described_value(json.loads(described))
        code_for(described_function(function), *examples).compile()


if __name__ == "__main__":
    main()
