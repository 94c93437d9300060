"""How threads combine what each of them has: by exchanges within warps, then by shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.expr import (
    TRUE,
    Expr,
    Load,
    Var,
    all_of,
    binary,
    cast,
    const,
    minimum,
    select,
)
from tensorir.passes.gpu.axes import WARP
from tensorir.stmt import (
    Exchange,
    For,
    ForKind,
    If,
    Let,
    Stmt,
    Store,
    Sync,
    seq,
)
from tensorir.visit import substitute_stmt, transform, walk

Make = Callable[[Buffer, str, tuple[int, ...], str], Buffer]

FEW = 8
"""Values that one thread adds up; more are halved by all threads first."""


@dataclass(frozen=True)
class Digit:
    """A part of the linear index of a thread: index // stride % extent is `value`."""

    value: Expr
    extent: int
    stride: int
    shared: bool
    """Whether threads that differ in it combine what they have."""


@dataclass(frozen=True)
class Values:
    """The registers of a thread, one for each component, and what two of them are together."""

    registers: tuple[Load, ...]
    own: tuple[Expr, ...]
    merged: tuple[Expr, ...]
    before: tuple[Var, ...]
    parts: tuple[Load, ...]

    def merge(self, others: Sequence[Expr]) -> Stmt:
        """The statement that merges `others` into the registers."""
        taken: list[tuple[Expr, Expr]] = list(zip(self.parts, others))
        single = len(self.registers) == 1
        if single:
            taken.append((self.before[0], self.registers[0]))
        known: Mapping[Expr, Expr] = {e: cast(e.dtype, to) for e, to in taken}  # bools are bytes
        memo: dict[Expr, Expr] = {}
        values = [transform(e, known.get, memo) for e in self.merged]
        stmt = seq(*[Store(r.buffer, r.indices, v) for r, v in zip(self.registers, values)])
        for var, register in [] if single else list(zip(self.before, self.registers)):
            stmt = Let(var, register, stmt)
        return stmt


def values_of(body: Stmt, index: Mapping[Var, Expr]) -> Values:
    """What is combined in the loops over threads that thread_reductions makes."""
    assert isinstance(body, If) and body.orelse is not None
    parts = [s for s in walk(body.then) if isinstance(s, Store)]
    merges = [s for s in walk(body.orelse) if isinstance(s, Store)]
    before = [s.var for s in walk(body.orelse) if isinstance(s, Let)]
    loads = [s.value for s in parts]
    own = [s.value for s in walk(substitute_stmt(body.then, index)) if isinstance(s, Store)]
    return Values(
        tuple([Load(s.buffer, s.indices) for s in parts]),
        tuple(own),
        tuple([s.value for s in merges]),
        tuple(before),
        tuple([e for e in loads if isinstance(e, Load)]),
    )


def joined(digits: Sequence[Digit]) -> list[Digit]:
    """The digits, lowest first, with neighbours of one kind as one digit."""
    found: list[Digit] = []
    for digit in digits:
        last = found[-1] if found else None
        if last is not None and last.shared == digit.shared:
            value = last.value + digit.value * last.extent
            extent = last.extent * digit.extent
            found[-1] = Digit(value, extent, last.stride, last.shared)
        elif digit.extent > 1:
            found.append(digit)
    return found


