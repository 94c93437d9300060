"""Lowering: from loops and blocks to the plain loops over flat memory that backends print."""

from tensorir.passes.double_buffers import double_buffers
from tensorir.passes.facts.lifetimes import keeps_to_itself
from tensorir.passes.flatten_buffers import flatten_buffers
from tensorir.passes.fold_buffers import fold_buffers
from tensorir.passes.lower import lower
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.lower_prefetch import lower_prefetch, prefetch_region
from tensorir.passes.partition_loops import partition_loops
from tensorir.passes.place_buffers import place_buffers
from tensorir.passes.simplify import simplify
from tensorir.passes.specialize import specialize
from tensorir.passes.split_constants import SplitFunc, check_constants, split_constants
from tensorir.passes.spread_prefetch import part_of, requests, spread_prefetch
from tensorir.passes.unroll import unroll
from tensorir.passes.vectors.unroll_registers import unroll_registers
from tensorir.passes.vectors.vector_locals import vector_locals
from tensorir.passes.vectors.vectorize import vectorize

__all__ = [
    "SplitFunc",
    "check_constants",
    "part_of",
    "double_buffers",
    "flatten_buffers",
    "fold_buffers",
    "keeps_to_itself",
    "lower",
    "lower_blocks",
    "lower_init",
    "lower_prefetch",
    "partition_loops",
    "place_buffers",
    "prefetch_region",
    "requests",
    "simplify",
    "specialize",
    "split_constants",
    "spread_prefetch",
    "unroll",
    "unroll_registers",
    "vector_locals",
    "vectorize",
]
