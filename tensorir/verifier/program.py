"""Whether a program is well formed and stays inside its buffers.

Each rule is a function of its own in RULES and raises VerifyError at the first thing that breaks
it. Programs with blocks and lowered programs, which have none, are checked by the same rules.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import Expr, Load, Var
from tensorir.func import PrimFunc, require_func
from tensorir.parts import touched
from tensorir.scalars import SCALAR_LIMITS, refuse_values
from tensorir.stmt import (
    Alloc,
    Block,
    Extern,
    For,
    ForKind,
    IterKind,
    Let,
    Prefetch,
    Stmt,
    Store,
)
from tensorir.verifier.extern import check_call, check_whole
from tensorir.verifier.inout import check_declared
from tensorir.verifier.ranges import check_ranges
from tensorir.verifier.reductions import check_reductions
from tensorir.verifier.threads import check_threads
from tensorir.verifier.types import check_types
from tensorir.visit import child_stmts, loads, stmt_exprs, variables, walk
from tensorir.written import too_large


@dataclass(slots=True)
class Place:
    """A statement and what surrounds it: `above` from the outermost inwards."""

    stmt: Stmt
    above: tuple[Stmt, ...]
    visible: frozenset[Var]
    in_init: bool = False

    @property
    def where(self) -> str:
        """The innermost block or, outside of all blocks, loop: what a message names."""
        path = (*self.above, self.stmt)
        for kind, word in ((Block, "block"), (For, "loop")):
            for stmt in reversed(path):
                if isinstance(stmt, kind):
                    return f"{word} {stmt.name!r}"
        return "the function"

    @property
    def block(self) -> Block | None:
        """The innermost block that has the statement in its body or init."""
        return next((s for s in reversed(self.above) if isinstance(s, Block)), None)


def verify(func: PrimFunc) -> None:
    """Raise VerifyError, naming the thing, unless `func` is well formed and provably in range.

    In the body of a block every access must be provably inside its buffer for all values of the
    block's variables; in lowered code only what is certainly outside is an error.
    """
    require_func(func, "verify")
    places = list(_places(func))
    for rule in RULES:
        rule(func, places)


def _places(func: PrimFunc) -> Iterator[Place]:
    free = frozenset(func.free_vars)
    stack = [Place(func.body, (), free)]
    while stack:
        place = stack.pop()
        yield place
        stmt = place.stmt
        above = (*place.above, stmt)
        for child in reversed(child_stmts(stmt)):
            visible, in_init = place.visible, place.in_init
            if isinstance(stmt, (For, Let)):
                visible = visible | {stmt.var}
            elif isinstance(stmt, Block):
                in_init = child is stmt.init
                visible = free.union(_iter_vars(above, in_init))
            stack.append(Place(child, above, visible, in_init))


def _iter_vars(path: tuple[Stmt, ...], in_init: bool) -> Iterator[Var]:
    for stmt in path:
        for it in stmt.iters if isinstance(stmt, Block) else ():
            if not in_init or stmt is not path[-1] or it.kind is not IterKind.REDUCE:
                yield it.var


def _bound_names(stmt: Stmt) -> tuple[str, ...]:
    if isinstance(stmt, (For, Let)):
        return (stmt.var.name,)
    return tuple(it.var.name for it in stmt.iters) if isinstance(stmt, Block) else ()


def expressions_fit(func: PrimFunc, places: list[Place]) -> None:
    for place in places:
        problem = None if place.block is None else too_large(stmt_exprs(place.stmt))
        if problem is not None:
            raise VerifyError(f"{place.where}: {problem}")


def names_are_valid(func: PrimFunc, places: list[Place]) -> None:
    names = [func.name, *(v.name for v in func.free_vars)]
    names += [b.name for b in (*func.params, *func.buffers)]
    for place in places:
        names += _bound_names(place.stmt)
        if isinstance(place.stmt, Alloc):
            names.append(place.stmt.buffer.name)
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise VerifyError(f"{name!r} is not a name; use letters, digits and _, and no keyword")


def names_are_unique(func: PrimFunc, places: list[Place]) -> None:
    """Buffers and blocks in the whole function; variables among those in scope."""
    taken: dict[str, str] = {v.name: "a size" for v in func.size_vars}
    for var in func.value_vars:
        if var.name in taken:
            raise VerifyError(f"{var.name!r} names two numbers; give them names of their own")
        taken[var.name] = "a number among the arguments"
    for buffer in (*func.params, *func.buffers):
        if buffer.name in taken:
            raise VerifyError(f"{buffer.name!r} names both {taken[buffer.name]} and a buffer")
        taken[buffer.name] = "a buffer"
    blocks: set[str] = set()
    for place in places:
        stmt = place.stmt
        if isinstance(stmt, Block):
            if stmt.name in blocks:
                raise VerifyError(f"two blocks are named {stmt.name!r}; block names are unique")
            blocks.add(stmt.name)
        new = _bound_names(stmt)
        for name in new:
            outer = [n for above in place.above for n in _bound_names(above)]
            if name in taken or name in outer or new.count(name) > 1:
                other = taken.get(name, "a variable that is in scope here")
                raise VerifyError(f"{place.where} defines {name!r}, which is also {other}")


def scalars_fit(func: PrimFunc, places: list[Place]) -> None:
    """Numbers among the arguments have types, and each a place of its own; sizes have limits."""
    count = len(func.params) + len(func.scalars)
    low, high = SCALAR_LIMITS
    for n, scalar in enumerate(func.scalars):
        where = f"the number {scalar.name!r} among the arguments"
        if scalar.dtype not in dt.SCALARS:
            raise VerifyError(f"{where} is {scalar.dtype}; it is one of {', '.join(dt.SCALARS)}")
        if scalar.least is not None and not scalar.is_size:
            raise VerifyError(
                f"{where} is {scalar.dtype} and {scalar.least} or more; only sizes, which are "
                f"{dt.INDEX}, have a least value"
            )
        if any(other.var is scalar.var for other in func.scalars[:n]):
            raise VerifyError(f"{scalar.name!r} is given twice in the arguments")
        taken = [other.position for other in func.scalars[:n]]
        if scalar.position in taken or not 0 <= scalar.position < count:
            raise VerifyError(f"{where} has no place of its own: {scalar.position} of {count}")
        if scalar.least is not None and not low <= scalar.least <= high:
            raise VerifyError(f"{where} is {scalar.least} or more; calls give {low} to {high}")
    low_of = dict(func.size_ranges)
    for place in places:
        for part in place.stmt.parts if isinstance(place.stmt, Extern) else ():
            for var in (v for size in part.shape for v in variables(size)):
                if low_of.get(var, 0) is None:
                    raise VerifyError(
                        f"{place.where} has a part of size {var.name!r}, which may be negative; "
                        f"declare {var.name}: i64 >= 0"
                    )


def values_are_no_indices(func: PrimFunc, places: list[Place]) -> None:
    """No loop, block variable or place depends on a number among the arguments that is no size.

    In lowered programs, which have no blocks, a condition may have become the end of a loop.
    """
    values = frozenset(func.value_vars)
    if not values or not any(isinstance(place.stmt, Block) for place in places):
        return
    for buffer in (*func.params, *func.buffers):
        _refuse_values(buffer.shape, values, f"the shape of {buffer.name!r}")
    for place in places:
        stmt = place.stmt
        if isinstance(stmt, For):
            _refuse_values((stmt.extent,), values, f"the extent of loop {stmt.name!r}")
        if isinstance(stmt, Block):
            parts = (e for it in stmt.iters for e in (it.extent, it.binding))
            _refuse_values(parts, values, f"a variable of block {stmt.name!r}")
            _refuse_values((stmt.predicate,), values, f"the predicate of block {stmt.name!r}")
        places_of = [indices for _, indices, _ in touched(stmt)]
        places_of += [load.indices for e in stmt_exprs(stmt) for load in loads(e)]
        for indices in places_of:
            _refuse_values(indices, values, f"an index in {place.where}")


def _refuse_values(parts: Iterable[Expr], values: frozenset[Var], what: str) -> None:
    for e in parts:
        if not e.variables.isdisjoint(values):
            try:
                refuse_values(e, what)
            except TensorIRError as error:
                raise VerifyError(str(error)) from None


def variables_are_bound(func: PrimFunc, places: list[Place]) -> None:
    for place in places:
        for e in stmt_exprs(place.stmt):
            for var in sorted(variables(e) - place.visible, key=lambda v: v.name):
                raise VerifyError(_unbound(place, var, e))


def _unbound(place: Place, var: Var, e: Expr) -> str:
    loops = {s.var for s in place.above if isinstance(s, For)}
    iters = {it.var for s in place.above if isinstance(s, Block) for it in s.iters}
    text = f"{place.where} uses {var.name!r} in {e!r}"
    if place.in_init and var in iters:
        return f"{text}, a reduction variable; its init runs once for all of the reduction"
    if place.block is not None and var in loops:
        return f"{text}, a loop around the block; its body may use block variables only"
    return f"{text}, which no loop, block, let or parameter shape around it defines"


def buffers_are_declared(func: PrimFunc, places: list[Place]) -> None:
    known = {b.name: b for b in (*func.params, *func.buffers)}
    for place in places:
        stmt = place.stmt
        used = [load.buffer for e in stmt_exprs(stmt) for load in loads(e)]
        used += [buffer for buffer, _, _ in touched(stmt)]
        if isinstance(stmt, Prefetch):
            used.append(stmt.buffer)
        for buffer in used:
            if known.get(buffer.name) is not buffer and not _allocated(buffer, place):
                raise VerifyError(_undeclared(place, buffer, known.get(buffer.name)))


def _allocated(buffer: Buffer, place: Place) -> bool:
    return any(isinstance(s, Alloc) and s.buffer is buffer for s in place.above)


def _undeclared(place: Place, buffer: Buffer, known: Buffer | None) -> str:
    text = f"{place.where} uses buffer {_describe(buffer)}, "
    if known is None:
        return f"{text}which is not a parameter, an intermediate or allocated around it"
    return f"{text}but the function declares {_describe(known)}"


def _describe(buffer: Buffer) -> str:
    scope = "" if buffer.scope == "global" else f" in {buffer.scope} memory"
    return f"{buffer!r}{scope}"


def intermediates_are_written_first(func: PrimFunc, places: list[Place]) -> None:
    """In program order, and without regard to which elements are written. What a stage of a
    pipeline reads may be from an earlier iteration, by a stage behind it in the loop."""
    written = set(func.params)
    for place in places:
        if isinstance(place.stmt, For) and "pipeline" in place.stmt.annotations:
            written |= {b for s in walk(place.stmt) for b, _, is_write in touched(s) if is_write}
        reads = [load.buffer for e in stmt_exprs(place.stmt) for load in loads(e)]
        touches = touched(place.stmt)
        for buffer in (*reads, *(b for b, _, is_write in touches if not is_write)):
            if buffer not in written:
                name = buffer.name
                raise VerifyError(f"{place.where} reads {name!r} before anything writes it")
        written.update(buffer for buffer, _, is_write in touches if is_write)


def reductions_are_sound(func: PrimFunc, places: list[Place]) -> None:
    """Only reductions have an init, and what is reduced does not choose where the result goes."""
    for place in places:
        block = place.stmt
        if not isinstance(block, Block):
            continue
        if block.init is not None and not block.is_reduction:
            raise VerifyError(f"block {block.name!r} has an init but no reduction variable")
        reduced = {it.var for it in block.reduced}
        if not reduced:
            continue
        for store in walk(block.body):
            if isinstance(store, Store):
                _require_fixed_place(block, store, reduced)


def _require_fixed_place(block: Block, store: Store, reduced: set[Var]) -> None:
    for index in store.indices:
        for var in sorted(variables(index) & reduced, key=lambda v: v.name):
            raise VerifyError(
                f"block {block.name!r} writes {Load(store.buffer, store.indices)!r}, whose place "
                f"depends on the reduction variable {var.name!r}"
            )


def externs_fit(func: PrimFunc, places: list[Place]) -> None:
    """Calls of extern functions keep to their signatures, and hand over whole parts."""
    for place in places:
        stmt = place.stmt
        if not isinstance(stmt, Extern):
            continue
        check_call(stmt, place.where)
        block = place.block
        if block is not None:
            check_whole(stmt, place.where)
        if place.in_init or (block is not None and block.is_reduction):
            raise VerifyError(
                f"{place.where} calls {stmt.name!r} in a reduction; an extern function writes "
                "whole outputs"
            )
        for loop in place.above:
            if isinstance(loop, For) and loop.kind in (ForKind.VECTORIZED, ForKind.THREAD):
                raise VerifyError(
                    f"{place.where} calls {stmt.name!r} inside the {loop.kind} loop "
                    f"{loop.name!r}; an extern function runs as it is, on a thread of the CPU"
                )


RULES: list[Callable[[PrimFunc, list[Place]], None]] = [
    expressions_fit,
    names_are_valid,
    names_are_unique,
    scalars_fit,
    values_are_no_indices,
    variables_are_bound,
    buffers_are_declared,
    lambda func, places: check_types(func),
    reductions_are_sound,
    externs_fit,
    intermediates_are_written_first,
    lambda func, places: check_ranges(func),
    lambda func, places: check_reductions(func),
    lambda func, places: check_threads(func),
    lambda func, places: check_declared(func),
]
"""In an order in which each rule may rely on the ones before it."""
