"""Transforming one PrimFunc, legally: Schedule, its primitives and its trace."""

from schedule.errors import ScheduleError
from schedule.minimize import minimize
from schedule.moves import Move
from schedule.primitive import REGISTRY
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from schedule.te_schedule import TESchedule, create_schedule
from schedule.trace import Instruction, Trace
from schedule.validate import MiscompiledError

__all__ = [
    "REGISTRY",
    "BlockRef",
    "Instruction",
    "LoopRef",
    "MiscompiledError",
    "Move",
    "Schedule",
    "ScheduleError",
    "TESchedule",
    "Trace",
    "create_schedule",
    "minimize",
]
