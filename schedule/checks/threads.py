"""What threads of a GPU allow, asked of every program that a primitive makes.

The rules are those of tensorir/verifier/thread_loops.py, which hold for programs from texts too.
"""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State
from tensorir import ForKind, thread_fault


def thread_conflict(before: State, after: State) -> Illegal | None:
    """Why threads cannot run the program that a step has made; None if they can, or if there are
    none. What kernels that are as they were `before` share with each other, they may."""
    if ForKind.THREAD not in after.kinds:
        return None
    fault = thread_fault(after.func, before.func)
    return fault and Illegal(*fault)
