"""Features: one row of numbers for a scheduled program, relative to the machine it is meant for.

They describe the heaviest block, the anchor, and sum over the other blocks. Most are log2 of a
ratio, so that 0 means "just fits", "exactly once" or "one for each core". Extracted from the
scheduled program before lowering; nothing is built or run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.features.footprint import (
    UNDIVIDED,
    Reach,
    fit_level,
    held_bytes,
    homes,
    reaches,
    spatial_product,
    traffic,
    working_set,
)
from autotune.features.lanes import lane_loads, stride_class
from autotune.features.nest import Access, BlockNest, nests
from autotune.features.table import FEATURES
from tensorir import (
    Buffer,
    Cpu,
    ForKind,
    PrimFunc,
    Target,
    TensorIRError,
    dtype,
    split_constants,
)

if TYPE_CHECKING:
    from schedule import Schedule

PAGE = 4096
"""Bytes of a memory page, and the row distance at which rows compete for the sets of an L1."""


@dataclass(slots=True)
class _Analysed:
    """A block with what is asked of it more than once."""

    nest: BlockNest
    touched: list[Reach]
    lanes: int
    vector: int | None
    """Depth of the innermost vectorized loop."""
    tile: int
    """Depth of the first loop of the register tile."""

    @property
    def chunks(self) -> int:
        """Vector registers that the vectorized loop fills."""
        return 1 if self.vector is None else ceil(self.nest.loops[self.vector].extent / self.lanes)

    @property
    def vector_use(self) -> float:
        if self.vector is None:
            return 1 / self.lanes
        return self.nest.loops[self.vector].extent / (self.chunks * self.lanes)

    @property
    def vector_ops(self) -> float:
        """Operations of all instances, counted in vector instructions."""
        return self.nest.instances * max(self.nest.ops, 1) / (self.lanes * self.vector_use)


def extract(func: PrimFunc, machine: Target) -> np.ndarray:
    """The features of a scheduled, not yet lowered program: float32, one value per column.

    `machine` is a resolved target. Raises TensorIRError for a program that stores nothing.
    """
    found = nests(func)
    home = homes(func, found)
    blocks = [_analyse(nest, home, machine) for nest in found if nest.accesses]
    if not blocks:
        raise TensorIRError(f"{func.name!r} has no block that stores anything; it has no features")
    anchor = max(blocks, key=lambda b: b.nest.instances * max(b.nest.ops, 1))
    others = [block for block in blocks if block is not anchor]
    row = _of_block(anchor, machine) | _code(anchor, blocks)
    row.update(_others(anchor, others, machine, home))
    return np.array([row[name] for name in FEATURES], dtype=np.float32)


def block_features(nest: BlockNest, home: dict[Buffer, int], machine: Target) -> dict[str, float]:
    """The features of one block, but for those that compare it with the others."""
    block = _analyse(nest, home, machine)
    return _of_block(block, machine) | _code(block, [block])


def _of_block(block: _Analysed, machine: Target) -> dict[str, float]:
    row: dict[str, float] = {}
    for group in (_work, _vector, _registers, _caches, _parallel):
        row.update(group(block, machine))
    return row


def extractor(machine: Target, constants: Collection[str] = ()) -> Callable[[Schedule], np.ndarray]:
    """`extract` for one machine, as a function of a schedule: of what is timed of it. Those of GPUs
    have features of their own (`autotune.gpu.features`)."""
    found = extract
    if machine.on_gpu:
        from autotune.gpu.features import extract as found

    def features(schedule: Schedule) -> np.ndarray:
        return found(split_constants(schedule.func, constants).main, machine)

    return features


def _analyse(nest: BlockNest, home: dict[Buffer, int], machine: Target) -> _Analysed:
    # The widest type decides how many elements go into a register.
    widest = max((access.buffer.dtype for access in nest.accesses), key=dtype.itemsize)
    kinds = [loop.kind for loop in nest.loops]
    vectors = [depth for depth, kind in enumerate(kinds) if kind is ForKind.VECTORIZED]
    lanes = machine.lanes(widest)
    vector = vectors[-1] if vectors else None
    return _Analysed(nest, reaches(nest, home), lanes, vector, _tile_depth(nest))


def _tile_depth(nest: BlockNest) -> int:
    """Below the innermost serial reduction; without one, the unrolled and vectorized loops."""
    serial = [d for d, loop in enumerate(nest.loops) if loop.kind not in UNDIVIDED]
    reduce = [d for d in serial if d in nest.reduce]
    return (reduce or serial or [-1])[-1] + 1


def _lg(x: float) -> float:
    return log2(x) if x > 0 else 0.0


def _work(block: _Analysed, machine: Target) -> dict[str, float]:
    nest = block.nest
    return {
        "flops": _lg(nest.flops),
        "waste": _lg(nest.instances / nest.useful),
        "intensity": _lg(nest.flops / working_set(block.touched, 0)),
        "lanes": _lg(block.lanes),
        "cores": _lg(machine.thread_count),
    }


def _vector(block: _Analysed, machine: Target) -> dict[str, float]:
    nest, vector = block.nest, block.vector
    depth = len(nest.loops) - 1 if vector is None else vector
    read = [access for access in nest.accesses if not access.store]
    loads = [stride_class(access, depth) for access in read]
    gathered = [_lane_loads(block, a) for a, kind in zip(read, loads) if kind == 2]
    stores = [stride_class(a, depth) for a in nest.accesses if a.store]
    return {
        "vector_extent": 0.0 if vector is None else _lg(nest.loops[vector].extent),
        "vector_chunks": _lg(block.chunks),
        "vector_use": _lg(block.vector_use),
        "vector_broadcasts": loads.count(0),
        "vector_contiguous": loads.count(1),
        "vector_strided": sum(gathered) / (1 if vector is None else nest.loops[vector].extent),
        "vector_store_strided": float(2 in stores),
        "vector_reduction": float(vector is not None and vector in nest.reduce),
        "vector_guarded": float(vector is not None and vector in nest.guard),
    }


def _registers(block: _Analysed, machine: Target) -> dict[str, float]:
    nest = block.nest
    inside = range(block.tile, len(nest.loops))
    written_out = [d for d in inside if nest.loops[d].kind in UNDIVIDED]
    serial = [d for d in inside if nest.loops[d].kind not in UNDIVIDED]
    unrolled = [d for d, loop in enumerate(nest.loops) if loop.kind is ForKind.UNROLLED]
    accumulators = _vectors(block, [d for d in written_out if d not in nest.reduce])
    total = _vectors(block, written_out)
    stored = {a.buffer for a in nest.accesses if a.store}
    loads = 0.0
    for access in nest.accesses:
        if access.buffer not in stored:
            loads += _vectors(block, written_out, access)
    run = _reduce_run(nest, block.tile)
    # One side of the tile is held in registers, the other passes through one.
    live = accumulators + min(block.chunks, accumulators / block.chunks) + 1
    return {
        "accumulators": _lg(accumulators),
        "register_pressure": _lg(live / Cpu(machine).registers),
        "loads_per_op": _lg(loads / total),
        "memory_accumulators": _lg(spatial_product(nest, serial)) if nest.reduce else 0.0,
        "unrolled": _lg(prod([nest.loops[d].extent for d in unrolled])),
        "inner_extent": _lg(nest.loops[block.tile - 1].extent) if block.tile else 0.0,
        "reduce_run": _lg(prod([nest.loops[d].extent for d in run])),
        "reduce_total": _lg(prod([nest.loops[d].extent for d in nest.reduce])),
        "result_local": float(any(buffer.scope == "local" for buffer in stored)),
    }


def _vectors(block: _Analysed, depths: Sequence[int], access: Access | None = None) -> float:
    """Vector registers (for an access: vector loads) of the loops at `depths`, written out."""
    count = 1.0
    for depth in depths:
        if access is not None and stride_class(access, depth) == 0:
            continue
        if depth != block.vector:
            count *= block.nest.loops[depth].extent
        else:
            count *= block.chunks if access is None else _lane_loads(block, access)
    return count


def _lane_loads(block: _Analysed, access: Access) -> float:
    """The loads that fill the vectors of the vectorized loop; one without such a loop."""
    if block.vector is None:
        return 1.0
    size = block.nest.loops[block.vector].extent
    return float(lane_loads(access, block.vector, size, size, block.lanes))


def _reduce_run(nest: BlockNest, tile: int) -> list[int]:
    """The reduction loops that run without leaving the register tile."""
    start = tile
    while start > 0 and (start - 1 in nest.reduce or nest.loops[start - 1].extent == 1):
        start -= 1
    return [depth for depth in range(start, len(nest.loops)) if depth in nest.reduce]


def _cache_bytes(machine: Target) -> tuple[int, int, int]:
    return machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes


def _caches(block: _Analysed, machine: Target) -> dict[str, float]:
    nest, depth = block.nest, len(block.nest.loops)
    row: dict[str, float] = {}
    for number, size in enumerate(_cache_bytes(machine), 1):
        level = fit_level(block.touched, number, size, depth)
        row[f"traffic_l{number}"] = _lg(traffic(nest, block.touched, level) / nest.flops)
        row[f"reuse_l{number}"] = _lg(prod([loop.extent for loop in nest.loops[level:]]))
    run = _reduce_run(nest, block.tile)
    level = run[0] if run else min(block.tile, depth)
    parallel = [d for d, loop in enumerate(nest.loops) if _concurrent(loop.kind, loop.thread)]
    l1, l2, l3 = _cache_bytes(machine)
    row["tile_bytes"] = _lg(working_set(block.touched, level) / l1)
    row["task_bytes"] = _lg(working_set(block.touched, parallel[-1] + 1 if parallel else 0) / l2)
    row["total_bytes"] = _lg(working_set(block.touched, 0) / l3)
    pages = 0
    conflicts = 1
    for reach in block.touched:
        rows, distance = reach.rows[level], reach.row_distance
        pages += max(rows if distance >= PAGE else 0, ceil(reach.below[level] / PAGE))
        if distance and distance % PAGE == 0:
            conflicts = max(conflicts, rows)
    row["pages"] = _lg(pages)
    row["conflicts"] = _lg(conflicts)
    return row


def _concurrent(kind: ForKind, thread: str | None) -> bool:
    return kind is ForKind.PARALLEL or (kind is ForKind.THREAD and "block" in (thread or ""))


def _parallel(block: _Analysed, machine: Target) -> dict[str, float]:
    loops = block.nest.loops
    parallel = [d for d, loop in enumerate(loops) if _concurrent(loop.kind, loop.thread)]
    tasks = prod([loops[d].extent for d in parallel])
    regions = prod([loop.extent for loop in loops[: parallel[0]]]) if parallel else 1
    threads = [loop.extent for loop in loops if loop.kind is ForKind.THREAD]
    load = tasks / machine.thread_count
    return {
        "tasks": _lg(load),
        "imbalance": _lg(ceil(load) / load),
        "task_flops": _lg(block.nest.flops / (tasks * regions)),
        "regions": _lg(regions),
        "threads": _lg(prod(threads)),
    }


def _code(anchor: _Analysed, blocks: Sequence[_Analysed]) -> dict[str, float]:
    nest = anchor.nest
    written = 0.0
    for block in blocks:
        loops = block.nest.loops
        depths = [d for d, loop in enumerate(loops) if loop.kind in UNDIVIDED]
        written += _vectors(block, depths) * max(block.nest.ops, 1)
    return {
        "code_size": _lg(written),
        "loops": sum([loop.extent > 1 for loop in nest.loops]),
        "guarded": float(bool(nest.guard)),
        "guard_inside": float(any(depth >= anchor.tile for depth in nest.guard)),
        "selects": float(nest.selects),
    }


def _others(
    anchor: _Analysed, others: Sequence[_Analysed], machine: Target, home: dict[Buffer, int]
) -> dict[str, float]:
    total = working_set(anchor.touched, 0)
    fetched = copied = strided = 0.0
    for block in others:
        level = fit_level(block.touched, 2, machine.l2_bytes, len(block.nest.loops))
        fetched += traffic(block.nest, block.touched, level)
        if block.nest.ops == 0:
            stored = _stored_bytes(block)
            copied += stored
            strided += stored if _gathers(block) else 0.0
    instances = sum([block.nest.instances for block in others])
    needed = sum([block.nest.useful for block in others])
    held = {"local": 0, "other": 0}
    for block in (anchor, *others):
        local = {buffer: at for buffer, at in home.items() if buffer.scope == "local"}
        other = {buffer: at for buffer, at in home.items() if buffer.scope != "local"}
        held["local"] += held_bytes(block.nest, block.touched, local)
        held["other"] += held_bytes(block.nest, block.touched, other)
    return {
        "blocks": len(others) + 1,
        "other_flops": _lg(1 + sum([b.nest.flops for b in others]) / anchor.nest.flops),
        "other_time": _lg(1 + sum([b.vector_ops for b in others]) / anchor.vector_ops),
        "other_waste": _lg(instances / needed) if needed else 0.0,
        "other_traffic": _lg(1 + fetched / total),
        "copied": _lg(1 + copied / total),
        "copied_strided": strided / copied if copied else 0.0,
        "local_bytes": _lg(1 + held["local"]),
        "scratch_bytes": _lg(1 + held["other"]),
    }


def _stored_bytes(block: _Analysed) -> int:
    stores = [access for access in block.nest.accesses if access.store]
    return block.nest.instances * sum([dtype.itemsize(access.buffer.dtype) for access in stores])


def _gathers(block: _Analysed) -> bool:
    depth = len(block.nest.loops) - 1 if block.vector is None else block.vector
    return any(stride_class(access, depth) == 2 for access in block.nest.accesses)
