"""Transforming one PrimFunc, legally: Schedule, its primitives and its trace."""

from schedule.errors import ScheduleError
from schedule.primitive import REGISTRY
from schedule.schedule import Schedule
from schedule.state import BlockRef, LoopRef
from schedule.trace import Instruction, Trace

__all__ = [
    "REGISTRY",
    "BlockRef",
    "Instruction",
    "LoopRef",
    "Schedule",
    "ScheduleError",
    "Trace",
]
