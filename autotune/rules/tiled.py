"""Products of small types by products of tiles: schedule.library.tensorized_matmul, open.

Which tiles of sums, how many below each other use one panel, how many panels a task has, and
whether rows are copied in tiles are choices. The default is what takes the least time by the
estimate here, where that is less than that of dot products.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from autotune.rules.effort import one_thread
from autotune.rules.group import SYMBOLIC_SIZE, Group, output_store, widens
from autotune.rules.matrix_forms import Form, in_forms
from autotune.rules.plan import OpenPlan, Options, Values, threads
from autotune.rules.tensorized import extents, tensorized_plans
from schedule import Schedule, library
from tensorir import Buffer, Cpu, body_loads, dtype

TILES = (1, 2, 4, 8, 16, 32)
"""Tiles of sums below each other that make a block of rows."""
PANELS = (1, 2, 4, 8, 16)
"""Panels of a task that does not have all of them."""
ROWS = 256
"""Of a block, about, of long matrices: a task copies them once, and each panel serves them all."""
MANY_TASKS = 4
"""Tasks of each thread from which on an uneven share of them costs little."""

IN_PASSING = 0.5
"""The share of a copy that is read right after it was written, piece by piece."""

OFTEN = 8
"""Panels that use the same rows, from which on these are copied first."""


class Sizes(NamedTuple):
    """Extents of a product in the form that is scheduled.

    batch    matrices, of dimensions of rows that stay apart as well
    windows  terms in other dimensions than `terms`, as the taps of a convolution
    size     bytes of an element
    """

    batch: int
    rows: int
    columns: int
    windows: int
    terms: int
    size: int

    @property
    def packed(self) -> int:
        """Elements of the second matrix."""
        return self.batch * self.windows * self.terms * self.columns


@dataclass(frozen=True, eq=False)
class TiledPlan(OpenPlan):
    """Schedules one product by one of some intrinsics.

    weight    name of the operand that is packed
    form      what is brought to the form of matrices first
    other     cycles of the best other way, where the second operand is a constant, and else
    """

    weight: str
    sizes: Sizes
    numerics: str
    form: Form | None
    other: tuple[float, float]
    name: str = "tiled"
    always = False

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Constants are packed ahead of all calls."""
        known = {self.key("pack"): "root"} if self.weight in constants else {}
        return super().default() | known

    def estimate(self, constants: Collection[str] = ()) -> float:
        cycles = self.cycles + self.packing(constants)
        if not self.cpu.worth_threads(cycles):
            return cycles
        return self.cpu.costs.start + cycles / self.cpu.threads

    def suits(self, constants: Collection[str]) -> bool:
        """Whether it takes less than dot products, or what there is else."""
        known = self.weight in constants
        return self.cycles + self.packing(constants) < self.other[not known]

    def packing(self, constants: Collection[str]) -> float:
        """Cycles that the second matrix takes ahead of the product; windows of an image are written
        side by side first, element by element."""
        if self.weight in constants:
            return 0.0
        costs = self.cpu.costs
        apart = self.form is not None and _in_windows(*self.form)
        return self.sizes.packed * (costs.alone if apart else costs.copy)

    def apply(self, sch: Schedule, values: Values) -> None:
        own = self.chosen(values)
        parallel, epilogue = self.parallel(values), self.group.epilogue
        copies, copy = list(self.group.padding), None
        if self.form is not None:
            made = library.matrix_form(sch, *self.form)
            copy, epilogue = made.copy, made.writer or epilogue
            copies += made.others
        library.tensorized_matmul(
            sch, self.group.block, own["tile"],
            tiles=own["tiles"], panels=own["panels"] or None, pack=own["pack"],
            copy=copy, turned=own["rows"] == "copied", epilogue=epilogue, parallel=parallel,
        )  # fmt: skip
        library.copy_ahead(sch, copies, parallel)


def tiled_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[TiledPlan]:
    """The plan for a product whose types fit intrinsics of the target: as it is written where it is
    one of matrices, or in the form of one, with the columns that take the least time."""
    if not widens(sch.state.block(group.block)) or not library.has_tiles(cpu.target.features):
        return []

    def enough(plan: TiledPlan) -> bool:  # else terms or columns may be in several variables
        return plan.form is None and plan.sizes.windows == plan.sizes.batch == 1

    return in_forms(sch, group, library.matrix_form, partial(_plan, sch, group, cpu), enough)


def _source(sch: Schedule, buffer: Buffer, known: Collection[str]) -> str:
    """The buffer that blocks beside the `known` ones copy another one of."""
    for name in sch.get_blocks():
        node = sch.state.block(name)
        store = output_store(node)
        if name not in known and store is not None and store.buffer is buffer:
            return _source(sch, body_loads(node)[0].buffer, known)
    return buffer.name


def _plan(
    sch: Schedule, group: Group, cpu: Cpu, trial: Schedule, form: Form | None
) -> TiledPlan | None:
    """The plan for what `trial` has become of `sch`; None where no intrinsic fits."""
    products = library.find_products(trial, group.block, cpu.target.features, tiles=True)
    if not products:
        return None
    intrin, roles = products[0]
    if not roles.plain or form is None and extents(trial, roles.outer) > 1:
        return None
    first, _, sums = (param.dtype for param in intrin.func.params)
    sizes = Sizes(
        batch=extents(trial, (*roles.batch, *roles.outer)),
        rows=roles.rows or SYMBOLIC_SIZE,
        columns=roles.columns or SYMBOLIC_SIZE,
        windows=extents(trial, roles.windows),
        terms=roles.terms or SYMBOLIC_SIZE,
        size=dtype.itemsize(first),
    )
    turned = 0.0 if form is None else _turned(*form, sizes) * cpu.costs.alone
    times = sorted((_cycles(r.at_once, sizes, cpu), n) for n, (_, r) in enumerate(products))
    cycles = times[0][0] + turned
    offered = [(products[n][0].name, products[n][1].at_once) for _, n in times]
    return TiledPlan(
        group=group,
        cpu=cpu,
        options=_options(offered, sizes, cpu, cycles, form is not None),
        cycles=cycles,
        weight=_source(trial, roles.weight.buffer, sch.get_blocks()),
        sizes=sizes,
        numerics=intrin.numerics if dtype.is_float(sums) else "bitwise",
        form=form,
        other=_other(sch, group, cpu),
    )


