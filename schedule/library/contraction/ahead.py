"""The moves that compute parts of the terms ahead: operands that are expressions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod

from schedule.library.contraction.axes import Contraction, Expression
from schedule.library.contraction.copies import BLOCK, LONGEST
from schedule.library.contraction.factors import groupings, groups_of, regroup
from schedule.library.contraction.find import find_again
from schedule.library.contraction.move import Move
from schedule.library.contraction.places import store_of
from schedule.library.contraction.plain import in_axes
from schedule.library.contraction.plan import NestPlan, Pack
from schedule.schedule import Schedule
from tensorir import Cpu, Device, body_loads, int_value, variables

SYMBOLIC = 256
"""The extent assumed for symbolic axes."""

CONVERSIONS = 128
"""Elements of the result that share an operand, from which on it is converted ahead: each register
tile converts what it reads, and has up to 64 neighbours."""

Ahead = tuple[int, bool]
"""The axis along which the factors of products are taken apart, -1 for products as they are
written; and whether threads share what is computed ahead."""


_Part = tuple[frozenset[int], tuple[int, ...]]
"""What is computed ahead: the axes that it moves with, and the operands that it reads."""


def _parts(c: Contraction, apart: int, converted: bool = True) -> list[_Part]:
    """What is computed ahead, products being taken apart along an axis."""
    found = [(_moved_by(c, e), e.reads) for e in _expressions(c, converted)]
    for product in c.products if apart >= 0 else ():
        for group in groups_of(c, product, apart):
            read = tuple(operand for n in group for operand in product.reads[n])
            axes = frozenset(axis for operand in read for axis in c.moving[operand])
            if len(group) > 1 and _is_shared(c, (axes, read)):
                found.append((axes, read))
    return found


def _expressions(c: Contraction, converted: bool = True) -> Iterator[Expression]:
    """The largest operations that several elements of the result share, conversions of operands
    among them, or not."""
    done: list[tuple[int, ...]] = []
    for e in c.expressions:
        inside = any(e.place[: len(place)] == place for place in done)
        part, converts = (_moved_by(c, e), e.reads), _converts(c, e)
        if converts and not converted:
            continue
        if not inside and _is_shared(c, part, CONVERSIONS if converts else 2):
            done.append(e.place)
            yield e


def _moved_by(c: Contraction, e: Expression) -> frozenset[int]:
    return frozenset(
        n for n, axis in enumerate(c.axes) if any(d.place in e.variables for d in axis.digits)
    )


def _converts(c: Contraction, e: Expression) -> bool:
    """Whether an operation is no more than the conversion of an operand."""
    inside = (other for other in c.expressions if other.place[: len(e.place)] == e.place)
    return sum(1 for _ in inside) == 1 and any(c.operands[n].converted for n in e.reads)


def _is_shared(c: Contraction, part: _Part, least: int = 2) -> bool:
    """Whether so many elements of the result share a part that is no larger than what it is made
    of: of windows it would have each element several times, and padding has a stage of its own."""
    axes, reads = part
    windows = any(c.is_window(axis, n) for axis in axes for n in reads)
    padded = any(c.operands[n].pad for n in reads)
    users = prod(c.axes[n].extent or SYMBOLIC for n in c.spatial if n not in axes)
    return not (windows or padded) and users >= least


def _why_not(c: Contraction, option: Ahead) -> str | None:
    apart, _ = option
    if apart >= 0 and apart not in groupings(c):
        return f"products are not taken apart along axis {apart}"
    return None if _parts(c, apart) else "no part of the terms is shared by elements of the result"


def _size(c: Contraction, axes: Collection[int]) -> int:
    return prod(c.axes[n].extent or SYMBOLIC for n in axes)


def _cycles(c: Contraction, option: Ahead, device: Device, constants: Collection[str]) -> float:
    assert isinstance(device, Cpu)
    (apart, threads), costs = option, device.costs
    known = {n for n, o in enumerate(c.operands) if o.buffer in constants}
    parts = _parts(c, apart)
    made = [axes for axes, reads in parts if not known.issuperset(reads)]
    alone = costs.passed * sum(_size(c, axes) for axes in made)
    return alone / device.threads + costs.start * len(parts) if threads and alone else alone


def _options(c: Contraction, device: Device, ways: Sequence[int | None]) -> Iterator[Ahead]:
    """Those ways to take products apart that give parts, and whether it is faster that threads
    share what is computed ahead."""
    for way in ways if device.kind == "cpu" else ():
        if way is not None and _parts(c, way):
            yield way, _cycles(c, (way, True), device, ()) < _cycles(c, (way, False), device, ())


def _made(sch: Schedule, c: Contraction, option: Ahead) -> Contraction:
    apart, threads = option
    for block in values_apart(sch, c, apart):
        _by_threads(sch, block, threads)
    return find_again(sch, c)


def size_apart(c: Contraction, apart: int, converted: bool = True) -> int:
    """Elements of what is computed ahead, of what is `converted` only or not, products being taken
    apart along an axis, or as they are written if it is -1."""
    return sum(_size(c, axes) for axes, _ in _parts(c, apart, converted))


def values_apart(
    sch: Schedule, c: Contraction, apart: int, converted: bool = True
) -> Iterator[str]:
    """Let blocks of their own make what several elements of the result share of the terms, one by
    one, what is `converted` only or not, products being taken apart along an axis, or as they are
    written if it is -1: each in the order of the largest buffer that it reads."""
    regroup(sch, c, apart if apart >= 0 else None)
    c = find_again(sch, c)
    while part := next(_expressions(c, converted), None):
        yield as_stage(sch, c.block, part.place)
        c = find_again(sch, c)


def as_stage(sch: Schedule, reader: str, place: Sequence[int]) -> str:
    """Let a block of its own make the part of a value at a place, laid out and computed in the
    order of the largest buffer that it reads, if it reads one; returns that block."""
    block = str(sch.cache_value(reader, list(place)))
    store, node = store_of(sch, block), sch.state.block(block)
    sizes = {x: prod(int_value(n) or SYMBOLIC for n in x.buffer.shape) for x in body_loads(node)}
    places = [*map(variables, max(sizes, key=sizes.__getitem__, default=store).indices)]
    first = [[n for n, used in enumerate(places) if it.var in used][:1] for it in node.iters]
    order = sorted(range(len(node.iters)), key=first.__getitem__)
    if order != sorted(order):
        names = [f"d{n}" for n in range(len(order))]
        own, new = ", ".join(names), ", ".join(names[n] for n in order)
        sch.transform_layout(block, store.buffer.name, f"{own}: {new}")
        sch.transform_block_layout(block, f"{own}: {own}")  # loops in the order of the variables
    return block


def _by_threads(sch: Schedule, block: str, threads: bool) -> None:
    """Compute a part in vectors, in a nest of its own or by `threads`; its rows are odd numbers of
    blocks apart, so that those of a column are in different sets of caches."""
    buffer = store_of(sch, block).buffer
    row = int_value(buffer.shape[-1]) if buffer.ndim > 1 else None
    if row is not None and row >= LONGEST:
        sch.storage_align(block, buffer.name, -2, 2 * BLOCK, BLOCK)
    in_axes(sch, block, merged=False)
    own = sch.get_loops(block)
    if own:  # in one block, which a copy may still compute
        extent = sch.state.loop(own[-1]).const_extent
        long = extent is None or extent > LONGEST
        sch.vectorize(sch.split(own[-1], [None, LONGEST])[1] if long else own[-1])
    if threads and own[1:]:
        sch.parallel(own[0] if len(own) == 2 else sch.fuse(*own[:-1]))


def with_parts_packed(c: Contraction, after: Contraction, nest: NestPlan) -> NestPlan:
    """The nest of what is left of `c`, with those parts packed whose elements are in vectors: the
    copy computes them, so that panels cost no more than rows, which lie a page apart each."""
    known, packed = {o.buffer for o in c.operands}, {pack.operand for pack in nest.packs}
    more = [
        Pack(n, nest.lane, nest.tile[nest.lane])
        for n, o in enumerate(after.operands)
        if o.buffer not in known and n not in packed and o.strides[nest.lane]
        and after.can_pack(n, nest.lane)
    ]  # fmt: skip
    return replace(nest, packs=(*nest.packs, *more))


ahead = Move(
    "ahead",
    apply=_made,
    requires=_why_not,
    options=lambda c, device: _options(c, device, [-1]),
    cycles=_cycles,
)
"""(-1, threads): operations that elements of the result share are made once, ahead of the nest."""

factors_ahead = Move(
    "factors_ahead",
    apply=_made,
    requires=_why_not,
    options=lambda c, device: _options(c, device, groupings(c)[1:]),
    cycles=_cycles,
    numerics="reassociated",
)
"""(axis, threads): the same, after the factors of products that move along an axis and those that
do not were multiplied by themselves."""
