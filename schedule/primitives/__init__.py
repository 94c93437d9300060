"""The primitives, one file each."""

from schedule.primitives.cache_read import cache_read
from schedule.primitives.cache_write import cache_write
from schedule.primitives.compute_at import compute_at
from schedule.primitives.compute_inline import compute_inline
from schedule.primitives.decompose_reduction import decompose_reduction
from schedule.primitives.fuse import fuse
from schedule.primitives.parallel import parallel
from schedule.primitives.reorder import reorder
from schedule.primitives.reverse_compute_at import reverse_compute_at
from schedule.primitives.rfactor import rfactor
from schedule.primitives.split import split
from schedule.primitives.unroll import unroll
from schedule.primitives.vectorize import vectorize

__all__ = [
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_reduction",
    "fuse",
    "parallel",
    "reorder",
    "reverse_compute_at",
    "rfactor",
    "split",
    "unroll",
    "vectorize",
]
