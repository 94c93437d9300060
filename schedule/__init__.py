"""Transforming one PrimFunc, legally: Schedule, its primitives and its trace."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.analysis.parts_read import share_read as share_read
    from schedule.analysis.shared_parts import operations_written_out as operations_written_out
    from schedule.analysis.shared_parts import shared_parts as shared_parts
    from schedule.analysis.uses import needed as needed
    from schedule.analysis.uses import writers as writers
    from schedule.debug.minimize import minimize as minimize
    from schedule.debug.validate import MiscompiledError as MiscompiledError
    from schedule.errors import Refusal as Refusal
    from schedule.errors import ScheduleError as ScheduleError
    from schedule.instruction import Instruction as Instruction
    from schedule.library.tensorized_matmul import TensorizedMatmul as TensorizedMatmul
    from schedule.library.tensorized_matmul import tensorized_matmul as tensorized_matmul
    from schedule.primitive import REGISTRY as REGISTRY
    from schedule.requests.moves import LegalCall as LegalCall
    from schedule.schedule import Schedule as Schedule
    from schedule.state import BlockRef as BlockRef
    from schedule.state import LoopRef as LoopRef
    from schedule.te.create import create_schedule as create_schedule
    from schedule.te.schedule import TESchedule as TESchedule
    from schedule.trace import Trace as Trace

__all__ = lazy_names(
    __name__,
    {
        "schedule.analysis.parts_read": "share_read",
        "schedule.analysis.shared_parts": "operations_written_out shared_parts",
        "schedule.analysis.uses": "needed writers",
        "schedule.errors": "Refusal ScheduleError",
        "schedule.library.tensorized_matmul": "TensorizedMatmul tensorized_matmul",
        "schedule.debug.minimize": "minimize",
        "schedule.requests.moves": "LegalCall",
        "schedule.schedule": "REGISTRY Schedule",
        "schedule.state": "BlockRef LoopRef",
        "schedule.te.create": "create_schedule",
        "schedule.te.schedule": "TESchedule",
        "schedule.instruction": "Instruction",
        "schedule.trace": "Trace",
        "schedule.debug.validate": "MiscompiledError",
    },
)
