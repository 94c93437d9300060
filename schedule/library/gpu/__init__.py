"""Derived schedules for GPUs, written only with primitives."""

from schedule.library.gpu.matmul import Matmul, matmul

__all__ = [
    "Matmul",
    "matmul",
]
