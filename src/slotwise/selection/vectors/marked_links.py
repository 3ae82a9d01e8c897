"""List the links that are marked: 64 marks are read at once, and hardly any of them is set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.compile.decorators import inner, int64
from slotwise.compile.vector_code import (
    INT,
    Builder,
    Tally,
    ir,
    note_bits,
    numbers_of,
    types,
    vector_pass,
    words_of,
)

WORD = 64
"""Marks that a machine word can hold."""

GROUP = 4
"""Marks of a word that are noted without asking how many there are."""


def _listed_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    marks, listed = (numbers_of(context, builder, signature, arguments, k) for k in (0, 1))
    marked = ir.VectorType(ir.IntType(8), WORD)
    count = Tally(builder, ir.Constant(INT, 0))
    with words_of(builder, arguments[2], WORD) as (start, done):
        place = builder.bitcast(builder.gep(marks, [start]), marked.as_pointer())
        read = builder.load(place, align=1)
        is_marked = builder.icmp_unsigned("!=", read, ir.Constant(marked, None))
        bits = builder.shl(builder.lshr(builder.bitcast(is_marked, INT), done), done)

        def note(bit: Any, place: Any, start: Any = start) -> None:
            builder.store(builder.add(start, bit), builder.gep(listed, [place]))

        with builder.if_then(builder.icmp_unsigned("!=", bits, ir.Constant(INT, 0))):
            note_bits(builder, bits, GROUP, count, note)
    return count.get()


@vector_pass(types.int64, _listed_code)
def _list_words(marks: NDArray[np.bool_], listed: NDArray[np.int64], n_marks: int) -> int:
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
        return _list_words(marks, listed, len(marks))
    count = int64(0)
    for link in range(len(marks)):
        listed[count] = link
        count += marks[link]
    return count
