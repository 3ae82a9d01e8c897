"""Numbers that stand for page ids, so that a page seen twice is found without keeping the ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slotwise.selection.compiled import compiled

__all__ = ["page_hashes"]

OFFSET = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)


@compiled
def _fnv_1a(offsets: NDArray[np.int64], text: NDArray[np.uint8]) -> NDArray[np.uint64]:
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(hashes)):
        value = OFFSET
        for place in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(text[place])) * PRIME
        # FNV mixes the last bytes little, which are what consecutive ids differ in
        value ^= value >> np.uint64(32)
        hashes[i] = value * np.uint64(0x9E3779B97F4A7C15)
    return hashes


def page_hashes(page_ids: Any) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each id of a pyarrow array: FNV-1a of a text, a number itself.

    Two of a million different ids share a hash with a probability of 3e-8.
    """
    if pa.types.is_integer(page_ids.type):
        return np.asarray(page_ids.to_numpy(zero_copy_only=False)).astype(np.uint64)
    texts = page_ids.cast(pa.large_string())
    _, offsets, text = texts.buffers()
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.asarray(_fnv_1a(places, letters))
