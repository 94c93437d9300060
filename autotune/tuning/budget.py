"""When a search ends: after so many trials or seconds, or where something is reached."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.arguments import integer, number
from tensorir import TensorIRError

if TYPE_CHECKING:
    from autotune.tuning.session import Session

TRIALS = 64
"""Trials where nothing else says when to end."""

CONVERGED = "converged"
ROOFLINE = r"\s*(\d+(?:\.\d+)?)\s*% of roofline\s*"


@dataclass(frozen=True)
class Budget:
    """A search ends at whichever comes first.

    trials    distinct candidates, those in the database counted; None: as many as it takes
    seconds   after which no further batch is begun
    roofline  the share of what bounds the function on this machine that is enough; 0: any is not
    converged whether it ends where nothing is expected to be gained
    """

    trials: int | None = TRIALS
    seconds: float = math.inf
    roofline: float = 0.0
    converged: bool = False

    @staticmethod
    def of(trials: object, seconds: object, until: object) -> Budget:
        """The budget of these arguments of `tune`; TensorIRError for one that is none.

        trials   None: 64, or as many as it takes where one of the others is given
        seconds  None: no limit
        until    None, "converged", or "95% of roofline" with any share
        """
        limit = math.inf if seconds is None else number("seconds", seconds, 0)
        match = re.fullmatch(ROOFLINE, until) if isinstance(until, str) else None
        share = float(match[1]) / 100 if match else 0.0
        if until is not None and until != CONVERGED and not 0 < share <= 1:
            raise TensorIRError(
                f"until is {until!r}; it is 'converged', or a share such as '95% of roofline'"
            )
        if trials is None:
            count = TRIALS if seconds is None and until is None else None
        else:
            count = integer("trials", trials, 1)
        return Budget(count, limit, share, until == CONVERGED)

    def left(self, session: Session) -> float:
        """How many trials more it allows."""
        return math.inf if self.trials is None else self.trials - session.trials

    def reached(self, session: Session) -> str:
        """What of it is reached, seconds left out, in words; "" for nothing yet."""
        if self.left(session) <= 0:
            return f"{session.trials} trials"
        best = session.state.best_seconds()
        if self.roofline:  # asked before the first trial too, for the error
            from autotune.calibration.roofline import share_of_peak

            share = share_of_peak(session.func, best or 1.0, session.target)
            if share is None:
                raise TensorIRError(
                    f"{session.func.name!r} has no roofline on {str(session.target)!r}: no peak is "
                    "known for its work or type; give trials= or until='converged'"
                )
            if best is not None and share.share >= self.roofline:
                return f"{share.share:.0%} of roofline"
        if self.converged:
            from autotune.search.convergence import has_converged

            if has_converged(session.state.measured.values()):
                return "converged: the last half of the trials gained less than 1 %"
        return ""
