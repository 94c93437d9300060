"""Transforming one PrimFunc, legally: Schedule, its primitives and its trace."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.analysis.parts_read import share_read
    from schedule.analysis.shared_parts import (
        filled_windows,
        is_filled,
        operations_written_out,
        shared_parts,
    )
    from schedule.analysis.uses import needed, writers
    from schedule.debug.minimize import minimize
    from schedule.debug.validate import MiscompiledError
    from schedule.errors import Refusal, ScheduleError
    from schedule.instruction import Instruction
    from schedule.library.tensorized_matmul import TensorizedMatmul, tensorized_matmul
    from schedule.primitives import REGISTRY
    from schedule.requests.moves import LegalCall
    from schedule.schedule import Schedule
    from schedule.state import BlockRef, LoopRef
    from schedule.te.create import create_schedule
    from schedule.te.schedule import TESchedule
    from schedule.trace import Trace

__all__ = lazy_names(__name__)
