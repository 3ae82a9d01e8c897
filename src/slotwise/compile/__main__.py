"""The process that compiles: `python -m slotwise.compile`, started by `background`.

It reads functions and descriptions of their arguments as lines of JSON, leaves their machine code
in the cache on disk, and answers each with a line. It ends when its input ends.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from slotwise.compile.background import DONE, FAILED
from slotwise.compile.descriptions import described_function, described_value
from slotwise.compile.switch import code_for


def main() -> None:
    """Compile the functions named in the input, in their order."""
    gc.disable()  # a tenth faster, and the process ends soon
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what others print is no answer
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_into, args=(requests,), daemon=True).start()
    while True:
        function, described = requests.get()
        try:
            examples = described_value(json.loads(described))
            code_for(described_function(function), *examples).compile()
        except Exception:  # noqa: BLE001 - the program tries itself, and says why it cannot
            os.write(answers, f"{FAILED}\n".encode())
        else:
            os.write(answers, f"{DONE}\n".encode())


def _read_into(requests: queue.SimpleQueue[object]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)  # also in the middle of compiling: the program has ended


if __name__ == "__main__":
    main()
