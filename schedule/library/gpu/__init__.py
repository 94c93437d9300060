"""Derived schedules for GPUs, written only with primitives."""

from schedule.library.gpu.matmul import Matmul, matmul
from schedule.library.gpu.reduction import (
    column_reduction,
    row_reduction,
    softmax,
    split_reduction,
)
from schedule.library.gpu.transpose import transpose

__all__ = [
    "Matmul",
    "column_reduction",
    "matmul",
    "row_reduction",
    "softmax",
    "split_reduction",
    "transpose",
]
