"""The policy of `examples/queue_ts`, installed for tests and for files that they compare with."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def install_plug_in() -> None:
    """Let `queue-ts` be found by its name, as after `pip install examples/queue_ts`.

    It is the policy that samples and keeps floors by queues: tests of the selector and the service
    play it. Only the metadata that pip would write is needed, and the path of the code.
    """
    project = tomllib.loads((ROOT / "examples" / "queue_ts" / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]
    folder = ROOT / ".cache" / "plug-ins"
    info = folder / "queue_ts-0.1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [f"[{group}]\n{name} = {it}\n" for group in named for name, it in named[group].items()]
    for file, text in (
        ("METADATA", "Metadata-Version: 2.1\nName: queue-ts\nVersion: 0.1.0\n"),
        ("entry_points.txt", "".join(lines)),
    ):
        unfinished = info / f"{file}.{os.getpid()}"
        unfinished.write_text(text)
        unfinished.replace(info / file)
    sys.path += [str(folder), str(ROOT / "examples" / "queue_ts")]
