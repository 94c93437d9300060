"""From a block of a schedule to its contraction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from schedule.analysis.looked_for import looked_for
from schedule.analysis.products import products
from schedule.library.contraction.again import loads_of
from schedule.library.contraction.axes import (
    Access,
    Axis,
    Contraction,
    Digit,
    Factors,
    Operand,
    flat_strides,
)
from schedule.library.contraction.digits import axes_read
from schedule.library.contraction.expressions import (
    chain_of,
    converted,
    expressions_of,
    operations_of,
)
from schedule.library.contraction.normalise import (
    merged_axes,
    move_two_indices,
    one_is_window,
    ordered_axes,
    sorted_axes,
)
from schedule.library.contraction.places import NoContraction, own_loops, store_of
from schedule.schedule import Schedule
from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Buffer,
    Expr,
    IterKind,
    Load,
    Select,
    Store,
    Var,
    body_loads,
    checked,
    const,
    int_value,
    loads,
    numbers_of,
    slope,
    substitute,
    variables,
    walk_exprs,
)


@checked
def find_contraction(
    sch: Schedule,
    block: str,
    last: str | None = None,
    padding: Collection[str] = (),
    windows: bool = True,
    merged: bool = True,
    steps: bool = False,
) -> Contraction:
    """What a block computes; `last` is the stage that uses what it stores, element by element, and
    `padding` are stages that make operands for it alone, by filling up what they copy. Without
    `windows`, axes of windows stay apart from those beside them in memory, and the result may have
    parts of a variable as its indices where it has all of it side by side. Without `merged`, axes
    that move different indices of an operand stay apart, though they may lie side by side. With
    `steps` it may be a part of a step of a scan, or of another loop that other blocks share: the
    contraction is that of one step.

    Raises NoContraction for a block that is no reduction with one store at its own variables, for
    one without elements, and for a `last` that is no such stage.

    What was found is kept with the state: candidates of a search begin alike and ask the same.
    """
    steps = steps and bool(_still(sch, block))
    known, asked = sch.state.concluded, (block, last, tuple(padding), windows, merged, steps)
    found: Contraction | None = known.get((find_contraction, asked))
    if found is None:
        found = known[find_contraction, asked] = _find(sch, *asked)
    return found


def _find(
    sch: Schedule, block: str, last: str | None, padding: Collection[str], windows: bool,
    merged: bool, steps: bool,
) -> Contraction:  # fmt: skip
    node = sch.state.block(block)
    store = store_of(sch, block)
    still = {it.var for it in node.iters if it.kind is IterKind.OPAQUE}
    if not node.is_reduction or still and not steps:
        raise NoContraction(f"block {block!r} is no reduction; a contraction is a sum of its kind")
    if any(int_value(it.extent) == 0 for it in node.iters):
        raise NoContraction(f"block {block!r} is empty; there is nothing to schedule")
    still = _still(sch, block) if steps else still
    own = {it.var for it in node.spatial}
    if not all(i in own or still.issuperset(variables(i)) for i in store.indices):
        raise NoContraction(
            f"block {block!r} stores at {list(store.indices)}, not at its own variables"
        )
    result = store if last in (None, block) else _as_stored_by(sch, node, store, str(last))
    found = body_loads(node)
    parts, reader = read_by(node, found)
    sums = reader.access(store.buffer, store.indices)
    stored = reader.access(result.buffer, result.indices, result.buffer in sch.func.params)
    if not windows and None in stored.strides:
        stored = replace(stored, strides=reader.flat(result).strides)
    axes = [Axis((p.digit,), node.iters[p.digit.place].kind is IterKind.REDUCE) for p in parts]
    raw = Contraction(
        block, last or block, tuple(axes), tuple(n for n, a in enumerate(axes) if a.reduce),
        tuple(_operands(sch, store, found, reader, padding)), sums, stored, operations_of(store),
        tuple(tuple(reader.steps(number)) for number in numbers_of(store.value)),
        products=tuple(p for p in _products(store, found) if not looked_for(sch.state, block)),
        expressions=tuple(expressions_of(node, store, found)),
        repeated=prod(int_value(it.extent) or 1 for it in node.iters if it.var in still)
        if still else 0,
        chain=chain_of(store),
    )  # fmt: skip
    moving = [n for n, p in enumerate(parts) if node.iters[p.digit.place].var not in still]
    raw = ordered_axes(raw, moving)
    apart = (None if windows else one_is_window) if merged else move_two_indices
    made = sorted_axes(merged_axes(raw, apart))
    return _with_own(node, made, still, sch.state.analyzer())


def _still(sch: Schedule, block: str) -> set[Var]:
    """The variables of a block of a scan's steps, or whose loops hold other blocks as well."""
    own, iters = set(own_loops(sch, block)), sch.state.block(block).iters
    scan = {it.var for it in iters if it.kind is IterKind.OPAQUE}
    return scan | {i.var for i in iters if any(v.name not in own for v in variables(i.binding))}


