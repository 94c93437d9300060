"""What the schedule of Winograd convolutions chooses from the sizes, by a model of the cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from schedule.library.lanes import constant_size, read_by, register_tile
from tensorir import Cpu, Processor, Store, Target, TensorIRError, dtype, int_value, variables

if TYPE_CHECKING:
    from schedule.schedule import Schedule

AGAIN = 9
"""The transform of the input costs as much as products of this many output channels."""

STREAM = 7
"""Measured on 512 channels of 7 x 7: F(4x4) and F(4x2) differ by as much."""


READS = (5.0, 14.0)
"""Multiply-adds of a vector that take as long as reading one of weights from the third-level cache,
and from memory: 512 channels of 7 x 7 and eight samples, with all weights read for each sample or
once, differ by as much."""

SAMPLES = 8
"""What a symbolic batch is taken for."""


@dataclass(frozen=True)
class WinogradPlan:
    """What is chosen from the sizes.

    `side` is (m, n) of F(m x n, 3x3), and `across` the number of tiles in a row. The register tile
    is `tiles` x `vectors` of output channels. A task takes `rows` rows of tiles through all stages;
    where that is 0, threads share the input channels, and after that the output channels. `shares`
    tasks take the same rows, each for a part of the output channels.
    """

    side: tuple[int, int]
    across: int
    lanes: int
    tiles: int
    vectors: int
    rows: int
    shares: int = 1


@dataclass(frozen=True)
class WinogradSizes:
    """What a program has; see `WinogradPlan` for `side` and `across`.

    Numbers of channels are rounded up, as the stages in between have them; `rows` are rows of
    tiles of one image, and `samples` is None for a symbolic batch.
    """

    side: tuple[int, int]
    channels: int
    filters: int
    samples: int | None
    rows: int
    across: int
    dtype: str


def winograd_tile(
    height: int, width: int, channels: int, filters: int, samples: int = 1
) -> tuple[int, int]:
    """The `tile` for ops.conv2d_winograd that should be fastest for an output of height x width.

    By products, and by the transformed weights that have to be read: where these do not fit into
    the second-level cache, reading them costs as much as products of STREAM tiles. It is part of
    the program, so the same for all machines: the cache is that of a usual one.
    """
    costs = {}
    for side in ((4, 4), (4, 2), (2, 4), (2, 2)):
        positions = (side[0] + 2) * (side[1] + 2)
        tiles = samples * -(-height // side[0]) * -(-width // side[1])
        streamed = 4 * positions * channels * filters > Processor.l2
        costs[side] = positions * (tiles + (STREAM if streamed else 1))
    return min(costs, key=lambda side: costs[side])


def plan_winograd(sch: Schedule, target: Target, name: str = "conv2d_winograd") -> WinogradPlan:
    """The register tile and the split of the work that suit the sizes, by a model of the cost."""
    return winograd_plans(sch, target, name)[0]


def winograd_plans(
    sch: Schedule, target: Target, name: str = "conv2d_winograd"
) -> list[WinogradPlan]:
    """All splits of the work, each with the register tile that suits it, the best one first."""
    sizes = winograd_sizes(sch, name)
    lanes, threads = target.lanes(sizes.dtype), target.thread_count
    channels, filters, rows, across = sizes.channels, sizes.filters, sizes.rows, sizes.across
    samples = SAMPLES if sizes.samples is None else sizes.samples
    vectors = -(-filters // lanes)
    positions = prod(s + 2 for s in sizes.side)
    element = dtype.itemsize(sizes.dtype)
    weights = element * positions * channels * filters
    streamed = weights > target.l2_bytes
    read = READS[weights > target.l3_bytes] if streamed else 0.0
    best: list[tuple[float, WinogradPlan]] = []
    for block in [n for n in range(rows + 1) if not n or rows % n == 0]:
        count = block * across or (sizes.samples or 1) * rows * across
        tiles, width, cost = register_tile(count, vectors, Cpu(target).registers, streamed)
        held = channels + (filters if block else width * lanes)
        tiles_held = count if block else samples * rows * across
        crowded = element * positions * tiles_held * held / target.l2_bytes
        panels = -(-vectors // width)
        each = max(cost / count, read / tiles_held)
        for shares in (1, 2) if block and panels % 2 == 0 else (1,):
            tasks = samples * rows // block * shares if block else panels
            idle = -(-tasks // threads) * threads / tasks
            # By rows, tasks share rows of x, and shares transform the same; by channels, one thread
            # reads what others wrote.
            more = 0.04 / block + (shares - 1) * AGAIN / filters if block else 0.12
            factor = idle * (1.0 + more) * (1.0 + 0.1 * min(2.0, max(0.0, crowded - 0.5)))
            plan = WinogradPlan(sizes.side, across, lanes, tiles, width, block, shares)
            best.append((each * factor, plan))
    return [plan for _, plan in sorted(best, key=lambda found: found[0])]


def winograd_sizes(sch: Schedule, name: str) -> WinogradSizes:
    """The sizes of the stages of `ops.conv2d_winograd(..., name=name)`."""
    blocks = {str(block) for block in sch.get_blocks()}
    for stage in ("_strips", "_pad", "_columns", "_input", "_products", "_rows", ""):
        if name + stage not in blocks:
            raise TensorIRError(
                f"the program has no stage {name + stage!r}; make it with "
                f"ops.conv2d_winograd(..., name={name!r}), and schedule it before all else"
            )
    block = sch.state.block(f"{name}_products")
    a, b, filters, depth = (constant_size(block.iters[at], block.name) for at in (0, 1, 2, 4))
    columns = sch.state.block(f"{name}_columns")
    if [it.var.name for it in columns.iters] != ["vn", "vc", "vty", "vy", "vx"]:
        raise TensorIRError(
            f"stage {columns.name!r} has another layout already; schedule the definition"
        )
    samples = int_value(columns.iters[0].extent)
    channels, rows = (constant_size(it, columns.name) for it in columns.iters[1:3])
    across = constant_size(sch.state.block(f"{name}_rows").iters[-1], f"{name}_rows")
    if not all((channels, filters, rows, across, depth)) or samples == 0:
        raise TensorIRError(f"stage {block.name!r} is empty; there is nothing to schedule")
    store = block.body
    assert isinstance(store, Store)
    return WinogradSizes(
        (a - 2, b - 2), channels, filters, samples, rows, across, store.buffer.dtype
    )


def image_axes(sch: Schedule, strips: str) -> str:
    """The order of the dimensions of x as stage `strips` reads it, of n, c, h and w."""
    (x,) = read_by(sch, strips)
    names = {"vn": "n", "vc": "c", "vty": "h", "vy": "h", "vw": "w"}
    found = [{names[var.name] for var in variables(index)} for index in x.indices]
    return "".join(axis for (axis,) in found)


def result_axes(sch: Schedule, name: str) -> str:
    """The order of the dimensions of the result that stage `name` makes, of n, k, h and w."""
    return "".join(it.var.name.removeprefix("v") for it in sch.state.block(name).iters)
