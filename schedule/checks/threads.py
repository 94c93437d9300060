"""What threads of a GPU allow, asked of every program that a primitive makes.

The rules are those of tensorir/verifier/thread_loops.py, which hold for programs from texts too.
"""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State
from tensorir import ForKind, thread_fault


def thread_conflict(state: State) -> Illegal | None:
    """Why threads cannot run the program as it is; None if they can, or if there are none."""
    if ForKind.THREAD not in state.kinds:
        return None
    fault = thread_fault(state.func)
    return fault and Illegal(*fault)
