"""Products of small types by dot-product intrinsics: schedule.library.tensorized_matmul, open.

The tile, the rows that are used with one panel, and where the second operand is packed are choices;
everything else is decided by the library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from autotune.rules.effort import one_thread
from autotune.rules.group import SYMBOLIC_SIZE, Group, lane_of, size, widens
from autotune.rules.matrix_forms import Form, in_forms
from autotune.rules.plan import OpenPlan, Options, Values, threads
from autotune.rules.transposed import placing_plan
from schedule import Schedule, library
from tensorir import Cpu, dtype

STRIPS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Widths of register tiles, in strips of 16 columns."""

NARROWER = (128, 64)
"""Columns of the tiles that take the place of a wider one that gives threads uneven shares."""

FEW_ROWS = {2: (7, 12), 4: (1, 5)}
"""Rows of a product from which on packing the second operand in a call pays, by the terms that a
lane takes at once; and where that operand has to be padded, too."""

TILES = (1, 2, 4, 8, 12, 16, 24, 32, 48)
"""Register tiles that make a block of rows."""

MANY_PANELS = 8
"""Panels of each thread from which on an uneven share of them costs little."""


@dataclass(frozen=True, eq=False)
class TensorizedPlan(OpenPlan):
    """Schedules one product by an intrinsic.

    roles      the parts that the loops of the block play
    numerics   what the intrinsic does to the sums
    rows       of all matrices of a batch
    form       the contraction that is brought to its plain form first, and its axes in order
    """

    intrinsic: str
    roles: library.Roles
    numerics: str
    rows: int
    form: Form | None
    name: str = "tensorized"
    always = False

    @property
    def packed(self) -> int:
        """Elements of the operand that is packed."""
        return prod(map(size, self.roles.weight.buffer.shape))

    @property
    def pack(self) -> str:
        return f"pack_{self.roles.weight.buffer.name}"

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Constants are packed ahead of all calls."""
        known = self.roles.weight.buffer.name in constants
        return super().default() | ({self.key(self.pack): "root"} if known else {})

    def suits(self, constants: Collection[str]) -> bool:
        """Whether packing pays, where the operand is no constant: for few rows, ordinary loops
        convert as fast as others pack."""
        roles = self.roles
        if roles.weight.buffer.name in constants:
            return True
        padded = bool((roles.columns or 0) % roles.lanes or (roles.terms or 0) % roles.group)
        return self.rows >= FEW_ROWS[roles.group][padded]

    def feasible(self, values: Values) -> bool:
        """Sums in registers, and nothing packed again for every tile of rows."""
        own = self.chosen(values)
        rows, columns = own["tile"]
        if own[self.pack] == "block" and rows < self.rows:
            return False
        return bool(rows * columns // self.roles.lanes <= self.cpu.registers - 2)

    def apply(self, sch: Schedule, values: Values) -> None:
        from autotune.estimate.traffic import AHEAD

        own = self.chosen(values)
        epilogue, copies, behind = self.group.epilogue, list(self.group.padding), None
        if self.form is not None:
            made, writer = library.plain_form(sch, *self.form)
            copies, epilogue = [*copies, *made], writer or epilogue
            node = writer and sch.state.block(writer)
            if node and lane_of(node) is not node.iters[-1].var:  # turned tile by tile, it scatters
                epilogue, behind = None, placing_plan(sch, node.name, self.cpu)
        parallel, held = self.parallel(values), dtype.itemsize(self.roles.weight.buffer.dtype)
        ahead = AHEAD // 2 if self.packed * held > self.cpu.l2_bytes else 0  # else it has them
        library.tensorized_matmul(
            sch, self.group.block, self.intrinsic, *own["tile"], tiles=own["tiles"],
            pack=own[self.pack], epilogue=epilogue, parallel=parallel, ahead=ahead,
        )  # fmt: skip
        library.copy_ahead(sch, copies, parallel)
        if behind is not None:
            behind.apply(sch, behind.default())


def tensorized_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[TensorizedPlan]:
    """The plan for a product whose types fit an intrinsic of the target, in the first of the forms
    of its axes that does; where columns are in two variables of which the last is short, in the
    first that has them in one."""
    if not widens(sch.state.block(group.block)):
        return []

    def enough(plan: TensorizedPlan) -> bool:
        wide = plan.form is None and (plan.roles.columns or SYMBOLIC_SIZE) >= min(NARROWER)
        return wide or not plan.roles.shared

    return in_forms(sch, group, library.plain_form, partial(_plan, group, cpu), enough, False)


def _plan(group: Group, cpu: Cpu, sch: Schedule, form: Form | None) -> TensorizedPlan | None:
    found = library.find_products(sch, group.block, cpu.target.features, tiles=False)
    if not found:
        return None
    intrin, roles = max(found, key=lambda each: (each[1].lanes, each[0].name))
    exact = not dtype.is_float(intrin.func.params[-1].dtype)
    cycles = one_thread([sch.state.block(group.block)], cpu) / roles.group
    batches, others = extents(sch, roles.batch), extents(sch, roles.outer)
    return TensorizedPlan(
        group=group,
        cpu=cpu,
        options=_options(group, roles, batches, others, cpu, cycles),
        cycles=cycles,
        intrinsic=intrin.name,
        roles=roles,
        numerics="bitwise" if exact else intrin.numerics,
        rows=(roles.rows or SYMBOLIC_SIZE) * others,
        form=form,
    )


def _options(
    group: Group, roles: library.Roles, batches: int, others: int, cpu: Cpu, cycles: float
) -> Options:
    """What is open for matrices of a batch, with rows in so many `others` dimensions.

    Without tuning each task packs its own panel if that gives tasks enough, and a single tile of
    rows no more of it than it uses at once; otherwise panels are packed ahead. Narrower tiles give
    more tasks.
    """
    count = cpu.threads if cpu.worth_threads(cycles) else 1
    tiles = list(dict.fromkeys(_tiles(roles, group.epilogue is not None)))
    rows, columns = roles.rows or SYMBOLIC_SIZE, roles.columns or SYMBOLIC_SIZE

    def even(wide: int) -> bool:
        """Whether panels of so many columns give each thread about as much to do."""
        panels = batches * -(-columns // wide)
        return panels % count == 0 or panels >= MANY_PANELS * count

    good = [tiles[0], *(t for t in tiles if t[1] in NARROWER and t[1] < tiles[0][1])]
    high, wide = tile = next((each for each in good if even(each[1])), tiles[0])
    places = ("root", "panel") if roles.windows else ("root", "panel", "block")
    pack = "root"
    if even(wide) and others == 1:
        pack = "block" if rows <= high and not roles.windows else "panel"
    blocks = _even_tiles(roles, high, others * batches * -(-columns // wide), count)
    most = -(-rows // min(high for high, _ in tiles))
    counts = {*(n for n in TILES if n <= most), roles.block(tiles[0][0]), blocks}
    return {
        "tile": (tuple(tiles), tile),
        "tiles": (tuple(sorted(counts)), blocks),
        f"pack_{roles.weight.buffer.name}": (places, pack),
        "threads": threads(cpu, cycles),
    }


def _tiles(roles: library.Roles, follows: bool) -> Iterator[tuple[int, int]]:
    """Rows and columns of register tiles, the best one first."""
    yield roles.tile(epilogue=follows)
    columns = roles.columns or SYMBOLIC_SIZE
    for strips in STRIPS:
        wide = strips * library.STRIP
        whole = roles.plain or columns % wide == 0
        if whole and wide < columns + library.STRIP:
            best, _ = roles.tile(wide, epilogue=follows)
            yield from ((high, wide) for high in (best, best - 1, best // 2) if high > 0)


def _even_tiles(roles: library.Roles, high: int, tasks: int, threads: int) -> int:
    """Register tiles in a block of rows, so that blocks are equal and threads have equal shares.

    `tasks` is how many tasks there are for each block of rows.
    """
    most = roles.block(high)
    count = -(-(roles.rows or SYMBOLIC_SIZE) // high)
    options = sorted({most, *(n for n in TILES if n < most)}, reverse=True)
    return min(options, key=lambda n: -(-(-(-count // n) * tasks) // threads) * (n + 1))


def extents(sch: Schedule, loops: tuple[str, ...]) -> int:
    return prod(sch.state.loop(loop).const_extent or SYMBOLIC_SIZE for loop in loops)
