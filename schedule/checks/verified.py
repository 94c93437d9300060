"""The last check of rewrites that change index expressions: that they stay provably in range."""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State
from tensorir import VerifyError, check_ranges


def require_verified(state: State, where: str, what: str) -> State:
    """`state` itself; refuses one whose accesses are not all provably inside their buffers.

    They are inside, since the rewrite keeps the elements; but a verifier that cannot see it would
    reject the program later, where nobody knows the step at fault. Of what else a program has to be
    the rewrite changes nothing.
    """
    why = not_verified(state)
    if why is not None:
        raise Illegal(where, f"{what} cannot be verified: {why}")
    return state


def not_verified(state: State) -> str | None:
    """Which access is not provably inside of its buffer; None where all are."""
    try:
        check_ranges(state.func)
    except VerifyError as error:
        return str(error)
    return None
