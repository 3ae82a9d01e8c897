"""The end of a process whose compiler still works."""

from __future__ import annotations

import subprocess
import sys

ENDING = """
import sys, threading
from slotwise.service.server import end_beside_compiler
stay = threading.Event()
threading.Thread(target=stay.wait, name=sys.argv[1]).start()  # would keep the process alive
print("everything is stored")
end_beside_compiler("compiling")
stay.set()
sys.exit(3)
"""


def ended(thread_name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ENDING, thread_name]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def test_a_process_ends_as_a_success_while_the_compiler_works() -> None:
    process = ended("compiling")
    assert (process.returncode, process.stdout) == (0, "everything is stored\n")


def test_without_a_compiler_the_end_is_left_to_the_interpreter() -> None:
    assert ended("other").returncode == 3
