"""A selector as one file: a zip of plain arrays and a JSON header, never pickle."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.rounds import Link
from slotwise.version import __version__

__all__ = ["FORMAT", "link_from_json", "link_to_json", "read_file", "write_file"]

FORMAT = 2
"""Version of the file format; raised when an older slotwise could not read a new file."""

HEADER = "header"

MAX_BYTES = 4 * 2**30
"""The most that the arrays of a file may take in memory: more is damage or an attack."""


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


def _plain(value: Any) -> Any:
    """Return a numpy number among a policy's settings as JSON can write it."""
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidInput.of("policy", "settings of plain values to be saved", value)


def write_file(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write header and arrays; the file appears whole or not at all."""
    versions = {"slotwise": FORMAT, "version": __version__}
    text = json.dumps({**versions, **header}, default=_plain).encode()
    temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("wb") as file:
            everything: dict[str, Any] = {HEADER: np.frombuffer(text, np.uint8), **arrays}
            np.savez_compressed(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the file as asked for
    finally:
        temporary.unlink(missing_ok=True)


def _check_size(file: BinaryIO) -> None:
    """Refuse a file whose parts would not fit into memory, before any is unpacked."""
    with zipfile.ZipFile(file) as archive:
        n_bytes = sum(part.file_size for part in archive.infolist())
    if n_bytes > MAX_BYTES:
        raise ValueError(f"it would take {n_bytes} bytes of memory, {MAX_BYTES} are allowed")
    file.seek(0)


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a saved selector; refuse what this version cannot read."""
    with path.open("rb") as file:
        try:
            _check_size(file)
            with np.load(file, allow_pickle=False) as stored:
                header = json.loads(stored[HEADER].tobytes())
                version = int(header["slotwise"])
                # a newer format may hold anything: look no further than its number
                arrays = {} if version > FORMAT else {name: stored[name] for name in stored.files}
        except Exception as error:  # bytes of any origin can make the readers raise anything
            message = f"{path} is not a selector that slotwise saved, or is damaged: {error}"
            raise UnsupportedState(message) from error
    if version > FORMAT:
        raise UnsupportedState(
            f"{path} was saved by slotwise {header.get('version')} in format {version}, this "
            f"slotwise reads up to format {FORMAT}; install a newer slotwise"
        )
    del arrays[HEADER]
    return header, arrays
