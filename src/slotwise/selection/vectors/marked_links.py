"""List the links that are marked: 64 marks are read at once, and hardly any of them is set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner, int64, vector_pass
from slotwise.compile.decorators import WORD


@vector_pass
def list_words(marks: NDArray[np.bool_], listed: NDArray[np.int64], n_marks: int) -> int:
    """List the marked links of a pool of at least `WORD`."""
    count = 0
    for link in range(n_marks):
        if marks[link]:
            listed[count] = link
            count += 1
    return count


@inner
def list_marked(marks: NDArray[np.bool_], listed: NDArray[np.int64]) -> int:
    """List the links that are marked, in their order; return how many there are.

    `listed` must have room for one more than all of them.
    """
    if len(marks) >= WORD:
        return list_words(marks, listed, len(marks))
    count = int64(0)
    for link in range(len(marks)):
        listed[count] = link
        count += marks[link]
    return count
