"""The next numbers of a random generator, many at once.

In compiled code `rng.random()` is a call into numpy for each number, which waits for the number
before it. Here the same numbers are computed in vectors: the state of numpy's default generator,
PCG64, is a 128-bit number s that a step turns into a s + c, so that many steps are one such step,
too. Any other generator is asked for one number after the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.core import codegen
from numpy.typing import NDArray

from slotwise.compile.decorators import inner, is_compiled
from slotwise.compile.vector_code import (
    DOUBLE,
    INT,
    Builder,
    Lanes,
    Tally,
    cgutils,
    constant,
    ir,
    numbers_of,
    splat,
    store,
    types,
    vector_pass,
)

LANES = 8
WIDE, HALF = ir.IntType(128), 0xFFFFFFFF
MODULUS = 2**128
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""The factor a of PCG64 (O'Neill 2014); the term c is the generator's own."""

NEXT_DOUBLE = ir.FunctionType(DOUBLE, [INT])
KNOWN_GENERATOR = "slotwise_pcg64_next_double"
"""The function by which PCG64 gives a number: a generator that has it is one."""


def _address_of_pcg64() -> int:
    """Return the address of that function, or 1 where this numpy keeps the state otherwise."""
    generator = np.random.PCG64(1)
    interface = generator.ctypes
    state = ctypes.c_uint64.from_address(interface.state_address).value
    kept = ctypes.string_at(state, 32)
    known = generator.state["state"]
    expected = b"".join(known[name].to_bytes(16, "little") for name in ("state", "inc"))
    address = ctypes.cast(interface.next_double, ctypes.c_void_p).value
    return address if kept == expected and address is not None else 1


llvm: Any = codegen.ll  # type: ignore[attr-defined]
# machine code on disk names the function, since its address is another in every process
llvm.add_symbol(KNOWN_GENERATOR, _address_of_pcg64())


def _lanes(numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(INT, len(numbers)), [number % 2**64 for number in numbers])


class Wide(NamedTuple):
    """128-bit numbers in the lanes of two vectors."""

    high: Any
    low: Any

    @classmethod
    def of(cls, numbers: list[int]) -> Wide:
        """Return constants."""
        return cls(_lanes([number >> 64 for number in numbers]), _lanes(numbers))

    @classmethod
    def splat(cls, builder: Builder, number: Any) -> Wide:
        """Return one number in all lanes."""
        high = builder.trunc(builder.lshr(number, ir.Constant(WIDE, 64)), INT)
        low = builder.trunc(number, INT)
        return cls(splat(builder, high, LANES), splat(builder, low, LANES))

    def plus(self, other: Wide, builder: Builder) -> Wide:
        """Return sums."""
        low = builder.add(self.low, other.low)
        carry = builder.zext(builder.icmp_unsigned("<", low, other.low), low.type)
        return Wide(builder.add(builder.add(self.high, other.high), carry), low)

    def times(self, other: Wide, builder: Builder) -> Wide:
        """Return products: of the low halves in parts of 32 bits, of the high ones what is left."""
        half, shift = _lanes([HALF] * LANES), _lanes([32] * LANES)
        low, low_rest = builder.and_(self.low, half), builder.lshr(self.low, shift)
        by, by_rest = builder.and_(other.low, half), builder.lshr(other.low, shift)
        first, last = builder.mul(low, by), builder.mul(low_rest, by_rest)
        one = builder.add(builder.mul(low_rest, by), builder.lshr(first, shift))
        two = builder.add(builder.mul(low, by_rest), builder.and_(one, half))
        carried = builder.add(builder.lshr(one, shift), builder.lshr(two, shift))
        crossed = builder.add(builder.mul(self.high, other.low), builder.mul(self.low, other.high))
        high = builder.add(builder.add(last, carried), crossed)
        return Wide(high, builder.or_(builder.shl(two, shift), builder.and_(first, half)))

    def uniforms(self, builder: Builder) -> Any:
        """Return the numbers of these states: halves joined, turned by the first six bits."""
        mixed = builder.xor(self.high, self.low)
        turn = builder.lshr(self.high, _lanes([58] * LANES))
        back = builder.and_(builder.neg(turn), _lanes([63] * LANES))
        bits = builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back))
        short = builder.lshr(bits, _lanes([11] * LANES))
        whole = builder.uitofp(short, ir.VectorType(DOUBLE, LANES))
        return builder.fmul(whole, constant(2.0**-53, LANES))


def _steps(count: int) -> tuple[int, int]:
    """Return what `count` steps multiply a state by, and the generator's term."""
    powers = [pow(MULTIPLIER, power, MODULUS) for power in range(count + 1)]
    return powers[-1], sum(powers[:-1]) % MODULUS


