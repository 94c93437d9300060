"""Copies of what is computed in the nest of its readers: tiles on their way to registers."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.coverage import covered
from schedule.errors import require
from schedule.rewrite.placement import (
    accesses_of,
    child_of,
    fresh_loops,
    insert,
    names_in,
    touched_region,
)
from schedule.state import State, nest
from tensorir import Block, Buffer, For, ForKind, Interval, Stmt, blocks


def copy_inside(
    state: State,
    changed: State,
    copying: Stmt,
    source: Buffer,
    copy: Buffer,
    users: Sequence[str],
    makers: Sequence[str],
) -> State:
    """`changed`, in which `users` read `copy` and not `source`, with a copy of what they read.

    `copying` is the nest that copies all of `source`, which `makers`, in the nest of the users,
    write in `state`.
    """
    home, place = _home(state, source, users, makers, copy.scope)
    reads = accesses_of(state, set(users), source, writes=False)
    region = touched_region(state, place, reads, users[0])
    placed = _inside(changed, copying, users, region, place.name)
    require(
        covered(placed, source, placed.loop(home.name), trusting=False),
        home.name,
        f"an iteration of loop {home.name!r} is not known to write all of what it reads of "
        f"{source.name!r}",
        "cache_read before compute_at or reverse_compute_at",
    )
    return placed


def _home(
    state: State, source: Buffer, users: Sequence[str], makers: Sequence[str], scope: str
) -> tuple[For, For]:
    """The innermost loop around the blocks that write and read `source`, and the loop in which the
    copy is put."""
    around = [f for f in state.loops_around(users[0]) if {*users, *makers} <= names_in(f)]
    writer = makers[-1]
    require(
        bool(around),
        users[0],
        f"block {writer!r} writes {source.name!r} in the same nest, and no loop is around it and "
        "all readers",
        "cache_read before compute_at or reverse_compute_at",
    )
    home = around[-1]
    parts = child_of(home)
    first = min(n for n, part in enumerate(parts) if names_in(part) & {*users})
    last = max(n for n, part in enumerate(parts) if names_in(part) & {*makers})
    require(
        last < first and "pipeline" not in home.annotations,
        users[0],
        f"block {writer!r} writes {source.name!r} in the same nest, and not in a statement of loop "
        f"{home.name!r} before all readers, or that loop is a pipeline",
        "cache_read before compute_at, reverse_compute_at or pipeline",
    )
    place = home
    if scope == "local":
        shared = [f for f in state.loops_around(users[0]) if {*users} <= names_in(f)]
        inner = shared[shared.index(home) + 1 :]
        place = ([home, *[f for f in inner if f.kind is ForKind.THREAD]])[-1]
    return home, place


def _inside(
    state: State, copying: Stmt, users: Sequence[str], region: Sequence[Interval], loop: str
) -> State:
    """The copy, of a region, put into a loop before the first of its readers there."""
    (whole,) = blocks(copying)
    assert isinstance(whole, Block)
    target = state.loop(loop)
    position = min(n for n, s in enumerate(child_of(target)) if names_in(s) & {*users})
    ranges = {it.var: part for it, part in zip(whole.iters, region)}
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    loops, moved = fresh_loops(state, whole, ranges, [], analyzer)
    return state.replace(state.loop_path(loop), insert(target, position, nest(loops, moved)))