class Combination:
    """The statements for one reduction. All threads of the block run them.

    `digits` are those of the linear index of a thread, lowest first; `part` is the variable of a
    new loop, and `make` makes new buffers: like another one, named after what they hold, of a
    shape and a scope.
    """

    def __init__(self, digits: Sequence[Digit], values: Values, part: Var, make: Make) -> None:
        self.digits = joined(digits)
        self.values = values
        self.part = part
        self.make = make
        self.got = [make(r.buffer, "from", (1,), "local") for r in values.registers]
        self.thread: Expr = const(0)
        self.count = 1
        for digit in self.digits:
            self.thread = self.thread + digit.value * digit.stride
            self.count *= digit.extent
        self.lane = self.thread % WARP if self.count > WARP else self.thread

    def stmts(self) -> Stmt:
        values = self.values
        taken = [Store(r.buffer, r.indices, e) for r, e in zip(values.registers, values.own)]
        single = [d for d in self.digits if d.shared] == self.digits != []
        parts: list[Stmt] = []
        left: list[tuple[Digit, Expr, int]] = []  # digits, what is left of them, and how much
        first: list[Expr] = []
        if single and not _in_bits(self.digits[0]):
            parts += self.down()
            if self.count > WARP:
                digit = self.digits[0]
                left.append((digit, digit.value // WARP, -(-self.count // WARP)))
                first.append(binary("==", self.lane, 0))
        else:
            for digit in [d for d in self.digits if d.shared]:
                bits = min(digit.extent, WARP // digit.stride) if _in_bits(digit) else 1
                parts += [self.across(digit.stride << n) for n in range(bits.bit_length() - 1)]
                if bits > 1:
                    first.append(binary("==", digit.value % bits, 0))
                if digit.extent > bits:
                    left.append((digit, digit.value // bits, digit.extent // bits))
        if left:
            parts.append(self.in_memory(left, first))
        return seq(*taken, *parts)

    def across(self, distance: int) -> Stmt:
        """Each lane merges what the one at this distance has, and so do they all: of two lanes,
        both have the same."""
        return self.exchanged(binary("^", self.lane, const(distance)))

    def down(self) -> list[Stmt]:
        """The first lane of each warp gets what all of them have, where some may be missing."""
        start = self.thread - self.lane
        lanes: Expr = const(self.count)
        if self.count > WARP:
            lanes = minimum(const(WARP), const(self.count) - start)
        parts: list[Stmt] = []
        distance = 1 << (min(self.count, WARP) - 1).bit_length() >> 1
        while distance:
            there = self.lane + distance < lanes
            source = select(there, self.lane + distance, self.lane)
            parts.append(self.exchanged(source, there))
            distance //= 2
        if self.count <= WARP:
            for register in self.values.registers:
                parts.append(Exchange(register.buffer, register.indices, register, const(0)))
        return parts

    def exchanged(self, source: Expr, where: Expr | None = None) -> Stmt:
        """Merge what the lane `source` has, under a condition."""
        zero = (const(0),)
        moves = [Exchange(b, zero, r, source) for b, r in zip(self.got, self.values.registers)]
        merge = self.values.merge([Load(b, zero) for b in self.got])
        return seq(*moves, merge if where is None else If(where, merge))

    def in_memory(self, left: Sequence[tuple[Digit, Expr, int]], first: list[Expr]) -> Stmt:
        """What is left, through shared memory, in which neighbours among the threads have elements
        side by side: a row for each group of threads that combine, or a column."""
        group: Expr = const(0)
        groups = 1
        for digit in self.digits:
            if not digit.shared:
                group = group + digit.value * groups
                groups *= digit.extent
        place: Expr = const(0)
        count = 1
        for _, value, extent in left:
            place = place + value * count
            count *= extent
        registers = self.values.registers
        apart = [digit.stride for digit in self.digits if not digit.shared and digit.extent > 1]
        columns = min(apart, default=WARP) < min(digit.stride for digit, _, _ in left)
        shape = (count, groups) if columns else (groups, count)
        memory = [self.make(r.buffer, "parts", shape, "shared") for r in registers]

        def element(at: Expr) -> tuple[Expr, Expr]:
            return (at, group) if columns else (group, at)

        def put(condition: Expr, *before: Stmt) -> list[Stmt]:
            stores = [Store(m, element(place), r) for m, r in zip(memory, registers)]
            stmt = seq(*before, *stores)
            return [stmt if condition is TRUE else If(condition, stmt), Sync("block")]

        def read(at: Expr) -> list[Load]:
            return [Load(m, element(at)) for m in memory]

        parts = put(all_of(*first))
        while count > FEW:
            half = -(-count // 2)
            merge = self.values.merge(read(place + half))
            parts += put(all_of(*first, place < count - half), merge)
            count = half
        parts += [Store(r.buffer, r.indices, e) for r, e in zip(registers, read(const(0)))]
        if count > 1:
            each = self.values.merge(read(self.part + 1))
            parts.append(For(self.part, const(count - 1), each, ForKind.UNROLLED))
        return seq(*parts)


def _in_bits(digit: Digit) -> bool:
    """Whether bits of the number of a lane are this digit's alone."""
    if digit.stride & (digit.stride - 1) or digit.stride >= WARP:
        return False
    return digit.extent & (digit.extent - 1) == 0 or digit.extent % (WARP // digit.stride) == 0
