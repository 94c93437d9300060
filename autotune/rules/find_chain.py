"""Which stages of a program are a chain: those that go row by row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from autotune.rules.chain_rows import InRows, RowOrder, Stage
from autotune.rules.find_rows import find_rows
from autotune.rules.group import Group, Refused, instances, output_store, size, stride_in
from autotune.rules.lanes import reduces_by_one, run_length
from autotune.rules.ranked import group_contraction
from schedule import Schedule, library
from tensorir import Block, Cpu, IterKind, Var, body_loads, dtype, variables, written

IDLE = 1.25
"""How much longer whole rows may take than rows in parts that threads share evenly."""

LONG_ROW = 100_000
"""Terms of a row from which on its parts are worth a wait of all threads for each other."""

PACK_FROM = 6
"""Rows from which on packing an operand costs less than it gains."""


@dataclass(frozen=True)
class Chain:
    """The stages of a chain in program order, which share rows.

    order       how the program is put in rows
    sizes       the rows: iterations of each of their loops
    stages      their blocks, once they are in rows
    statistics  reductions along contiguous memory
    products    reductions with columns of their own: by register tiles
    epilogues   of a product, the stage that alone reads it, element by element
    apart       how the terms of a product are taken apart (`library.regroup`)
    kept        elements that all but the last stage make for a row; `written` are those that it
                makes
    item        bytes of the widest element of rows and their sums; `lanes` are as many to a vector
    """

    order: RowOrder
    sizes: tuple[int, ...]
    stages: tuple[str, ...]
    statistics: tuple[str, ...]
    products: tuple[str, ...]
    epilogues: Mapping[str, str]
    kept: int
    written: int
    item: int
    lanes: int
    apart: Mapping[str, tuple[int | None, bool]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        return self.order.last


def find_chains(
    sch: Schedule, groups: Sequence[Group], cpu: Cpu, refused: Refused, results: bool
) -> list[tuple[Chain, Schedule]]:
    """The chains of a program, none of whose stages are in two, and the program in rows of each:
    as large as can be, the later ones found first. `refused` learns of which last stages the rows
    are refused. With `results` stages whose results are those of the program too are in chains,
    such as the mean that a norm returns."""
    taken: set[str] = set()
    found: list[tuple[Chain, Schedule]] = []
    every = sch.get_blocks()
    sums = [name for name in every if sch.state.block(name).is_reduction]
    for name in map(str, reversed(every) if _go_back(sch, every, sums) else ()):
        if name not in taken:
            why = refused.setdefault(name, {})
            chain = results and find_chain(sch, name, groups, cpu, {}, results)
            chain = chain or find_chain(sch, name, groups, cpu, why)
            found += [chain] if chain else []
            taken.update(chain[0].stages if chain else ())
    return found[::-1]


def find_chain(
    sch: Schedule, last: str, groups: Sequence[Group], cpu: Cpu, refused: dict[str, str],
    results: bool = False,
) -> tuple[Chain, Schedule] | None:  # fmt: skip
    """The largest chain that ends in `last`, and the program in its rows; None where none pays. It
    makes `results` of the program if it ends in neighbours, so what they share is computed once."""
    among: tuple[str, ...] | None = None
    while rows := find_rows(sch, last, among, refused=refused, results=results):
        chain = _classified(rows, groups, cpu)
        if chain is None or chain.stages == rows.order.members:
            pays = chain and _pays(rows.sch, chain, cpu) and (rows.stages[-1].tiled or not results)
            return (chain, rows.sch) if chain and pays else None
        among = chain.stages  # the others decide neither what rows are nor how they lie
    return None


def _classified(rows: InRows, groups: Sequence[Group], cpu: Cpu) -> Chain | None:
    """The chain of stages in rows, cut after the last reduction that does not go row by row."""
    sch, stages = rows.sch, rows.stages
    statistics: list[str] = []
    products: list[str] = []
    before: set[str | None] = set()
    first, room = 0, cpu.kept_bytes(2)
    for at, stage in enumerate(stages):
        name, block = stage.block, sch.state.block(stage.block)
        if not block.is_reduction and not _is_apart(block, stage):
            continue
        product = stage.width > 1 and block.is_reduction
        if product and _shared_bytes(block) <= room and _may_tile(sch, stage):
            room -= _shared_bytes(block)
            products.append(name)
        elif stage.width == 1 and reduces_by_one(block) and last_reduce(block) >= 2 * cpu.lanes():
            statistics.append(name)
        else:
            first, statistics, products, room = at + 1, [], [], cpu.kept_bytes(2)
            before |= {name, *(g.epilogue for g in groups if g.block == name)}
    kept = [stage for stage in stages[first:] if stage.block not in before]
    if not statistics or kept[-1] is not stages[-1]:
        return None
    tiled = {stage.block for stage in kept if stage.tiled}
    epilogues = {g.block: g.epilogue for g in groups if g.block in products and g.epilogue in tiled}
    wide = [stage.block for stage in kept if stage.width > 1 or stage.block in statistics]
    kinds = ["float32", *(b.dtype for name in wide for b in written(sch.state.block(name)))]
    order = rows.order
    if order.apart and order.last in products and stages[-1].tiled:
        epilogues[order.last] = stages[-1].block
    return Chain(
        order, rows.sizes, tuple(stage.block for stage in kept), tuple(statistics),
        tuple(products), epilogues, sum(stage.width for stage in kept[:-1]), stages[-1].width,
        max(map(dtype.itemsize, kinds)), cpu.elements(*kinds),
    )  # fmt: skip


def _pays(sch: Schedule, chain: Chain, cpu: Cpu) -> bool:
    """Whether a statistic goes back to the elements of its row, and rows and caches suffice."""
    back, turned = _go_back(sch, chain.stages, chain.statistics), chain.order.turned
    together = chain.lanes if turned else 6 if chain.products else 1
    fits = chain.item * chain.kept * together <= cpu.l2_bytes and prod(chain.sizes) >= cpu.threads
    if turned and chain.sizes[-1] < chain.lanes:
        return False  # no square of rows and columns
    return back and fits and not _better_in_parts(sch, chain, cpu)


def _go_back(sch: Schedule, stages: Sequence[str], sums: Collection[str]) -> bool:
    """Whether one of some stages has more elements than one of the sums before it."""
    most = 0
    for block in map(sch.state.block, reversed(stages)):
        if block.name in sums and instances(block, IterKind.SPATIAL) < most:
            return True
        most = max(most, instances(block))
    return False


def _better_in_parts(sch: Schedule, chain: Chain, cpu: Cpu) -> bool:
    """Whether threads would wait for one that has a long row more."""
    rows, threads = prod(chain.sizes), cpu.threads
    long = any(last_reduce(sch.state.block(s)) >= LONG_ROW for s in chain.statistics)
    return long and not chain.products and -(-rows // threads) * threads > IDLE * rows


def _is_apart(block: Block, stage: Stage) -> bool:
    """Whether neighbours in a row are made of elements that are apart in memory."""
    store = output_store(block)
    if store is None or stage.width == 1 or stage.turned:
        return False
    column = stage.columns[-1] if stage.columns else store.indices[-1]
    if not isinstance(column, Var):
        return False
    return any(stride_in(load, column, block) not in (0, 1, None) for load in body_loads(block))


def last_reduce(block: Block) -> int:
    """The terms of a reduction along contiguous memory."""
    return run_length(library.contiguous_run(block)) or 0


def _shared_bytes(block: Block) -> int:
    """What all rows of a product share of its operands: that of all products of a chain stays in
    the second-level cache, as each task goes over it."""
    *rows, _ = (it.var for it in block.spatial)
    mine, total = set(rows), 0
    for load in body_loads(block):
        dims = zip(load.indices, load.buffer.shape)
        shared = prod(size(extent) for index, extent in dims if not variables(index) & mine)
        total += shared * dtype.itemsize(load.buffer.dtype)
    return total


def _may_tile(sch: Schedule, stage: Stage) -> bool:
    """Whether a product is one for a chain: its columns are an axis of what it stores, and operands
    with columns apart in memory can be packed, which enough rows share."""
    block = sch.state.block(stage.block)
    store = output_store(block)
    *rows, column = [it.var for it in block.spatial]
    if store is None or stage.columns != (column,) or not stage.tiled:
        return False
    c = group_contraction(sch, Group(stage.block)) if store.indices[-1] is column else None
    if c is None:
        return False
    extents = {it.var: size(it.extent) for it in block.iters}
    for n, operand in enumerate(c.operands):
        if operand.strides[c.spatial[-1]] not in (0, 1):
            apart = {v for load in library.loads_of(block, c, operand) for v in variables(load)}
            users = prod(extents[v] for v in rows if v not in apart)
            if users < PACK_FROM or not c.can_pack(n, c.spatial[-1]):
                return False
    return True
