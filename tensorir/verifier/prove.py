"""What has to hold of a program before it is scheduled or lowered.

A Schedule asks for it once per program, and primitives keep it; `build` asks for it where there was
no Schedule, and of a scheduled program it proves the ranges again.
"""

from __future__ import annotations

from functools import lru_cache

from tensorir.annotations import checked
from tensorir.func import PrimFunc

PROOFS = 64
"""Programs whose proof is remembered: schedules of one program are made by the thousand."""


@checked
@lru_cache(maxsize=PROOFS)
def prove(func: PrimFunc) -> None:
    """Raise VerifyError, naming the thing, unless everything that schedules and backends rely on
    is proved of `func`, wherever it comes from.

    Beyond what `verify` asks of any program, lowered ones included: accesses outside of blocks are
    provably in range too, iterations that run at once are independent, and hints are what
    primitives would have made.
    """
    from tensorir.verifier.hints import check_hints
    from tensorir.verifier.loops import check_loops
    from tensorir.verifier.program import verify
    from tensorir.verifier.ranges import check_ranges

    verify(func)
    check_ranges(func, everywhere=True)
    check_hints(func)
    check_loops(func)
