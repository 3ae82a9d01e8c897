"""A selector as one file: a zip of plain arrays and a JSON header, never pickle."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.rounds import Link

__all__ = ["FORMAT", "link_from_json", "link_to_json", "read_file", "write_file"]

FORMAT = 1
"""Version of the file format; raised when an older slotwise could not read a new file."""

HEADER = "header"


def link_to_json(link: Link) -> Any:
    """Return a link id as JSON: strings and integers as they are, tuples as tagged lists."""
    if isinstance(link, str) or (isinstance(link, int) and not isinstance(link, bool)):
        return link
    if isinstance(link, tuple):
        return {"tuple": [link_to_json(part) for part in link]}
    rule = "strings, integers or tuples of them to be saved"
    raise InvalidInput.of("links", rule, link, "give the selector such ids")


def link_from_json(value: Any) -> Link:
    """Return the link id that `link_to_json` wrote."""
    if isinstance(value, dict):
        return tuple(link_from_json(part) for part in value["tuple"])
    return value  # type: ignore[no-any-return]


def write_file(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write header and arrays; the file appears whole or not at all."""
    text = json.dumps({"slotwise": FORMAT, **header}).encode()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            everything: dict[str, Any] = {HEADER: np.frombuffer(text, np.uint8), **arrays}
            np.savez_compressed(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a saved selector; refuse what this version cannot read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
        version = header["slotwise"]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise UnsupportedState(f"{path} is not a selector that slotwise saved: {error}") from error
    if version > FORMAT:
        raise UnsupportedState(
            f"{path} was saved in format {version}, this slotwise reads up to {FORMAT}; "
            "install a newer slotwise"
        )
    return header, arrays
