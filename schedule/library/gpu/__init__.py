"""Derived schedules for GPUs, written only with primitives."""

from schedule.library.gpu.columns import Columns, columns
from schedule.library.gpu.elementwise import Elementwise, elementwise
from schedule.library.gpu.matmul import Matmul, matmul
from schedule.library.gpu.rows import Rows, rows
from schedule.library.gpu.transpose import Transpose, transpose
from schedule.library.gpu.whole import Whole, whole

__all__ = [
    "Columns",
    "Elementwise",
    "Matmul",
    "Rows",
    "Transpose",
    "Whole",
    "columns",
    "elementwise",
    "matmul",
    "rows",
    "transpose",
    "whole",
]
