"""Codes for values that repeat: links and the features of visitors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vocabulary"]


class Vocabulary:
    """Give each value the next whole number when it is first seen."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def values(self) -> tuple[str, ...]:
        """All values, by code."""
        return tuple(self._codes)

    def code(self, value: str) -> int:
        """Return the code of one value."""
        return self._codes.setdefault(value, len(self._codes))

    def encode(self, column: Any) -> NDArray[np.int64]:
        """Return the codes of a pyarrow array of any type; null is the empty text."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        dictionary = encoded.dictionary.to_pylist()
        codes = np.array(
            [*(self.code("" if value is None else str(value)) for value in dictionary), -1],
            dtype=np.int64,
        )
        if encoded.indices.null_count:
            codes[-1] = self.code("")
        places = encoded.indices.fill_null(len(dictionary))
        return codes[places.to_numpy(zero_copy_only=False).astype(np.int64)]
