"""Write passes in LLVM's vectors, such as those of `slotwise.selection.vectors.score_passes`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numba import core

Builder = Any
Codegen = Callable[[Any, Builder, Any, Any], Any]
Twin = TypeVar("Twin", bound=Callable[..., Any])

# what numba has no types for
cgutils: Any = core.cgutils
ir: Any = cgutils.ir
types: Any = core.types
_Intrinsic: Any = core.extending._Intrinsic

DOUBLE, INT = ir.DoubleType(), ir.IntType(64)


class Pass(_Intrinsic):  # type: ignore[misc]
    """A pass that compiled code gets as vectors and Python as it is written."""

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        """Run the pass as it is written."""
        return self.__wrapped__(*arguments)


def vector_pass(result: Any, codegen: Codegen) -> Callable[[Twin], Twin]:
    """Return a decorator: in compiled code `codegen` writes the pass instead of the twin."""

    def decorate(twin: Twin) -> Twin:
        def typed(_: Any, *arguments: Any) -> Any:
            wide = [types.float64 if isinstance(one, types.Float) else one for one in arguments]
            whole = [types.int64 if isinstance(one, types.Integer) else one for one in wide]
            return result(*whole), codegen

        context = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [context, *inspect.signature(twin).parameters.values()]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        one: Any = Pass(twin.__name__, typed)
        one._register()
        one.__wrapped__ = twin
        one.__doc__ = twin.__doc__
        return one

    return decorate


def numbers_of(context: Any, builder: Builder, signature: Any, arguments: Any, place: int) -> Any:
    """Return the address of the numbers of an array."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return array.data


def splat(builder: Builder, number: Any, lanes: int) -> Any:
    """Return a vector with the same number in all lanes."""
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    )


def load(builder: Builder, numbers: Any, place: Any, lanes: int) -> Any:
    """Read a vector from an array of doubles."""
    address = builder.gep(numbers, [place])
    return builder.load(
        builder.bitcast(address, ir.VectorType(DOUBLE, lanes).as_pointer()), align=8
    )


def store(builder: Builder, numbers: Any, place: Any, vector: Any) -> None:
    """Write a vector, or one number, into an array of doubles."""
    address = builder.bitcast(builder.gep(numbers, [place]), vector.type.as_pointer())
    builder.store(vector, address, align=8)


@contextmanager
def words_of(builder: Builder, n_entries: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """Write a loop over the words of at least `size` entries: where each starts, what is done.

    The last word overlaps the one before it instead of reaching beyond the arrays, so that its
    first entries may be done already.
    """
    word = ir.Constant(INT, size)
    n_words = builder.sdiv(builder.add(n_entries, ir.Constant(INT, size - 1)), word)
    last_start = builder.sub(n_entries, word)
    with cgutils.for_range(builder, n_words) as loop:
        wanted = builder.mul(loop.index, word)
        is_whole = builder.icmp_signed("<=", wanted, last_start)
        start = builder.select(is_whole, wanted, last_start)
        yield start, builder.sub(wanted, start)


def first_lanes(builder: Builder, n_numbers: Any, lanes: int) -> Any:
    """Return a comparison that holds in the first lanes."""
    numbers = ir.Constant(ir.VectorType(INT, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, splat(builder, n_numbers, lanes))


def load_lanes(builder: Builder, numbers: Any, place: Any, is_there: Any) -> Any:
    """Read some lanes of a vector from an array of doubles; the others are zero.

    Nothing is read where a lane is not there: the vector may reach beyond the array.
    """
    lanes = is_there.type.count
    vector, align = ir.VectorType(DOUBLE, lanes), ir.IntType(32)
    address = builder.bitcast(builder.gep(numbers, [place]), vector.as_pointer())
    form = ir.FunctionType(vector, [address.type, align, is_there.type, vector])
    name = f"llvm.masked.load.v{lanes}f64.p0"
    read = cgutils.get_or_insert_function(builder.module, form, name)
    return builder.call(read, [address, ir.Constant(align, 8), is_there, constant(0.0, lanes)])


def reduce_lanes(builder: Builder, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Join the lanes of a vector: halves, quarters, and so on."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(
                vector,
                nothing,
                ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(at, at + lanes))),
            )
            for at in (0, lanes)
        )
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def smaller(builder: Builder) -> Callable[[Any, Any], Any]:
    """Return what joins two vectors by the smaller number of each lane."""
    return lambda one, other: builder.select(
        builder.fcmp_ordered("<", one, other, flags=["nnan", "nsz"]), one, other
    )


