"""What threads do to memory, instance by instance: the rules of schedule/threads.py, run.

A kernel is a statement of the outermost sequence. Threads of one block wait for each other between
statements and between iterations of serial loops; blocks of threads do not. Code outside the loop
over an axis is run by the first thread of that axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorir import (
    Block,
    For,
    ForKind,
    IterKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    child_stmts,
    const,
    int_value,
    loads,
    stmt_exprs,
    substitute,
    variables,
    walk,
)

Path = tuple[tuple[str, int], ...]
"""How an instance is reached: (loop or sequence, position), outermost first."""


def instances(stmt: Stmt, env: Mapping[Var, int], path: Path) -> Iterator[tuple[Block, Any, Path]]:
    """Every instance of every block, with the values of the loops and how it is reached."""
    if isinstance(stmt, For):
        word = stmt.thread if stmt.kind is ForKind.THREAD else "serial"
        for n in range(_value(stmt.extent, env)):
            yield from instances(stmt.body, {**env, stmt.var: n}, (*path, (str(word), n)))
    elif isinstance(stmt, Block):
        if _value(stmt.predicate, env):
            yield stmt, env, path
    else:
        for n, child in enumerate(child_stmts(stmt)):
            yield from instances(child, env, (*path, ("seq", n)))


def _value(e: Any, env: Mapping[Var, int]) -> int:
    found = int_value(substitute(e, {var: const(n) for var, n in env.items()}))
    assert found is not None, e
    return found


def touches(block: Block, env: Mapping[Var, int]) -> Iterator[tuple[Any, tuple[int, ...], bool]]:
    """Buffer, element and whether it is written; loads that a condition guards too, if in range."""
    values = {it.var: _value(it.binding, env) for it in block.iters}
    first = all(values[it.var] == 0 for it in block.iters if it.kind is IterKind.REDUCE)
    parts = [block.init] if block.init is not None and first else []
    for part in (*parts, block.body):
        assert isinstance(part, Store)
        for e in stmt_exprs(part):
            for load in loads(e):
                element = tuple(_value(i, values) for i in load.indices)
                if all(0 <= i < _value(n, {}) for i, n in zip(element, load.buffer.shape)):
                    yield load.buffer, element, False  # a condition guards the others
        yield part.buffer, tuple(_value(i, values) for i in part.indices), True


def race(func: PrimFunc) -> str | None:
    """The first pair of threads that touch one element unordered, one writing; None if none."""
    body = func.body
    for kernel in body.stmts if isinstance(body, Seq) else (body,):
        seen: dict[Any, list[tuple[bool, Path]]] = {}
        for block, env, reached in instances(kernel, {}, ()):
            combined = _combining(kernel, block, reached)
            own = {s.buffer for s in walk(block.body) if isinstance(s, Store)}
            for buffer, element, writes in touches(block, env):
                path = combined if buffer in own else reached
                key = (buffer, _memory(buffer.scope, path), element)
                for other_writes, other in seen.setdefault(key, []):
                    if (writes or other_writes) and not _ordered(path, other):
                        return f"{buffer.name}{list(element)} at {path} and {other}"
                if (writes, path) not in seen[key]:
                    seen[key].append((writes, path))
    return None


def unseen(func: PrimFunc) -> str | None:
    """The first element of memory that a thread reads and that was never written there."""
    made: set[Any] = set()
    body = func.body
    for place, kernel in enumerate(body.stmts if isinstance(body, Seq) else (body,)):
        threaded = any(isinstance(s, For) and s.kind is ForKind.THREAD for s in walk(kernel))
        for block, env, reached in instances(kernel, {}, ()):
            combined = _combining(kernel, block, reached)
            own = {s.buffer for s in walk(block.body) if isinstance(s, Store)}
            for buffer, element, writes in touches(block, env):
                path = combined if buffer in own else reached
                if buffer.scope == "global":
                    continue
                number = place if threaded else -1  # without threads there is one memory
                key = (buffer, number, _memory(buffer.scope, path), element)
                if writes:
                    made.add(key)
                elif key not in made:
                    return f"{buffer.name}{list(element)} at {path}"
    return None


def _combining(kernel: Stmt, block: Block, path: Path) -> Path:
    """Threads that share a reduction combine their parts, and the first one does the rest."""
    axes = {s.var: s.thread for s in walk(kernel) if isinstance(s, For) and s.thread}
    reduced = [it.binding for it in block.iters if it.kind is IterKind.REDUCE]
    shared = {axes[var] for e in reduced for var in variables(e) if var in axes}
    return tuple([(word, 0 if word in shared else n) for word, n in path])


def _threads(path: Path, prefix: tuple[str, ...]) -> dict[str, int]:
    return {word: n for word, n in path if word.startswith(prefix) and n}


def _memory(scope: str, path: Path) -> Any:
    """Which of the memories of this scope a thread sees."""
    kinds = {"global": (), "shared": ("blockIdx",), "local": ("blockIdx", "threadIdx", "vthread")}
    return tuple(sorted(_threads(path, kinds[scope]).items())) if kinds[scope] else ()


def _ordered(a: Path, b: Path) -> bool:
    """Whether one of two instances of a kernel certainly comes first."""
    if _threads(a, ("blockIdx",)) != _threads(b, ("blockIdx",)):
        return False
    for (word, n), (other, m) in zip(a, b):
        if n != m:
            return "." not in word and "." not in other
    return True
