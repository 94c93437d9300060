"""The table of features: what each number of a row says of a scheduled program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FEATURE_SCHEMA = 2
"""Version of the columns: rows of another version are not comparable."""

TABLE: tuple[tuple[str, str], ...] = (
    # work
    ("flops", "log2 operations of the anchor, each needed instance once"),
    ("waste", "log2 instances of the anchor / needed instances (padding, recomputation)"),
    ("intensity", "log2 operations / bytes of all that the anchor touches"),
    ("lanes", "log2 elements in a vector register"),
    ("cores", "log2 cores"),
    # the vectorized loop; without one, the innermost loop stands for it where marked *
    ("vector_extent", "log2 extent of the vectorized loop; 0 without one"),
    ("vector_chunks", "log2 vector registers that its extent fills"),
    ("vector_use", "log2 share of the lanes that do work; -lanes without a vectorized loop"),
    ("vector_broadcasts", "loads that do not move with it *"),
    ("vector_contiguous", "loads that move to the next element with it *"),
    ("vector_strided", "loads that move otherwise with it: gathers, by loads for each element *"),
    ("vector_store_strided", "1 if the store moves otherwise with it *"),
    ("vector_reduction", "1 if it drives a reduction"),
    ("vector_guarded", "1 if the predicate depends on it"),
    # the register tile: the loops below the innermost serial reduction
    ("accumulators", "log2 vectors that are accumulated (computed, without reduction) at once"),
    ("register_pressure", "log2 vectors live in the register tile / vector registers"),
    ("loads_per_op", "log2 vector loads / vector operations of the register tile"),
    ("memory_accumulators", "log2 trips of serial spatial loops below the reduction"),
    ("unrolled", "log2 product of the unrolled loops"),
    ("inner_extent", "log2 extent of the loop around the register tile"),
    ("reduce_run", "log2 accumulations before the result is written back"),
    ("reduce_total", "log2 accumulations in all"),
    ("result_local", "1 if the anchor stores to a buffer of scope local"),
    # caches
    ("traffic_l1", "log2 bytes fetched into L1 / operations"),
    ("traffic_l2", "log2 bytes fetched into L2 / operations"),
    ("traffic_l3", "log2 bytes fetched into L3 / operations"),
    ("reuse_l1", "log2 instances of the block that stays in L1"),
    ("reuse_l2", "log2 instances of the block that stays in L2"),
    ("reuse_l3", "log2 instances of the block that stays in L3"),
    ("tile_bytes", "log2 bytes below the innermost run of reductions / L1"),
    ("task_bytes", "log2 bytes of one parallel task / L2"),
    ("total_bytes", "log2 bytes of all that the anchor touches / L3"),
    ("pages", "log2 pages touched below the innermost run of reductions"),
    ("conflicts", "log2 rows of that tile that lie a multiple of a page apart"),
    # parallelism
    ("tasks", "log2 iterations of the parallel loops / cores"),
    ("imbalance", "log2 time of the busiest core / mean; log2 cores without a parallel loop"),
    ("task_flops", "log2 operations of one parallel task"),
    ("regions", "log2 number of times that the parallel loop is entered"),
    ("threads", "log2 product of the thread loops (GPU)"),
    # code
    ("code_size", "log2 vector operations written out in the code, over all blocks"),
    ("loops", "loops around the anchor with more than one iteration"),
    ("guarded", "1 if the anchor has a predicate"),
    ("guard_inside", "1 if the predicate depends on a loop of the register tile"),
    ("selects", "1 if the anchor's value has a condition, such as that of padding"),
    # the other blocks
    ("blocks", "number of blocks"),
    ("other_flops", "log2 1 + their operations / the anchor's"),
    ("other_time", "log2 1 + their vector operations / the anchor's"),
    ("other_waste", "log2 their instances / needed instances"),
    ("other_traffic", "log2 1 + bytes they fetch into L2 / bytes the anchor touches"),
    ("copied", "log2 1 + bytes stored by copies / bytes the anchor touches"),
    ("copied_strided", "share of the copied bytes that are gathered or scattered"),
    ("local_bytes", "log2 1 + bytes of local intermediates"),
    ("scratch_bytes", "log2 1 + bytes of other intermediates"),
)
"""Name and meaning of each column."""

FEATURES: tuple[str, ...] = tuple(name for name, _ in TABLE)
"""The names of the columns."""

COLUMN = {name: at for at, name in enumerate(FEATURES)}
"""The position of each column."""


def describe(row: np.ndarray, select: Callable[[str], bool] = lambda name: True) -> str:
    """A table of a row: name, value and meaning of each column that `select` accepts."""
    lines = [
        f"{name:22} {value:9.3f}  {meaning}"
        for (name, meaning), value in zip(TABLE, row)
        if select(name)
    ]
    return "\n".join(lines)