def _operands(
    sch: Schedule, store: Store, found: Sequence[Load], reader: _Reader, padding: Collection[str]
) -> Iterator[Operand]:
    narrow = converted(store)
    for load in found:
        made = ((n, store_of(sch, n)) for n in padding)
        pad, maker = next((x for x in made if x[1].buffer is load.buffer), (None, None))
        yield Operand(
            **vars(reader.access(load.buffer, load.indices, load.buffer in sch.func.params)),
            pad=pad, filled=() if maker is None else _filled(maker), converted=load in narrow,
            numbers=maker is not None and not maker.value.has_loads,
        )  # fmt: skip


def _filled(store: Store) -> tuple[int, ...]:
    """The dimensions whose places decide which elements of a padded buffer are padding."""
    asked = set(variables(store.value.cond)) if isinstance(store.value, Select) else set()
    return tuple(n for n, at in enumerate(store.indices) if asked & set(variables(at)))


def _with_own(node: Block, c: Contraction, still: set[Var], analyzer: Analyzer) -> Contraction:
    """With the axes at whose values alone each operand is read that is the same in all steps."""

    def read(o: Operand) -> Operand:
        alike = loads_of(node, c, o)
        if not alike or not all(still.isdisjoint(variables(load)) for load in alike):
            return o
        own = (axes_read(node, c, load, analyzer) for load in alike)
        return replace(o, own=frozenset.intersection(*own))

    return replace(c, operands=tuple(map(read, c.operands)))


def find_again(sch: Schedule, c: Contraction) -> Contraction:
    """What the block of a contraction computes now, after steps that changed its operands: with the
    same stages behind and before it. Raises as `find_contraction` does."""
    return find_contraction(sch, c.block, c.last, [o.pad for o in c.operands if o.pad is not None])


@dataclass(frozen=True)
class _Part:
    """A digit, and the variable that stands for it: the digit of a whole one, which is known."""

    digit: Digit
    var: Var


def _as_stored_by(sch: Schedule, node: Block, sums: Store, last: str) -> Store:
    """The store of the stage after the sums, its variables replaced by those of the sums' block."""
    user = sch.state.block(last)
    store = store_of(sch, last)
    reads = [load for load in body_loads(user) if load.buffer is sums.buffer]
    plain = {it.var for it in user.iters}
    if len(reads) != 1 or not all(i in plain or int_value(i) == 0 for i in reads[0].indices):
        raise NoContraction(f"stage {last!r} does not use each element of {node.name!r} once")
    swap: dict[Var, Expr] = {
        i: own for i, own in zip(reads[0].indices, sums.indices) if isinstance(i, Var)
    }
    swap.update((it.var, const(0)) for it in user.iters if int_value(it.extent) == 1)
    if plain - set(swap):
        raise NoContraction(f"stage {last!r} has axes that {node.name!r} does not have")
    return Store(store.buffer, tuple(substitute(i, swap) for i in store.indices), store.value)


@lru_cache(maxsize=1024)
def flat_index(access: Load | Store) -> Expr:
    """The place of an access in memory, in elements."""
    index: Expr = const(0)
    step: Expr = const(1)
    for part, size in zip(reversed(access.indices), reversed(access.buffer.shape)):
        index, step = index + part * step, size * step
    return index