def _options(
    offered: Sequence[tuple[str, library.Shape]], s: Sizes, cpu: Cpu, cycles: float, copied: bool
) -> Options:
    """What is open for intrinsics and what they compute at once, best first. Rows are copied in
    tiles where they have to be `copied` anyway, or are used so often that what rows far apart cost
    in the first cache is more."""
    most = max(-(-s.rows // shape.rows) for _, shape in offered)
    beside = max(-(-s.columns // shape.columns) for _, shape in offered)
    tiles = [_tiles(s, shape) for _, shape in offered]
    panels = [_panels(s, shape, cpu) for _, shape in offered]
    name, shape = offered[0]
    shared = threads(cpu, cycles)
    padded = s.rows % shape.rows or s.terms % (shape.steps * shape.group)
    copied = bool(copied or padded or s.columns >= OFTEN * shape.columns)
    return {
        "tile": (tuple(name for name, _ in offered), name),
        "tiles": (tuple(sorted({*(n for n in TILES if n < most), *tiles})), tiles[0]),
        "panels": (
            tuple(sorted({0, *(n for n in PANELS if n < beside), *panels})),
            panels[0] if shared[1] == "parallel" else 0,
        ),
        "rows": (("copied", "there"), "copied" if copied else "there"),
        "pack": (("root", "panel"), "panel" if tiles[0] * shape.rows >= s.rows else "root"),
        "threads": shared,
    }


def _tiles(s: Sizes, shape: library.Shape) -> int:
    """Tiles below each other in a block, all blocks having about as many."""
    count = -(-s.rows // shape.rows)
    return -(-count // max(1, round(count * shape.rows / ROWS)))


def _panels(s: Sizes, shape: library.Shape, cpu: Cpu) -> int:
    """Panels of a task, 0 for all: fewer where blocks of rows alone are no even share."""
    blocks = s.batch * -(-s.rows // (_tiles(s, shape) * shape.rows))
    count = -(-s.columns // shape.columns)
    if blocks % cpu.threads == 0 or blocks >= MANY_TASKS * cpu.threads:
        return 0
    return -(-count // min(count, cpu.threads))


def _cycles(shape: library.Shape, s: Sizes, cpu: Cpu) -> float:
    """Of one thread, but for packing the second matrix: steps of tiles, their sums on the way to
    the result, and the copy of the rows."""
    costs = cpu.costs
    side = library.TILE_SIDE
    tall, wide = shape.rows // side, shape.columns // side
    terms = shape.steps * shape.group
    below, beside = -(-s.rows // shape.rows), -(-s.columns // shape.columns)
    steps = s.batch * below * beside * s.windows * -(-s.terms // terms)
    # Sums of one tile follow each other: with few of them the latency is what a step takes. A panel
    # that fits is in the first cache for all rows but the first ones.
    panel = shape.columns * s.windows * s.terms * s.size
    lines = side * (tall + wide / (below if panel <= cpu.kept_bytes(1) else 1))
    each = max(tall * wide * costs.tile_product, costs.tile_latency, lines * costs.tile_row)
    sums = s.batch * below * beside * shape.rows * shape.columns
    # Rows are filled up to whole tiles, and written and read once; what a task has of them may pass
    # through further caches.
    row = s.windows * -(-s.terms // terms) * terms * s.size
    task = min(below * shape.rows, ROWS) * row
    passed = 2 * sum(cost for room, cost in cpu.caches if task > room)
    count = s.batch * below * shape.rows * row / cpu.line_bytes
    rows = count * (side * costs.copy + passed)
    moved = sums / cpu.lanes() * costs.tile_sums + rows
    return costs.tile_start + steps * each + moved


def _turned(c: library.Contraction, order: Sequence[int], s: Sizes) -> int:
    """Elements that are moved against the order of memory, of the first matrix and the result."""
    rows, results = s.batch * s.rows * s.windows * s.terms, s.batch * s.rows * s.columns
    first = [o for o in c.operands if o.strides[order[-1]] == 0]
    near = all(any(o.strides[n] == 1 for n in c.reduced) for o in first)
    return (0 if near else rows) + (0 if c.result.strides[order[-1]] == 1 else results)


def _in_windows(c: library.Contraction, order: Sequence[int]) -> bool:
    """Whether the second matrix, which moves with the columns, is read in windows."""
    second = [at for at, o in enumerate(c.operands) if o.strides[order[-1]] != 0]
    return any(c.is_window(n, at) for n in c.reduced for at in second)


def _other(sch: Schedule, group: Group, cpu: Cpu) -> tuple[float, float]:
    """Cycles of dot products, with constants and without; of vectors, where there are none."""
    plain = one_thread([sch.state.block(group.block)], cpu)
    for plan in tensorized_plans(sch, group, cpu):
        if not plan.works:
            continue
        known = frozenset([plan.roles.weight.buffer.name])
        near = IN_PASSING if plan.chosen(plan.default())[plan.pack] == "block" else 1.0
        packed = plan.cycles + plan.packed * cpu.costs.copy * near
        return plan.cycles if plan.suits(known) else plain, packed if plan.suits(()) else plain
    return plain, plain
