"""written_out: how many iterations of each loop compilers write out one after the other.

What they write out multiplies along a nest, and their time grows with it: NVRTC 13 takes 0.7 s for
a kernel with 2,048 multiplications in a row, 0.2 s with 256 of them in a loop. Beyond some hundreds
of operations a loop costs nothing beside its body. Serial loops are left to the compiler, which
writes out short ones only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import Call, Expr, Var
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.passes.facts.registers import on_their_way
from tensorir.passes.gpu.axes import has_threads
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Exchange, For, ForKind, If, Let, Seq, Stmt, Store, replace
from tensorir.visit import child_stmts, loads, map_children, stmt_exprs, variables, walk, walk_exprs

Function = tuple[str, str]
"""The name of a function, and the type that it is called with."""

WRITTEN_OUT = "written_out"
"""The annotation of an unrolled loop: how many iterations are written out, not all."""

MOST = 320
"""Operations that are written out for a loop, at most: four steps of a thread with 64 sums, and
what it reads for them. With 512 NVRTC takes 1.4 to 1.8 times as long for products and convolutions;
with 128 a tenth to a quarter less, but a step of the loop is then done for each two of them."""

MOST_BESIDE = MOST // 2
"""The same where copies are on their way in registers meanwhile: a compiler reads ahead what it
multiplies as far as loops are written out, and spilled copies of 128 x 128 tiles with four steps of
64 sums (128 registers, 40 bytes; with two 118 and none), so that each step waited for memory."""

FUNCTION = 16
"""Operations that a function such as exp counts for, about what its text has."""


def written_out(func: PrimFunc) -> PrimFunc:
    """Say of unrolled loops over much how many iterations are written out.

    rewrite:
        for k in unrolled(32):                for k in unrolled(32, {"written_out": 16}):
            for i in unrolled(32):     ->         for i in unrolled(32):
                R[i] = R[i] + S[k, i]                 R[i] = R[i] + S[k, i]

    A part that divides the extent. Registers have no addresses: a loop whose variable says which
    of them is meant is written out as a whole. Is the last pass.
    """
    if not has_threads(func.body):
        return func
    return with_body(func, _visit(func.body, on_their_way(func.body), MOST))


def operations(stmt: Stmt) -> int:
    """Operations of a statement, those in loops as often as they are written out."""
    if isinstance(stmt, For):
        return written(stmt) * operations(stmt.body)
    own = FUNCTION * sum(_calls(stmt).values()) + isinstance(stmt, (Store, Exchange, If))
    return own + sum(map(operations, child_stmts(stmt)))


def written(loop: For) -> int:
    """Iterations of a loop that are written out; of a serial one those that have to be."""
    whole = loop.const_extent if loop.kind is ForKind.UNROLLED else 1
    return int(loop.annotations.get(WRITTEN_OUT, whole or 1))


def calls_written(stmt: Stmt) -> Counter[Function]:
    """How often functions are called in the text of the nest that calls them most."""
    if isinstance(stmt, Seq):
        found = Counter[Function]()
        for child in stmt.stmts:
            found |= calls_written(child)
        return found
    found = _calls(stmt)
    for child in child_stmts(stmt):
        found += calls_written(child)
    if isinstance(stmt, For):
        return Counter({of: written(stmt) * count for of, count in found.items()})
    return found


def _calls(stmt: Stmt) -> Counter[Function]:
    """The functions that a statement itself calls."""
    found = Counter[Function]()
    for e in stmt_exprs(stmt):
        for part in walk_exprs(e):
            if isinstance(part, Call):
                of = part.args[0].dtype if part.args else part.dtype
                found[part.name, dt.element(of)] += dt.lanes(of)
    return found


def _visit(stmt: Stmt, copies: Set[Buffer], most: int) -> Stmt:
    if isinstance(stmt, Alloc) and stmt.buffer in copies:
        most = MOST_BESIDE
    made = map_children(stmt, lambda child: _visit(child, copies, most))
    if not isinstance(made, For) or made.kind is not ForKind.UNROLLED:
        return made
    each, extent = operations(made.body), made.const_extent or 1
    if each * extent <= most or _tells_registers(made):
        return made
    count = max((n for n in range(2, extent) if extent % n == 0 and n * each <= most), default=1)
    return replace(made, annotations={**made.annotations, WRITTEN_OUT: count})


def _tells_registers(loop: For) -> bool:
    """Whether the variable of a loop is in an index of an array of a thread, or of an exchange."""
    from_it: set[Var] = {loop.var}
    for stmt in walk(loop.body):
        if isinstance(stmt, Let) and not from_it.isdisjoint(variables(stmt.value)):
            from_it.add(stmt.var)
        if isinstance(stmt, Exchange):
            return True
        places: list[tuple[Buffer, tuple[Expr, ...]]] = [(b, i) for b, i, _ in touched(stmt)]
        places += [(load.buffer, load.indices) for e in stmt_exprs(stmt) for load in loads(e)]
        for buffer, indices in places:
            if buffer.scope == "local" and any(
                not from_it.isdisjoint(variables(index)) for index in indices
            ):
                return True
    return False
