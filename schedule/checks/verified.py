"""The last check of rewrites that change index expressions: that they stay provably in range."""

from __future__ import annotations

from schedule.errors import Illegal
from schedule.state import State, replace_func
from tensorir import VerifyError, check_ranges, seq


def require_verified(before: State, after: State, where: str, what: str) -> State:
    """`after` itself; refuses one of which accesses are not provably inside their buffers in what
    the step made.

    They are inside, since the rewrite keeps the elements; but a verifier that cannot see it would
    reject the program later, where nobody knows the step at fault. Of what else a program has to be
    the rewrite changes nothing.
    """
    why = not_verified(before, after)
    if why is not None:
        raise Illegal(where, f"{what} cannot be verified: {why}")
    return after


def not_verified(before: State, after: State) -> str | None:
    """Which access is not provably inside of its buffer in the nests that are others than `before`;
    None where all are."""
    made = [nest.stmt for nest in after.nests_beside(before)]
    try:
        check_ranges(replace_func(after.func, body=seq(*made)))
    except VerifyError as error:
        return str(error)
    return None
