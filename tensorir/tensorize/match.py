"""Whether a nest of loops does what a tensor intrinsic means, and on which operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import (
    BinOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Var,
    binary,
    cast,
    const,
    int_value,
)
from tensorir.stmt import For, Stmt
from tensorir.tensorize.tensor_intrin import TensorIntrin, loop_nest
from tensorir.visit import children, substitute

COMMUTATIVE = ("+", "*", "and", "or")
ZERO = const(0)

NARROW = "int32"
"""What lowering makes of indices for GPUs, where they provably fit."""


class Mismatch(Exception):
    """The first difference between a nest and the meaning of an intrinsic."""


@dataclass(frozen=True)
class Operand:
    """Where a parameter of an intrinsic lies: element `base` of a buffer, counted row by row, and
    the strides of all dimensions but the last; `indices` are those of that element, as written."""

    buffer: Buffer
    base: Expr
    strides: tuple[Expr, ...]
    indices: tuple[Expr, ...]


def match_intrin(intrin: TensorIntrin, stmt: Stmt, analyzer: Analyzer) -> tuple[Operand, ...]:
    """The operands, one for each parameter of the intrinsic; raises Mismatch where `stmt` is
    something else. `analyzer` knows what is around `stmt`."""
    found = loop_nest(stmt)
    if isinstance(found, str):
        raise Mismatch(found)
    loops, store = found.loops, found.store
    theirs, meaning = intrin.nest.loops, intrin.nest.store
    mine = tuple(loop.const_extent for loop in loops)
    wanted = tuple(loop.const_extent for loop in theirs)
    if mine != wanted:
        shown = ", ".join(repr(loop.extent) for loop in loops)
        raise Mismatch(
            f"its loops have extents {', '.join(map(str, wanted))}, and those here {shown}"
        )
    matcher = _Matcher(intrin, theirs, loops, analyzer.copy(), {})
    for loop in loops:
        matcher.analyzer.bind(matcher.wide(loop.var), const(loop.const_extent or 0))
    matcher.access(meaning.buffer, meaning.indices, store.buffer, store.indices)
    matcher.expr(meaning.value, store.value)
    operands = tuple(matcher.found[param] for param in intrin.func.params)
    matcher.separate(operands)
    return operands


@dataclass
class _Matcher:
    intrin: TensorIntrin
    theirs: tuple[For, ...]
    loops: tuple[For, ...]
    analyzer: Analyzer
    found: dict[Buffer, Operand]
    twins: dict[Var, Var] = field(default_factory=dict)

    def wide(self, e: Expr) -> Any:
        """An index of 32 bits, which provably fits, in the 64 bits that arithmetic is about."""
        if isinstance(e, Cast) and isinstance(e.a, Var) and e.dtype == dt.INDEX:
            e = e.a
        if isinstance(e, Var) and e.dtype == NARROW:
            return self.twins.setdefault(e, Var(e.name, dt.INDEX))
        if isinstance(e, Const):
            return const(int(e.value))
        if isinstance(e, BinOp) and e.dtype in (dt.INDEX, NARROW):
            return binary(e.op, self.wide(e.a), self.wide(e.b))
        return e if e.dtype == dt.INDEX else cast(dt.INDEX, e)

    def expr(self, wanted: Expr, here: Expr) -> None:
        """Raise Mismatch unless the two are equal, operands standing for their parameters."""
        if isinstance(wanted, Load) and isinstance(here, Load):
            self.access(wanted.buffer, wanted.indices, here.buffer, here.indices)
            return
        same = type(wanted) is type(here) and wanted.dtype == here.dtype
        if same and isinstance(wanted, (Const, Var)):
            same = wanted is here
        if same and isinstance(wanted, (BinOp, Call)) and isinstance(here, (BinOp, Call)):
            same = _head(wanted) == _head(here)
        parts, others = children(wanted), children(here)
        if (
            not same
            or len(parts) != len(others)
            or not isinstance(wanted, (BinOp, Call, Cast, Const))
        ):
            raise Mismatch(f"it has {wanted!r} where the loops have {here!r}")
        before = dict(self.found)
        try:
            self.pairs(parts, others)
        except Mismatch:
            if not isinstance(wanted, BinOp) or wanted.op not in COMMUTATIVE:
                raise
            first = self.found
            self.found = before
            try:
                self.pairs(parts, others[::-1])
            except Mismatch:
                self.found = first
                self.pairs(parts, others)

    def pairs(self, wanted: Sequence[Expr], here: Sequence[Expr]) -> None:
        for a, b in zip(wanted, here):
            self.expr(a, b)

    def access(
        self, param: Buffer, places: Sequence[Expr], buffer: Buffer, indices: Sequence[Expr]
    ) -> None:
        """Note which operand a parameter is, or raise Mismatch."""
        shown = f"{Load(buffer, tuple(indices))!r} for its {Load(param, tuple(places))!r}"
        if param.dtype != buffer.dtype:
            raise Mismatch(f"{shown} is {buffer.dtype}, not {param.dtype}")
        if any(dt.lanes(index.dtype) > 1 for index in indices):
            raise Mismatch(f"{shown} is a vector")
        base, steps = self.linear(buffer, indices, shown)
        strides: list[Expr] = [ZERO] * len(places)
        for theirs, loop in zip(self.theirs, self.loops):
            step = steps[self.wide(loop.var)]
            dims = [d for d, place in enumerate(places) if place is theirs.var]
            if not dims and step is not ZERO:
                raise Mismatch(f"{shown} moves with loop {loop.name!r}")
            if dims and dims[0] == len(places) - 1 and int_value(step) != 1:
                raise Mismatch(f"{shown} moves by {step!r} with loop {loop.name!r}, not by 1")
            if dims:
                strides[dims[0]] = step
        fixed = self.intrin.strides.get(param.name)
        pairs = zip(strides, fixed or ())
        if any(wanted is not None and int_value(step) != wanted for step, wanted in pairs):
            raise Mismatch(f"{shown} has strides {strides[:-1]}, not {list(fixed or ())}")
        start: dict[Var, Expr] = {loop.var: Const(0, loop.var.dtype) for loop in self.loops}
        first = tuple(substitute(index, start) for index in indices)
        operand = Operand(buffer, base, tuple(strides[:-1]), first)
        known = self.found.setdefault(param, operand)
        same = known.buffer is buffer and known.base is base
        if not same or any(a is not b for a, b in zip(known.strides, operand.strides)):
            raise Mismatch(f"{shown} is not what {param.name!r} was before")

    def linear(
        self, buffer: Buffer, indices: Sequence[Expr], shown: str
    ) -> tuple[Expr, dict[Var, Expr]]:
        """The position of an access where all loops are 0, and how far each loop moves it."""
        flat: Expr = ZERO
        for index, size in zip(indices, buffer.shape):
            flat = flat * size + self.wide(index)
        simplify = self.analyzer.simplify
        flat = simplify(flat)
        moving: list[Var] = [self.wide(loop.var) for loop in self.loops]
        start: dict[Var, Expr] = dict.fromkeys(moving, ZERO)
        base = simplify(substitute(flat, start))
        steps: dict[Var, Expr] = {}
        rest = flat - base
        for var in moving:
            step = simplify(substitute(flat, {**start, var: const(1)}) - base)
            steps[var] = step
            rest = rest - step * var
        if simplify(rest) is not ZERO:
            raise Mismatch(f"{shown} does not move evenly with the loops")
        return base, steps

    def separate(self, operands: Sequence[Operand]) -> None:
        """What is written must lie apart from what is read, and each element once."""
        *inputs, output = operands
        for operand in inputs:
            if operand.buffer is output.buffer:
                raise Mismatch(f"{output.buffer.name!r} is written and is another operand too")
        param = self.intrin.func.params[-1]
        shape = param.const_shape or ()
        span: Expr = const(shape[-1] if shape else 1)
        for stride, size in zip(reversed(output.strides), reversed(shape[:-1])):
            if not self.analyzer.prove(span <= stride):
                raise Mismatch(
                    f"rows of {output.buffer.name!r} are {stride!r} apart, which may be fewer "
                    f"than the {span!r} elements that it writes"
                )
            span = self.analyzer.simplify(stride * (size - 1) + span)


def _head(e: BinOp | Call) -> str:
    return e.op if isinstance(e, BinOp) else e.name
