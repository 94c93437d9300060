"""The primitives, one file each."""

from schedule.primitive import REGISTRY
from schedule.primitives.add_unit_loop import add_unit_loop
from schedule.primitives.annotate import annotate
from schedule.primitives.bind import bind
from schedule.primitives.blockize import blockize
from schedule.primitives.cache_read import cache_read
from schedule.primitives.cache_value import cache_value
from schedule.primitives.cache_write import cache_write
from schedule.primitives.compute_at import compute_at
from schedule.primitives.compute_inline import compute_inline
from schedule.primitives.decompose_padding import decompose_padding
from schedule.primitives.decompose_reduction import decompose_reduction
from schedule.primitives.double_buffer import double_buffer
from schedule.primitives.fission import fission
from schedule.primitives.fuse import fuse
from schedule.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from schedule.primitives.merge import merge
from schedule.primitives.narrow import narrow
from schedule.primitives.pad_einsum import pad_einsum
from schedule.primitives.parallel import parallel
from schedule.primitives.partition import partition
from schedule.primitives.pipeline import pipeline
from schedule.primitives.prefetch import prefetch
from schedule.primitives.reassociate import reassociate
from schedule.primitives.regroup import regroup
from schedule.primitives.reindex import reindex
from schedule.primitives.reorder import reorder
from schedule.primitives.reverse_compute_at import reverse_compute_at
from schedule.primitives.reverse_compute_inline import reverse_compute_inline
from schedule.primitives.rfactor import rfactor
from schedule.primitives.rolling_buffer import rolling_buffer
from schedule.primitives.run_before import run_before
from schedule.primitives.sample_categorical import sample_categorical
from schedule.primitives.sample_compute_location import sample_compute_location
from schedule.primitives.sample_perfect_tile import sample_perfect_tile
from schedule.primitives.scatter import scatter
from schedule.primitives.set_scope import set_scope
from schedule.primitives.shift import shift
from schedule.primitives.split import split
from schedule.primitives.spread_prefetch import spread_prefetch
from schedule.primitives.storage_align import storage_align
from schedule.primitives.stream import stream
from schedule.primitives.swizzle import swizzle
from schedule.primitives.tensorize import tensorize
from schedule.primitives.transform_block_layout import transform_block_layout
from schedule.primitives.transform_layout import transform_layout
from schedule.primitives.unannotate import unannotate
from schedule.primitives.unroll import unroll
from schedule.primitives.use_algorithm import use_algorithm
from schedule.primitives.vectorize import vectorize

__all__ = [
    "REGISTRY",
    "add_unit_loop",
    "annotate",
    "bind",
    "blockize",
    "cache_read",
    "cache_value",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_padding",
    "decompose_reduction",
    "double_buffer",
    "fission",
    "fuse",
    "fuse_reduction_epilogue",
    "merge",
    "narrow",
    "pad_einsum",
    "parallel",
    "partition",
    "pipeline",
    "prefetch",
    "reassociate",
    "regroup",
    "reindex",
    "reorder",
    "reverse_compute_at",
    "reverse_compute_inline",
    "rfactor",
    "rolling_buffer",
    "run_before",
    "sample_categorical",
    "sample_compute_location",
    "sample_perfect_tile",
    "scatter",
    "set_scope",
    "shift",
    "split",
    "spread_prefetch",
    "storage_align",
    "stream",
    "swizzle",
    "tensorize",
    "transform_block_layout",
    "transform_layout",
    "unannotate",
    "unroll",
    "use_algorithm",
    "vectorize",
]
