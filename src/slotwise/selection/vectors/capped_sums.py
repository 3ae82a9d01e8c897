"""The sum of the numbers below a cap: what weights that are capped share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.compile.vector_code import (
    INT,
    Builder,
    Tally,
    cgutils,
    constant,
    count_of,
    ir,
    load,
    numbers_of,
    reduce_lanes,
    splat,
    types,
    vector_pass,
)

Floats = NDArray[np.float64]

LANES = 16
"""Numbers in a block, which are added at once."""


def _below_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    numbers = numbers_of(context, builder, signature, arguments, 0)
    n_blocks, cap = arguments[1:]
    none, caps = constant(0.0, LANES), splat(builder, cap, LANES)
    total, count = Tally(builder, none), Tally(builder, ir.Constant(INT, 0))
    with cgutils.for_range(builder, n_blocks) as loop:
        block = load(builder, numbers, builder.mul(loop.index, ir.Constant(INT, LANES)), LANES)
        is_below = builder.fcmp_ordered("<", block, caps)
        total.set(builder.fadd(total.get(), builder.select(is_below, block, none)))
        count.set(builder.add(count.get(), count_of(builder, builder.not_(is_below))))
    whole = reduce_lanes(builder, total.get(), builder.fadd)
    return context.make_tuple(builder, signature.return_type, [whole, count.get()])


@vector_pass(types.Tuple((types.float64, types.int64)), _below_code)
def sum_below(numbers: Floats, n_blocks: int, cap: float) -> tuple[float, int]:
    """Return the sum of the numbers below the cap, and how many reach it, in whole blocks.

    The compiler makes no vector code of such a sum.
    """
    blocks = numbers[: LANES * n_blocks].reshape(n_blocks, LANES)
    sums = np.zeros(LANES)
    for block in blocks:
        sums += np.where(block < cap, block, 0.0)
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return float(sums[0]), int(np.sum(blocks >= cap))
