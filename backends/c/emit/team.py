"""Teams: which statements the threads of one parallel region run together.

Starting and ending a region costs two waits of all threads for each other, a barrier inside of it
one. So a kernel with several parallel loops is one region: every thread walks through the same
statements, shares the iterations of parallel loops, and leaves what is serial to the first thread.

Four nests over 16x64 floats took 0.77 of the time of four regions, over 64x256 0.97, 63 steps of a
scan 0.87; large ones are unchanged. Loops whose bodies may fail to get memory stay regions of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorir import (
    Alloc,
    Buffer,
    Expr,
    For,
    ForKind,
    If,
    Seq,
    Stmt,
    Var,
    int_value,
    replace,
    variables,
    walk,
)

OnStack = Callable[[Buffer], bool]


@dataclass(frozen=True)
class Plan:
    """`body` computes what the program does; of it, `team` is run by all threads together."""

    body: Stmt
    team: Stmt


class _Unfit(Exception):
    """The statements cannot be run by a team."""


def plan_team(body: Stmt, sizes: Sequence[Var], on_stack: OnStack) -> Plan | None:
    """One region for a lowered program; None where it has fewer than two parallel loops to run.

    Allocations that several threads use move to the front. None as well where a thread could fail
    to get memory inside of the region, which the others would not know, and where the threads
    could decide differently, on a condition that reads memory.
    """
    if _rounds(body) < 2:
        return None
    buffers: dict[Buffer, None] = {}
    try:
        stripped = _strip(body, frozenset(sizes), on_stack, buffers)
    except _Unfit:
        return None
    stmts = stripped.stmts if isinstance(stripped, Seq) else (stripped,)
    shared = [n for n, s in enumerate(stmts) if is_shared(s)]
    first, last = shared[0], shared[-1] + 1
    team = stmts[first] if last == first + 1 else Seq(stmts[first:last])
    result: Stmt = Seq((*stmts[:first], team, *stmts[last:]))
    for buffer in buffers:
        result = Alloc(buffer, result)
    return Plan(result, team)


def is_shared(s: Stmt) -> bool:
    """Whether threads have something to share in `s`."""
    return any(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in walk(s))


def _allocated(s: Stmt) -> list[Buffer]:
    return [node.buffer for node in walk(s) if isinstance(node, Alloc)]


def is_uniform(e: Expr) -> bool:
    """Whether all threads find the same value: memory may have changed in between."""
    return not e.has_loads


def _rounds(s: Stmt) -> int:
    """How many parallel loops are run one after the other; a loop around one counts as two."""
    if isinstance(s, For):
        if s.kind is ForKind.PARALLEL:
            return 1
        return 2 * _rounds(s.body) if int_value(s.extent) != 1 else _rounds(s.body)
    if isinstance(s, Seq):
        return sum(map(_rounds, s.stmts))
    if isinstance(s, Alloc):
        return _rounds(s.body)
    if isinstance(s, If):
        return max(_rounds(s.then), 0 if s.orelse is None else _rounds(s.orelse))
    return 0


def _strip(s: Stmt, known: frozenset[Var], on_stack: OnStack, buffers: dict[Buffer, None]) -> Stmt:
    """`s` without the allocations that are not inside of one thread's part; `buffers` has them."""
    if not is_shared(s) and all(map(on_stack, _allocated(s))):
        return s  # a copy of it, from a loop that was cut, may use the same names
    if isinstance(s, Alloc):
        if any(not variables(dim) <= known for dim in s.buffer.shape):
            raise _Unfit
        buffers[s.buffer] = None
        return _strip(s.body, known, on_stack, buffers)
    if isinstance(s, Seq):
        parts: list[Stmt] = []
        for child in s.stmts:
            part = _strip(child, known, on_stack, buffers)
            parts += part.stmts if isinstance(part, Seq) else [part]
        return Seq(tuple(parts))
    if not is_shared(s) or isinstance(s, For) and s.kind is ForKind.PARALLEL:
        if not all(map(on_stack, _allocated(s))):
            raise _Unfit
        return s
    if isinstance(s, For) and s.kind is ForKind.SERIAL and is_uniform(s.extent):
        return replace(s, body=_strip(s.body, known, on_stack, buffers))
    if isinstance(s, If) and is_uniform(s.cond):
        then = _strip(s.then, known, on_stack, buffers)
        orelse = None if s.orelse is None else _strip(s.orelse, known, on_stack, buffers)
        return replace(s, then=then, orelse=orelse)
    raise _Unfit