def larger(builder: Builder) -> Callable[[Any, Any], Any]:
    """Return what joins two vectors by the larger number of each lane."""
    return lambda one, other: builder.select(
        builder.fcmp_ordered(">", one, other, flags=["nnan", "nsz"]), one, other
    )


class Tally:
    """A number or vector that a loop changes."""

    _align: int | None

    def __init__(self, builder: Builder, start: Any) -> None:
        self._builder, self._align = builder, None
        self._place = cgutils.alloca_once(builder, start.type)
        self.set(start)

    @classmethod
    def at(cls, builder: Builder, place: Any) -> Tally:
        """Return the number or vector at the address of a double."""
        tally = cls.__new__(cls)
        tally._builder, tally._place, tally._align = builder, place, 8
        return tally

    def get(self) -> Any:
        """Return what it is now."""
        return self._builder.load(self._place, align=self._align)

    def set(self, number: Any) -> None:
        """Let it be something else."""
        self._builder.store(number, self._place, align=self._align)


class Lanes:
    """The lanes of a vector in memory, to be changed one by one."""

    def __init__(self, builder: Builder, vector: Any) -> None:
        self._builder = builder
        self._place = cgutils.alloca_once(builder, vector.type)
        builder.store(vector, self._place)

    def at(self, lane: Any, lanes: int) -> Any:
        """Return some lanes from one on as a tally of a shorter vector."""
        builder, part = self._builder, ir.VectorType(DOUBLE, lanes)
        first = builder.gep(builder.bitcast(self._place, DOUBLE.as_pointer()), [lane])
        return Tally.at(builder, builder.bitcast(first, part.as_pointer()))


def constant(number: float, lanes: int) -> Any:
    """Return a vector with the same constant in all lanes."""
    return ir.Constant(ir.VectorType(DOUBLE, lanes), [number] * lanes)


def count_of(builder: Builder, mask: Any) -> Any:
    """Return how many lanes of a comparison hold."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    return builder.zext(builder.ctpop(bits), INT)


def for_each_bit(builder: Builder, bits: Any, do: Callable[[Any], None]) -> None:
    """Write a loop that calls `do` with the place of each bit that is set, the lowest first."""
    left = Tally(builder, bits)
    test, body, end = (builder.append_basic_block(name) for name in ("test", "bit", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(builder.icmp_unsigned("!=", left.get(), ir.Constant(INT, 0)), body, end)
    builder.position_at_end(body)
    bits = left.get()
    left.set(builder.and_(bits, builder.sub(bits, ir.Constant(INT, 1))))
    do(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)))
    builder.branch(test)
    builder.position_at_end(end)


def note_bits(
    builder: Builder, bits: Any, group: int, count: Tally, note: Callable[[Any, Any], None]
) -> None:
    """Write code that calls `note` with the place of each bit that is set and its number.

    A loop that ends with the bits ends unforeseen in nearly every word, which costs more than
    its body. So `group` bits are taken at once; where fewer are left, the place after the last
    one is written to, too.
    """
    left = Tally(builder, bits)
    body, end = (builder.append_basic_block(name) for name in ("bits", "end"))
    builder.branch(body)
    builder.position_at_end(body)
    bits, before = left.get(), count.get()
    n_left = builder.ctpop(bits)
    no = ir.Constant(ir.IntType(1), 0)
    for number in range(group):
        at = ir.Constant(INT, number)
        is_there = builder.icmp_unsigned("<", at, n_left)
        place = builder.add(before, builder.select(is_there, at, n_left))
        note(builder.and_(builder.cttz(bits, no), ir.Constant(INT, INT.width - 1)), place)
        bits = builder.and_(bits, builder.sub(bits, ir.Constant(INT, 1)))
    left.set(bits)
    count.set(builder.add(before, builder.sub(n_left, builder.ctpop(bits))))
    builder.cbranch(builder.icmp_unsigned("!=", bits, ir.Constant(INT, 0)), body, end)
    builder.position_at_end(end)