def _draw_rows(builder: Builder, generator: Any, count: Any, rows: list[Any]) -> None:
    """Write `count` numbers of PCG64 into each row, column by column; move its state on.

    A lane holds the state of a number of the first row. The other rows follow step by step.
    """
    kept = builder.load(builder.inttoptr(generator.state, WIDE.as_pointer().as_pointer()))
    state = builder.load(kept, align=8)
    own = builder.load(builder.gep(kept, [ir.Constant(INT, 1)]), align=8)
    term = Wide.splat(builder, own)
    starts = [_steps(1 + len(rows) * lane) for lane in range(LANES)]
    start = Wide.splat(builder, state).times(Wide.of([factor for factor, _ in starts]), builder)
    start = start.plus(term.times(Wide.of([terms for _, terms in starts]), builder), builder)
    high, low = Tally(builder, start.high), Tally(builder, start.low)
    one_step = Wide.of([MULTIPLIER] * LANES)
    factor, terms = _steps(LANES * len(rows))
    block_step = Wide.of([factor] * LANES)
    block_term = Wide.splat(builder, builder.mul(own, ir.Constant(WIDE, terms)))

    def uniforms() -> Iterator[tuple[Any, Any]]:
        states = Wide(high.get(), low.get())
        for number, row in enumerate(rows):
            if number > 0:
                states = states.times(one_step, builder).plus(term, builder)
            yield row, states.uniforms(builder)

    lanes = ir.Constant(INT, LANES)
    n_blocks = builder.sdiv(count, lanes)
    with cgutils.for_range(builder, n_blocks) as blocks:
        place = builder.mul(blocks.index, lanes)
        for row, numbers in uniforms():
            store(builder, row, place, numbers)
        after = Wide(high.get(), low.get()).times(block_step, builder).plus(block_term, builder)
        high.set(after.high)
        low.set(after.low)
    done = builder.mul(n_blocks, lanes)
    rest = builder.sub(count, done)
    with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(INT, 0))):
        for row, numbers in uniforms():
            left = Lanes(builder, numbers)
            with cgutils.for_range(builder, rest) as loop:
                number = left.at(loop.index, 1).get()
                store(builder, row, builder.add(done, loop.index), number)
    # the state after the last number is one step behind that of the next one
    halves = (builder.extract_element(half.get(), rest) for half in (high, low))
    upper, lower = (builder.zext(half, WIDE) for half in halves)
    upcoming = builder.or_(builder.shl(upper, ir.Constant(WIDE, 64)), lower)
    back = ir.Constant(WIDE, pow(MULTIPLIER, -1, MODULUS))
    builder.store(builder.mul(builder.sub(upcoming, own), back), kept, align=8)


def _next(builder: Builder, generator: Any) -> Any:
    """Return the next number of any generator."""
    function = builder.inttoptr(generator.fnptr_next_double, NEXT_DOUBLE.as_pointer())
    return builder.call(function, [generator.state])


def _draw(builder: Builder, generator: Any, count: Any, rows: list[Any]) -> None:
    """Write `count` numbers of any generator into each row, column by column."""
    pcg64 = cgutils.get_or_insert_function(builder.module, NEXT_DOUBLE, KNOWN_GENERATOR)
    known_address = builder.ptrtoint(pcg64, INT)
    is_pcg64 = builder.icmp_unsigned("==", generator.fnptr_next_double, known_address)
    with builder.if_else(is_pcg64) as (known, unknown):
        with known:
            _draw_rows(builder, generator, count, rows)
        with unknown, cgutils.for_range(builder, count) as loop:
            for row in rows:
                builder.store(_next(builder, generator), builder.gep(row, [loop.index]))


class Bits(NamedTuple):
    """Where a generator keeps its state, and its function that gives a number.

    Compiled code that Python calls takes these instead of the generator, whose parts numba would
    look up in every call: that takes longer than drawing a page.
    """

    state: int
    fnptr_next_double: int


def bits_of(rng: np.random.Generator) -> Any:
    """Return the bits of a generator, which must outlive them; interpreted code gets itself."""
    if not is_compiled(draw_levels):
        return rng
    interface = rng.bit_generator.ctypes
    address = ctypes.cast(interface.next_double, ctypes.c_void_p).value
    return Bits(interface.state_address, address or 0)


def _generator(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    """Return the parts of the generator, or of its bits, that are the first argument."""
    kind = signature.args[0]
    if isinstance(kind, types.BaseTuple):
        return Bits(*cgutils.unpack_tuple(builder, arguments[0]))
    whole = cgutils.create_struct_proxy(kind)(context, builder, arguments[0])
    inside = context.data_model_manager[kind].get_member_fe_type("bit_generator")
    return cgutils.create_struct_proxy(inside)(context, builder, whole.bit_generator)


def _next_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    return _next(builder, _generator(context, builder, signature, arguments))


@vector_pass(types.float64, _next_code)
def next_uniform(rng: np.random.Generator) -> float:
    """Return the next number of a generator, which may be given by its bits."""
    return rng.random()


def _pairs_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    kind = signature.args[1]
    if kind.layout != "C":
        raise TypeError("random numbers are only drawn into arrays whose numbers lie in order")
    array = context.make_array(kind)(context, builder, arguments[1])
    _, count = cgutils.unpack_tuple(builder, array.shape)
    rows = [array.data, builder.gep(array.data, [count])]
    _draw(builder, _generator(context, builder, signature, arguments), count, rows)
    return context.get_dummy_value()


@vector_pass(types.none, _pairs_code)
def _draw_pairs(rng: np.random.Generator, draws: NDArray[np.float64]) -> None:
    """Fill two rows with the next numbers of a generator, column by column."""
    for slot in range(draws.shape[1]):
        draws[0, slot] = rng.random()
        draws[1, slot] = rng.random()


def _numbers_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    numbers = numbers_of(context, builder, signature, arguments, 1)
    generator = _generator(context, builder, signature, arguments)
    _draw(builder, generator, arguments[2], [numbers])
    return context.get_dummy_value()


@vector_pass(types.none, _numbers_code)
def draw_uniforms(rng: np.random.Generator, draws: NDArray[np.float64], count: int) -> None:
    """Write the next `count` numbers of a generator, which may be given by its bits."""
    for k in range(count):
        draws[k] = rng.random()


@inner
def draw_levels(rng: np.random.Generator, draws: NDArray[np.float64]) -> None:
    """Fill `draws[level, slot]` with the next numbers of a generator, slot by slot."""
    n_levels, n_slots = draws.shape
    if n_levels == 2:
        _draw_pairs(rng, draws)
    else:
        for slot in range(n_slots):
            for level in range(n_levels):
                draws[level, slot] = rng.random()
