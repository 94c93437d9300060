"""What a row's default schedule asks of a GPU, counted on any machine, beside what it may ask."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune import explain
from autotune.collecting import collected_seldom
from autotune.explain import Explanation
from autotune.gpu.account import KernelAccount
from autotune.gpu.work import Work, architecture_of, under_way
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan
from autotune.rules.gpu.tile_cycles import TileCounts
from backends import build, have_compiler, source_text
from benchmarks.gpus.rows import FREE, PRODUCT, Family, Row
from schedule import Schedule
from tensorir import Gpu, PrimFunc, Target, device_of, dtype, reference

TARGET = "cuda -arch=sm_90a"
EMULATOR = "cuda-emulator -arch=sm_90a -check=counts"

CONFLICTS = 1.01
"""Wavefronts over those without conflicts, at the most."""

TILE = 64 * 64
"""Results of a block where the shape gives two waves of them, at least."""

AGREE = 0.03
"""By how much the estimate may differ from what the emulator counts: it looks at some warps."""

ERROR = 1e-4
"""Of the largest value, at the most, or as often what the type of results rounds."""

ROUNDINGS = 8

DEFAULT_MS, COMPILE_MS = 50.0, 200.0
"""To make a default schedule and to compile a kernel, CPU time: told, since it is no count."""


@dataclass(frozen=True)
class Counted:
    """One row, counted.

    kernels       launches of a call; `plans` are the rules that made them, `tile` that of a product
    transactions  times those of the arguments, or of what a product's tiles imply
    conflicts     wavefronts over those without conflicts, of the worst kernel
    registers     of the kernel that has most; `spills` None where no compiler was asked
    occupancy     of the kernel that takes longest by the estimate, and what binds it
    adds          the share of the instructions of that kernel that are operations on floats, a
                  product with what it is added to in one: what a product is asked for
    us            of a call, by the estimate
    default_ms    to make the schedule, CPU time, and `compile_ms` for NVRTC to compile a kernel of
                  it, on average; None where it is not there
    small         transactions over those of the arguments in the emulated size, and `error` there,
                  a share of what is allowed
    misses        the figures that do not hold, in words; `why` is the reason
    """

    name: str
    family: str
    kernels: int
    plans: str
    tile: str
    transactions: float
    conflicts: float
    registers: int
    spills: bool | None
    occupancy: float
    adds: float
    limit: str
    us: float
    default_ms: float
    compile_ms: float | None
    small: float
    error: float
    misses: tuple[str, ...]
    why: str


def count(row: Row) -> Counted:
    """Count a row at full size, and run it on the emulator in the small one.

    Raises TensorIRError where it cannot be scheduled or compiled.
    """
    small, estimated, error = emulated(row)  # first: what it imports is no part of the times
    func = row.func()
    gc.collect()  # what it and other rows left behind
    start = time.process_time()
    sch, plans, tiles = default(func)
    seconds = time.process_time() - start
    found = explain(sch, TARGET)
    gpu = found.gpu
    last = max(found.kernels, key=lambda k: max(k.work.cycles_by_limit(gpu).values()))
    least = float(found.arguments)
    if row.family is PRODUCT and tiles is not None:
        least = implied(tiles)
    of = found.moved * found.arguments / least
    spills = [k.spills for k in found.kernels]
    counted = Counted(
        row.name,
        row.family.name,
        len(found.kernels),
        ", ".join(plans),
        "" if tiles is None else tiles.text,
        of,
        max(k.conflicts for k in found.kernels),
        max(k.work.registers for k in found.kernels),
        None if None in spills else any(spills),
        last.work.occupancy(gpu),
        last.work.share_of_floats,
        last.work.limit(gpu),
        1e6 * found.seconds,
        1e3 * seconds,
        _compile_ms(sch),
        small.moved,
        error,
        tuple(_misses(row, least, found, last, tiles, small, estimated, error)),
        row.why,
    )
    return counted


def _compile_ms(sch: Schedule) -> float | None:
    """CPU time in which NVRTC compiles the kernels of a schedule, for one of them."""
    if not have_compiler("cuda"):
        return None
    from backends.cuda.nvrtc import compile_cubin

    source = source_text(sch.func, TARGET)
    start = time.process_time()
    compile_cubin(source, TARGET.partition("-arch=")[2])
    return 1e3 * (time.process_time() - start) / source.count("__global__")


def default(func: PrimFunc) -> tuple[Schedule, list[str], TileCounts | None]:
    """The default schedule, the rules that made it, and the tiles of its only product."""
    with collected_seldom():  # as default_schedule does
        sketch = choose(func, device_of(Target.parse(TARGET)), None, ()).sketch
        products = [plan for plan in sketch.plans if isinstance(plan, ProductPlan)]
        sch = sketch.build(sketch.values())
    names = [plan.name for plan in sketch.plans][::-1]
    return sch, names, products[0].chosen if len(products) == 1 else None


def implied(tiles: TileCounts) -> float:
    """Transactions that the tiles of a product have to make: what each block reads, with no byte
    beside it, and the results, those of parts of sums twice more."""
    c, cuts, extent = tiles.of.c, tiles.plan.cuts, tiles.of.extent
    staged = {tile.operand: float(tile.elements) for tile in tiles.tiles}
    read = 0.0
    for n, operand in enumerate(c.operands):
        box = prod(cut.total for cut, step in zip(cuts, operand.strides) if step != 0)
        read += staged.get(n, box) * dtype.itemsize(operand.dtype)
    results = prod(map(extent, c.spatial)) * dtype.itemsize(c.result.dtype)
    parts = tiles.plan.split
    stored = results * (1 if parts == 1 else 2 * parts + 1)
    return (tiles.blocks * tiles.steps * read + stored) / Gpu.sector_bytes


def emulated(row: Row) -> tuple[Explanation, Explanation, float]:
    """What the emulator counts in the small size, what is estimated for it, and the error, as a
    share of that which is allowed."""
    func = row.func(small=True)
    sch, _, _ = default(func)
    kernel = build(sch, EMULATOR)
    inputs = row.inputs(small=True)
    found = kernel(*inputs)
    error = 0.0
    results = found if isinstance(found, tuple) else (found,)
    for one, wanted in zip(results, reference(func, *inputs), strict=True):
        rounds = float(np.finfo(one.dtype).eps) if one.dtype.kind == "f" else 0.0
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-30)
        far = float(np.abs(one - wanted).max(initial=0.0)) / scale
        error = max(error, far / max(ERROR, ROUNDINGS * rounds))
    return explain(kernel), explain(sch, TARGET), error


def most_transactions(family: Family, least: float, gpu: Gpu) -> float:
    """What a program may ask of memory for which so many transactions would do: where these are
    less than memory has under way at once, asking for that costs nothing."""
    assert family.most is not None
    return family.most * max(least, under_way(gpu) / Gpu.sector_bytes)


def most_wavefronts(work: Work, gpu: Gpu) -> float:
    """What a kernel may ask of shared memory: of as many as multiprocessors do while a load waits
    for memory none costs anything."""
    arch = architecture_of(gpu)
    return CONFLICTS * max(work.free, arch.card.sms * arch.latency)


def _misses(
    row: Row,
    least: float,
    found: Explanation,
    last: KernelAccount,
    tiles: TileCounts | None,
    small: Explanation,
    estimated: Explanation,
    error: float,
) -> Iterator[str]:
    """The figures that do not hold."""
    family, gpu = row.family, found.gpu
    if error > 1:
        yield f"wrong: {error:.1f} times what it may be"
    moved = found.moved * found.arguments
    if family.most is not None and moved > most_transactions(family, least, gpu):
        yield f"transactions {moved / least:.2f} > {family.most:g}"
    if any(k.work.wavefronts > most_wavefronts(k.work, gpu) for k in found.kernels):
        yield f"conflicts {max(kernel.conflicts for kernel in found.kernels):.2f}"
    if any(kernel.spills for kernel in found.kernels):
        yield "spills"
    occupancy, filled = last.work.occupancy(gpu), last.work.blocks >= gpu.multiprocessors
    if filled and occupancy < family.occupancy:
        yield f"occupancy {occupancy:.0%} < {family.occupancy:.1%}"
    if tiles is not None and row.family is PRODUCT:
        result = prod(map(tiles.of.extent, tiles.of.c.spatial))
        each = prod(tiles.plan.cuts[n].total for n in tiles.of.c.spatial)
        if each < TILE <= result / (2 * tiles.of.gpu.multiprocessors):
            yield f"a tile of {each} results"
    if family is not FREE and abs(small.moved - estimated.moved) > AGREE * small.moved:
        yield f"estimated {estimated.moved:.2f}, counted {small.moved:.2f} on the emulator"


HEADER = ("row", "rules", "transactions", "conflicts", "registers", "occupancy", "adds", "binds",
          "figures")  # fmt: skip


def cells(counted: Counted) -> tuple[str, ...]:
    """The row of the table."""
    figures = "; ".join(counted.misses) or "hold"
    if counted.misses and counted.why:
        figures += f" ({counted.why})"
    of = " of tiles" * (counted.family == PRODUCT.name)
    return (
        counted.name, counted.plans, f"{counted.transactions:.2f}{of}", f"{counted.conflicts:.2f}",
        f"{counted.registers}{', spills' if counted.spills else ''}", f"{counted.occupancy:.0%}",
        f"{counted.adds:.0%}" if counted.family == PRODUCT.name else "", counted.limit, figures,
    )  # fmt: skip


def held(found: Sequence[Counted], failed: Mapping[str, str]) -> str:
    """How many rows hold, in words."""
    count = sum(not counted.misses for counted in found)
    return f"{count} of {len(found) + len(failed)} rows hold all figures."


def slow(found: Sequence[Counted]) -> Iterator[str]:
    """What takes longest to make and to compile, and how many rows take longer than they may."""
    for what, most, times in (
        ("to make a default schedule", DEFAULT_MS, [c.default_ms for c in found]),
        ("for NVRTC to compile a kernel", COMPILE_MS, [c.compile_ms for c in found]),
    ):
        known = {c.name: ms for c, ms in zip(found, times) if ms is not None}
        if known:
            worst = max(known, key=lambda name: known[name])
            over = sum(ms > most for ms in known.values())
            yield (
                f"{known[worst]:.0f} ms of CPU time {what}, at the most ({worst}); "
                f"{over} of {len(known)} rows take longer than {most:g} ms"
            )


def as_markdown(found: Sequence[Counted], failed: Mapping[str, str]) -> str:
    """The table, with the rows that have no kernel and why, and how many hold."""
    none = [(name, *[""] * (len(HEADER) - 2), f"no kernel: {why}") for name, why in failed.items()]
    lines = [HEADER, tuple("---" for _ in HEADER), *map(cells, found), *none]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n{held(found, failed)}\n"
