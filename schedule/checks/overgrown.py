"""Expressions that a step made too large, as by inlining one stage more into a long chain."""

from __future__ import annotations

from schedule.checks.changed import Changed
from schedule.errors import Illegal
from tensorir import stmt_exprs, too_large, walk


def overgrown(changed: Changed) -> Illegal | None:
    """Why the body of a block is too large that was changed; None if there is none."""
    kept = {block.body for block in changed.old}
    for block in changed.new:
        for stmt in walk(block.body) if block.body not in kept else ():
            problem = too_large(stmt_exprs(stmt))
            if problem is not None:
                return Illegal(block.name, f"afterwards {problem}")
    return None
