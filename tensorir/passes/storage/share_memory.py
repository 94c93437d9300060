"""share_memory: intermediates take the memory of others that are not needed any more.

A greedy register allocation over the statements of a program, as TVM's storage_rewrite and XLA's
buffer assignment do: of six convolutions in a row each result would have memory of its own, and
two arrays are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import const, int_value
from tensorir.func import PrimFunc
from tensorir.parts import buffers_in, replace_buffers
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Seq, Stmt, seq
from tensorir.visit import map_children, walk


@dataclass
class _Memory:
    """What some buffers have one after the other: `size` elements, after statement `last`."""

    size: int
    last: int
    users: list[Buffer] = field(default_factory=list)


def share_memory(func: PrimFunc, least: int) -> PrimFunc:
    """Let buffers of more than `least` bytes, of one type, share memory where the last statement
    that uses one comes before the first that uses the next.

    rewrite:
        with alloc(T, f32[9000]):             with alloc(T, f32[9000]):
            with alloc(U, f32[9000]):             with alloc(U, f32[9000]):
                with alloc(V, f32[9000]):             for i in range(9000):
                    for i in range(9000):                 T[i] = A[i]
                        T[i] = A[i]                   for i in range(9000):
                    for i in range(9000):     ->          U[i] = T[8999 - i]
                        U[i] = T[8999 - i]            for i in range(9000):
                    for i in range(9000):                 T[i] = U[i // 2]
                        V[i] = U[i // 2]              for i in range(9000):
                    for i in range(9000):                 C[i] = T[8999 - i]
                        C[i] = V[8999 - i]

    Requires flatten_buffers.
    """
    if not any(isinstance(s, Alloc) for s in walk(func.body)):
        return func
    return with_body(func, _visit(func.body, least))


def _visit(stmt: Stmt, least: int) -> Stmt:
    """`stmt`, where what is allocated around statements one after the other shares memory."""
    if not isinstance(stmt, (Alloc, Seq)):
        return map_children(stmt, lambda child: _visit(child, least))
    homes: dict[Buffer, Buffer] = {}
    for memory in _memories(stmt, least):
        first, *others = memory.users
        home = Buffer(first.name, (const(memory.size),), first.dtype, first.scope)
        homes |= dict.fromkeys(memory.users, home) if others else {}
    body = replace_buffers(_without(stmt, homes, least), homes)
    for home in dict.fromkeys(homes.values()):
        body = Alloc(home, body)
    return body


def _memories(stmt: Stmt, least: int) -> list[_Memory]:
    """Memory for the large buffers, each the one that fits best of those that are free then."""
    allocs = [s.buffer for s in _one_by_one(stmt) if isinstance(s, Alloc)]
    used = [buffers_in(s) for s in _one_by_one(stmt) if not isinstance(s, Alloc)]
    spans: list[tuple[int, int, int, Buffer]] = []
    for buffer in allocs:
        at = [n for n, found in enumerate(used) if buffer in found]
        size = int_value(buffer.shape[0])
        if at and size is not None and size * dt.itemsize(buffer.dtype) > least:
            spans.append((at[0], at[-1], size, buffer))
    kinds: dict[tuple[str, str], list[_Memory]] = {}
    for first, last, size, buffer in sorted(spans, key=lambda span: span[:3]):
        known = kinds.setdefault((buffer.dtype, buffer.scope), [])
        free = [memory for memory in known if memory.last < first]
        if free:
            memory = min(free, key=lambda m: (m.size < size, abs(m.size - size)))
        else:
            memory = _Memory(size, last)
            known.append(memory)
        memory.size, memory.last = max(memory.size, size), last
        memory.users.append(buffer)
    return [memory for known in kinds.values() for memory in known]


def _one_by_one(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that run one after the other, and the allocations around some of them."""
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _one_by_one(part)
        return
    yield stmt
    if isinstance(stmt, Alloc):
        yield from _one_by_one(stmt.body)


def _without(stmt: Stmt, homes: dict[Buffer, Buffer], least: int) -> Stmt:
    """`stmt` without the allocations of what has another home."""
    if isinstance(stmt, Alloc):
        body = _without(stmt.body, homes, least)
        return body if stmt.buffer in homes else Alloc(stmt.buffer, body)
    if isinstance(stmt, Seq):
        return seq(*[_without(s, homes, least) for s in stmt.stmts])
    return _visit(stmt, least)