def read_by(node: Block, found: Sequence[Load | Store]) -> tuple[list[_Part], _Reader]:
    """The parts of all variables of a block, and what reads strides along them."""
    values, extents, parts = dict[Var, Expr](), dict[Var, Expr](), list[_Part]()
    for place, it in enumerate(node.iters):
        own = _digits(node, place, found)
        if len(own) != 1:
            values[it.var] = sum((p.var * p.digit.lower for p in own), start=const(0))
        for var, size in ((p.var, p.digit.extent) for p in own):
            extents[var] = it.extent if size is None else const(size)
        parts += own
    return parts, _Reader([p.var for p in parts], values, Analyzer(extents))


def _digits(node: Block, place: int, found: Sequence[Load | Store]) -> list[_Part]:
    """The parts in which a variable is used: at each divisor that its accesses have."""
    it = node.iters[place]
    extent = int_value(it.extent)
    if extent == 1:
        return []
    cuts = {
        cut
        for load in found
        for index in load.indices
        for part in walk_exprs(index)
        if isinstance(part, BinOp) and part.op in ("//", "%")
        if (cut := _cut(part, it.var)) is not None and (extent is None or cut < extent)
    }
    lowers = [1, *sorted(cuts - {1})]
    exact = all(b % a == 0 for a, b in zip(lowers, lowers[1:]))
    if extent is None or not exact or any(extent % c for c in lowers):
        lowers = [1]
    ends, parts = [*lowers[1:], extent], []
    most = None if extent is not None else Analyzer().bounds(it.extent)[1]
    for n, (low, end) in reversed(list(enumerate(zip(lowers, ends)))):
        size = None if end is None else end // low
        digit = Digit(place, low, size, n == len(lowers) - 1, most)
        parts.append(_Part(digit, it.var if lowers == [1] else Var(f"{it.var.name}.{n}")))
    return parts


def _cut(part: Expr, var: Var) -> int | None:
    """Where a quotient or a remainder of a variable, or of quotients of it, parts it."""
    number = int_value(part.b) if isinstance(part, BinOp) else None
    if not isinstance(part, BinOp) or number is None or number < 1:
        return None
    if part.a is var:
        return number
    inner = part.a if isinstance(part.a, BinOp) else None
    before = _cut(inner, var) if inner is not None and inner.op == "//" else None
    return None if before is None else before * number


class _Reader:
    """Reads strides off indices."""

    def __init__(self, parts: Sequence[Var], values: dict[Var, Expr], analyzer: Analyzer) -> None:
        self.parts, self.values, self.analyzer = parts, values, analyzer

    def access(self, buffer: Buffer, indices: Sequence[Expr], param: bool = False) -> Access:
        rows = tuple(tuple(self.steps(index)) for index in indices)
        shape = tuple(int_value(size) for size in buffer.shape)
        strides = flat_strides(shape, rows, len(self.parts))
        return Access(buffer.name, buffer.dtype, shape, rows, strides, param)

    def flat(self, access: Load | Store) -> Access:
        """As an access of one dimension."""
        buffer = access.buffer
        flat = tuple(self.steps(flat_index(access)))
        shape = tuple(int_value(size) for size in buffer.shape)
        return Access(buffer.name, buffer.dtype, shape, (flat,), flat)

    def steps(self, index: Expr) -> list[int | None]:
        """How far an index moves with each part; None where not by steps of one size."""
        if index.has_loads:  # where that is depends on memory
            used = variables(substitute(index, self.values))
            return [None if p in used else 0 for p in self.parts]
        plain = self.analyzer.simplify(substitute(index, self.values))
        used = variables(plain)
        return [slope(plain, p, self.analyzer) if p in used else 0 for p in self.parts]


def _products(store: Store, found: Sequence[Load]) -> Iterator[Factors]:
    """The products of three factors or more, all of which are read from memory, or constants."""
    for place, product in enumerate(products(store.value, (store.buffer,))):
        if not any(True for factor in product.factors for _ in numbers_of(factor)):
            reads = (tuple(found.index(load) for load in loads(f)) for f in product.factors)
            yield Factors(product.whole.dtype, place, tuple(reads), product.parts)
