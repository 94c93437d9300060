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
from tensorir.expr import int_value
from tensorir.func import PrimFunc
from tensorir.parts import buffers_in, replace_buffers
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Seq, Stmt, seq
from tensorir.visit import map_children, walk


@dataclass
class _Memory:
    """What some buffers of a type and scope have one after the other: so many elements, which are
    free after statement `last`."""

    kind: tuple[str, str]
    size: int = 0
    last: int = 0
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
    for users in _memories(stmt, least):
        home = max(users, key=_elements)
        homes |= dict.fromkeys(users, home) if users[1:] else {}
    body = replace_buffers(_without(stmt, homes, least), homes)
    for home in dict.fromkeys(homes.values()):
        body = Alloc(home, body)
    return body


def _memories(stmt: Stmt, least: int) -> list[list[Buffer]]:
    """Large buffers that have one memory after the other, in order: each the one that fits best of
    those that are free then."""
    parts = [*_one_by_one(stmt)]
    steps = [s for s in parts if not isinstance(s, Alloc)]
    used = [buffers_in(s) for s in steps]
    # What copies of a loop allocate is one buffer: around statements here, and inside of others.
    inside = {s.buffer for step in steps for s in walk(step) if isinstance(s, Alloc)}
    spans: list[tuple[int, int, Buffer]] = []
    for buffer in dict.fromkeys(s.buffer for s in parts if isinstance(s, Alloc)):
        at = [n for n, found in enumerate(used) if buffer in found]
        if at and buffer not in inside and _elements(buffer) * dt.itemsize(buffer.dtype) > least:
            spans.append((at[0], at[-1], buffer))
    memories: list[_Memory] = []
    for first, last, buffer in sorted(spans, key=lambda span: span[:2]):
        size, kind = _elements(buffer), (buffer.dtype, buffer.scope)
        free = [m for m in memories if m.kind == kind and m.last < first]
        if free:
            memory = min(free, key=lambda m: (m.size < size, abs(m.size - size)))
        else:
            memory = _Memory(kind)
            memories.append(memory)
        memory.size, memory.last = max(memory.size, size), last
        memory.users.append(buffer)
    return [memory.users for memory in memories]


def _elements(buffer: Buffer) -> int:
    """How many a flat buffer has; 0 where that is not known."""
    return int_value(buffer.shape[0]) or 0


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
