"""In-out parameters: those that a program writes, and needs as the caller gives them.

A parameter that is stored to is an output. If elements of it are also read before they are written
(`C[i] = C[i] + A[i]`), or some are left as they are, the caller has to give it. Which these are is
worked out on boxes of elements, for a few values of symbolic sizes. A box is the hull of what an
access touches, so an output that is computed as a whole stays one in any schedule. What hulls do
not tell (the first half of a row is left where it is zero), a program says itself, by the attribute
DECLARED; so does every schedule of a program that has in-out parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tensorir import dtype as dt
from tensorir.annotations import checked
from tensorir.arith import Analyzer, relax
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.expr import TRUE, BinOp, Const, Expr, Var, all_of, binary, conjuncts, int_value
from tensorir.func import DECLARED, PrimFunc
from tensorir.parts import buffers_in, touched
from tensorir.passes.facts.accesses import Access, accesses
from tensorir.scalars import depends_on_data
from tensorir.stmt import Block, Extern, For, If, Stmt, Store
from tensorir.visit import child_stmts, loads, stmt_exprs, substitute, variables

SAMPLES = (13, 8, 1)
"""Values of the first symbolic size; each further size is one more."""

NUMBERS = (2, 3, 1)
"""Values of numbers among the arguments, which may divide sizes."""

MOST_CELLS = 1 << 12
"""Parts of a buffer that are looked at one by one; where there are more, all count as written."""

Box = tuple[range, ...]
"""Elements of a buffer: a range of indices along each dimension."""

Sizes = Mapping[Var, Expr]


def in_outs(func: PrimFunc) -> tuple[Buffer, ...]:
    """The parameters that `func` writes, and of which it reads what it has not written, or leaves
    elements as they are; in call order."""
    outputs = func.outputs
    declared = func.attrs.get(DECLARED)
    if declared is not None:
        return tuple(p for p in outputs if p.name in declared)
    if not outputs or _plainly_filled(func.body, set(outputs)):
        return ()
    found = accesses(func.body)
    return tuple(p for p in outputs if _needs_values(func, p, found[p]))


def fills(func: PrimFunc, buffer: Buffer, blocks: Collection[str]) -> bool:
    """Whether the stores of some blocks reach all elements of `buffer`, as far as hulls tell.

    A store under a condition counts if the condition ends a range, or if there is one at the same
    place where it does not hold.
    """
    stores = []
    for a in accesses(func.body).get(buffer, ()):
        node = next((s for s in a.path if isinstance(s, Block) and s.name in blocks), None)
        if node is None or not a.is_write:
            continue
        conditions = [c for c in a.conditions if not _ends_a_range(c, func)]
        if not conditions or a.indices in _always_stored(node.body, buffer):
            stores.append(a)
    for sizes in _samples(func):
        boxes = [_box(a, sizes) for a in _sure(stores, sizes)]
        if not _covered(_whole(buffer, sizes), boxes):
            return False
    return True


def _ends_a_range(cond: Expr, func: PrimFunc) -> bool:
    """Whether a condition holds for a range of values of one variable."""
    if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != dt.INDEX:
        return False
    atoms = Analyzer().linear(cond.a - cond.b).terms.keys() - set(func.size_vars)
    return len(atoms) == 1 and all(isinstance(atom, Var) for atom in atoms)


def _always_stored(stmt: Stmt, buffer: Buffer) -> set[tuple[Expr, ...]]:
    """The places in `buffer` to which `stmt` stores, whichever conditions hold."""
    if isinstance(stmt, If):
        orelse = set() if stmt.orelse is None else _always_stored(stmt.orelse, buffer)
        return _always_stored(stmt.then, buffer) & orelse
    own = {indices for at, indices, is_write in touched(stmt) if is_write and at is buffer}
    return own.union(*(_always_stored(child, buffer) for child in child_stmts(stmt)))


def check_declared(func: PrimFunc) -> None:
    """Raise VerifyError where the attribute DECLARED names what is no written parameter."""
    names = func.attrs.get(DECLARED, ())
    if not isinstance(names, (list, tuple)):
        raise VerifyError(f"the attribute {DECLARED!r} is a list of names, not {names!r}")
    written = [p.name for p in func.outputs]
    for name in names:
        if name not in written:
            raise VerifyError(
                f"the attribute {DECLARED!r} names {name!r}, and the parameters that {func.name!r} "
                f"writes are {', '.join(written) or 'none'}"
            )


@checked
def with_declared(func: PrimFunc) -> PrimFunc:
    """`func`, saying itself which in-out parameters it has, if any."""
    found = () if DECLARED in func.attrs else in_outs(func)
    if not found:
        return func
    return replace(func, attrs={**func.attrs, DECLARED: [p.name for p in found]})


# What is seen at once


def _plainly_filled(body: Stmt, missing: set[Buffer]) -> bool:
    """Whether each of some buffers is first touched by a block that stores one element of it for
    each of its points, which are as many: so do nearly all programs."""
    stack: list[tuple[Stmt, Block | None, dict[Var, Expr]]] = [(body, None, {})]
    while stack and missing:
        stmt, block, loops = stack.pop()
        if missing.isdisjoint(buffers_in(stmt)):
            continue
        for e in stmt_exprs(stmt) if not isinstance(stmt, If) else ():
            if e.has_loads and any(load.buffer in missing for load in loads(e)):
                return False
        if isinstance(stmt, Extern) and any(part.buffer in missing for part in stmt.parts):
            return False
        if isinstance(stmt, Store):
            if stmt.buffer in missing:
                if block is None or not _one_for_each(stmt, block, loops):
                    return False
                missing.discard(stmt.buffer)
            continue
        if isinstance(stmt, If):
            block = None
        if isinstance(stmt, Block):
            block = stmt
        if isinstance(stmt, For):
            loops = {**loops, stmt.var: stmt.extent}
        stack += [(child, block, loops) for child in reversed(child_stmts(stmt))]
    return not missing


def _one_for_each(store: Store, block: Block, loops: Mapping[Var, Expr]) -> bool:
    """Whether a block stores a whole buffer at its variables, in loops of as many iterations."""
    iters = {it.var: it for it in block.iters}
    used = []
    for index, size in zip(store.indices, store.buffer.shape):
        it = iters.pop(index, None) if isinstance(index, Var) else None
        if it is None and int_value(index) == 0 and int_value(size) == 1:
            continue
        if it is None or it.extent is not size:
            return False
        used.append(it)
    if all(loops.get(it.binding) is it.extent for it in used):  # type: ignore[call-overload]
        return block.predicate is TRUE
    in_range = {binary("<", it.binding, it.extent) for it in block.iters}
    if any(c not in in_range for c in conjuncts(block.predicate)):
        return False
    around = {v for it in used for v in variables(it.binding)}
    counts = [int_value(loops[v]) for v in around if v in loops]
    wanted = [int_value(it.extent) for it in used]
    if None in counts or None in wanted:
        return False
    least = math.prod(n for n in wanted if n is not None)
    return least <= math.prod(n for n in counts if n is not None)


# What takes a look at all accesses


def _needs_values(func: PrimFunc, param: Buffer, found: Sequence[Access]) -> bool:
    """Whether a program that writes `param` needs what is in it before."""
    first = found[0]
    if not first.is_write and not first.conditions and not first.guards:
        return True
    return not all(_is_made(param, found, sizes) for sizes in _samples(func))


def _is_made(param: Buffer, found: Sequence[Access], sizes: Sizes) -> bool:
    """Whether the program itself writes all of `param`, and what it reads of it before it does."""
    sure = _sure([a for a in found if a.is_write], sizes)
    kept = {id(a) for a in sure}
    boxes = {id(a): _box(a, sizes) for a in found if id(a) in kept or not a.is_write}
    if not _covered(_whole(param, sizes), [boxes[id(a)] for a in sure]):
        return False
    known: set[Box] = set()
    for place, read in enumerate(found):
        wanted = None if read.is_write else boxes[id(read)]
        if wanted is None or wanted in known:
            continue
        before = [a for a in _before(found, place) if id(a) in boxes]
        if not _covered(wanted, [boxes[id(a)] for a in before]):
            return False
        known.add(wanted)
    return True


def _before(found: Sequence[Access], place: int) -> list[Access]:
    """The writes that may have run when the read at `place` does."""
    read = found[place]
    before = [a for a in found[:place] if a.is_write]
    for write in found[place:]:
        own = write.path[-1] is read.path[-1]
        same = own and all(a is b for a, b in zip(write.indices, read.indices))
        again = any(isinstance(a, For) and a is b for a, b in zip(write.path, read.path))
        if write.is_write and again and not same:
            before.append(write)
    return before


def _samples(func: PrimFunc) -> Iterator[Sizes]:
    names = func.size_vars
    given = {scalar.var: scalar.least or 0 for scalar in func.scalars if scalar.is_size}
    for first, number in zip(SAMPLES, NUMBERS) if names else [(SAMPLES[0], 0)]:
        values = {v: first + n for n, v in enumerate(names)}
        values.update({v: max(number, least) for v, least in given.items()})
        yield {v: Const(value, dt.INDEX) for v, value in values.items()}


def _whole(buffer: Buffer, sizes: Sizes) -> Box:
    return tuple(range(int_value(substitute(size, sizes)) or 0) for size in buffer.shape)


def _sure(writes: Sequence[Access], sizes: Sizes) -> list[Access]:
    """The stores that fill their boxes, as far as one can tell.

    Those do not whose place or condition data decide, nor do stores to every other element and the
    like, unless there are as many of them as elements from one to the next.
    """
    sure = [a for a in writes if not any(map(depends_on_data, (*a.conditions, *a.indices)))]
    steps = [_step(write, sizes) for write in sure]
    return [] if len(set(steps)) == 1 and len(steps) < steps[0] else sure


def _step(access: Access, sizes: Sizes) -> int:
    """The largest distance of neighbouring elements of an access in a dimension; 1 if unknown."""
    steps = [1]
    for index in access.indices:
        if index.dtype == dt.INDEX:
            form = Analyzer().linear(substitute(index, sizes))
            steps.append(math.gcd(*(abs(c) for c in form.terms.values())))
    return max(steps)


def _box(access: Access, sizes: Sizes) -> Box | None:
    """The hull of what is touched: of the points of the blocks around, and of the loops."""
    whole = _whole(access.buffer, sizes)
    blocks = [n for n, s in enumerate(access.path) if isinstance(s, Block)]
    bindings: dict[Var, Expr] = {}
    facts = [access.known]
    for n in blocks:
        block = access.path[n]
        assert isinstance(block, Block)
        bindings |= {it.var: substitute(it.binding, bindings) for it in block.iters}
        terms: frozenset[Var] = frozenset()
        if block.init is not None and block.init in access.path[n + 1 : n + 2]:
            reduced = [it.binding for it in block.reduced]
            terms = terms.union(*map(variables, reduced))  # the init runs whichever there are
        own = [c for c in conjuncts(block.predicate) if not (c.has_loads or terms & variables(c))]
        facts += [substitute(c, bindings) for c in own]
    facts[0] = substitute(facts[0], bindings)
    indices = [substitute(index, bindings) for index in access.indices]
    box = _hull(access.buffer, indices, access.inner(), all_of(*facts), sizes, whole)
    if not blocks:
        return box
    last = access.path[blocks[-1]]
    assert isinstance(last, Block)
    points = {it.var: it.extent for it in last.iters} | access.inner(blocks[-1])
    other = _hull(access.buffer, access.indices, points, access.known, sizes, whole)
    if box is None or other is None:
        return box or other
    return tuple(range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, other))


def _hull(
    buffer: Buffer,
    indices: Sequence[Expr],
    inner: Mapping[Var, Expr],
    known: Expr,
    sizes: Sizes,
    whole: Box,
) -> Box | None:
    extents = {var: substitute(extent, sizes) for var, extent in inner.items()}
    if any(int_value(extent) is None and _steers(var, indices) for var, extent in extents.items()):
        return None
    analyzer = Analyzer({v: e for v, e in extents.items() if int_value(e) is not None})
    if known is not TRUE and dt.lanes(known.dtype) == 1:
        analyzer = analyzer.assuming(substitute(known, sizes))
    box = []
    for index, limit in zip(indices, whole):
        plain = index.dtype == dt.INDEX and not index.has_loads
        part = relax(substitute(index, sizes), extents, analyzer) if plain else None
        low = None if part is None else int_value(part.low)
        extent = None if part is None else int_value(part.extent)
        if low is None or extent is None:
            return None
        box.append(range(max(0, low), min(low + extent, limit.stop)))
    return tuple(box)


def _steers(var: Var, indices: Sequence[Expr]) -> bool:
    return any(var in variables(index) for index in indices)


def _covered(wanted: Box, boxes: Sequence[Box | None]) -> bool:
    """Whether every element of `wanted` lies in one of the boxes, of which None has all."""
    if None in boxes or any(not len(r) for r in wanted):
        return True
    known = list(dict.fromkeys(box for box in boxes if box is not None))
    cuts = []
    for d, limit in enumerate(wanted):
        ends = {limit.start, *(e for box in known for e in (box[d].start, box[d].stop))}
        cuts.append([e for e in sorted(ends) if e in limit])
    if math.prod(map(len, cuts)) > MOST_CELLS:
        return True
    return all(
        any(all(x in r for x, r in zip(corner, box)) for box in known)
        for corner in itertools.product(*cuts)
    )
