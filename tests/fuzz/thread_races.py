"""What threads do to memory, instance by instance: the rules for programs with threads, run.

A kernel is a statement of the outermost sequence. Threads of one block wait for each other where a
loop over threads ends, and after what the first of them does alone; blocks of threads do not. Code
outside the loop over an axis is run by the first thread of that axis. Memory of a thread or a block
belongs to it for the time of a kernel; what several kernels use is seen by all. This shares no code
with the rules: it runs small programs, and remembers who touched what and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from tensorir import (
    BinOp,
    Block,
    Const,
    For,
    ForKind,
    IterKind,
    Let,
    Load,
    Not,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    child_stmts,
    loads,
    stmt_exprs,
    variables,
    walk,
)
from tensorir.dtype import is_float
from tensorir.numbers.folding import FOLD

BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "warp", "lane")
VIRTUAL = ("vthread.x", "vthread.y", "vthread.z")
OWNERS = {"global": (), "shared": BLOCKS, "local": (*BLOCKS, *THREADS, *VIRTUAL)}
"""The axes of which each index has memory of its own."""

Path = tuple[tuple[str, int], ...]
"""How an instance is reached: (axis, "serial" or "seq", position), outermost first."""

Element = tuple[Any, tuple[int, ...]]


class Instance(NamedTuple):
    """One run of a block: the values of the loops around it, these loops, and how it is reached."""

    block: Block
    env: Mapping[Var, int]
    path: Path
    loops: tuple[tuple[int, For], ...]
    """The loops around, each with its place in the path."""


def instances(
    stmt: Stmt,
    env: Mapping[Var, int],
    path: Path,
    loops: tuple[tuple[int, For], ...] = (),
) -> Iterator[Instance]:
    """Every instance of every block, in the order of a program without threads."""
    if isinstance(stmt, For):
        word = stmt.thread if stmt.kind is ForKind.THREAD else "serial"
        inside = (*loops, (len(path), stmt))
        for n in range(_value(stmt.extent, env)):
            yield from instances(stmt.body, {**env, stmt.var: n}, (*path, (str(word), n)), inside)
    elif isinstance(stmt, Block):
        if _value(stmt.predicate, env):
            yield Instance(stmt, env, path, loops)
    else:
        for n, child in enumerate(child_stmts(stmt)):
            yield from instances(child, env, (*path, ("seq", n)), loops)


def _value(e: Any, env: Mapping[Var, int]) -> int:
    return _function(e)(env)


@lru_cache(maxsize=4096)
def _function(e: Any) -> Callable[[Mapping[Var, int]], int]:
    """An expression as a function of its variables: each is asked for by every instance."""
    if isinstance(e, int):
        return lambda env: e
    if isinstance(e, Const) and isinstance(e.value, int):
        value = int(e.value)
        return lambda env: value
    if isinstance(e, Var):
        return lambda env: env[e]
    if isinstance(e, Not):
        inner = _function(e.a)
        return lambda env: not inner(env)
    if isinstance(e, Select):
        cond, then, other = map(_function, (e.cond, e.a, e.b))
        return lambda env: then(env) if cond(env) else other(env)
    assert isinstance(e, BinOp) and e.op in FOLD and not is_float(e.a.dtype), e
    operation, left, right = FOLD[e.op], _function(e.a), _function(e.b)
    return lambda env: operation(left(env), right(env))


def touches(block: Block, env: Mapping[Var, int]) -> Iterator[tuple[Any, tuple[int, ...], bool]]:
    """Buffer, element and whether it is written; loads that a condition guards too, if in range."""
    values = {it.var: _value(it.binding, env) for it in block.iters}
    first = all(values[it.var] == 0 for it in block.iters if it.kind is IterKind.REDUCE)
    parts = [block.init] if block.init is not None and first else []
    for part in (*parts, block.body):
        read, written = _accesses(part)
        for load in read:
            element = tuple(_value(i, values) for i in load.indices)
            if all(0 <= i < _value(n, {}) for i, n in zip(element, load.buffer.shape)):
                yield load.buffer, element, False  # a condition guards the others
        for store in written:
            yield store.buffer, tuple(_value(i, values) for i in store.indices), True


@lru_cache(maxsize=256)
def _accesses(part: Stmt) -> tuple[list[Load], list[Store]]:
    """The loads and the stores of the body of a block."""
    found = list(walk(part))
    assert all(isinstance(s, (Store, Let, Seq)) for s in found)
    read = [load for s in found for e in stmt_exprs(s) for load in loads(e)]
    return read, [s for s in found if isinstance(s, Store)]


def kernels(func: PrimFunc) -> list[Stmt]:
    body = func.body
    return list(body.stmts) if isinstance(body, Seq) else [body]


def scopes(func: PrimFunc) -> dict[Any, str]:
    """Where each buffer is: what several kernels use is seen by all."""
    users: dict[Any, set[int]] = {}
    for n, kernel in enumerate(kernels(func)):
        for s in walk(kernel):
            made = [s.buffer] if isinstance(s, Store) else []
            for buffer in [*made, *(load.buffer for e in stmt_exprs(s) for load in loads(e))]:
                users.setdefault(buffer, set()).add(n)
    return {b: b.scope if len(found) == 1 else "global" for b, found in users.items()}


def race(func: PrimFunc) -> str | None:
    """The first pair of threads that touch one element unordered, one writing; None if none."""
    scope = scopes(func)
    for kernel in kernels(func):
        seen: dict[Any, list[tuple[bool, Path]]] = {}
        for one in instances(kernel, {}, ()):
            combined = _as_first(one.path, _sharing(one))
            own = {s.buffer for s in walk(one.block.body) if isinstance(s, Store)}
            for buffer, element, writes in touches(one.block, one.env):
                path = combined if buffer in own else one.path
                key = (buffer, _memory(scope[buffer], path), element)
                for other_writes, other in seen.setdefault(key, []):
                    if (writes or other_writes) and not _ordered(path, other):
                        return f"{buffer.name}{list(element)} at {path} and {other}"
                if (writes, path) not in seen[key]:
                    seen[key].append((writes, path))
    return None


def unseen(func: PrimFunc) -> str | None:
    """The first element that a thread reads and does not have as the program without threads does:
    never written in its memory, or there before another thread wrote it anew in another memory."""
    scope = scopes(func)
    for kernel in kernels(func):
        found = _Memories(scope).run(kernel)
        if found is not None:
            return found
    return None


class _Memories:
    """Which of the writes each memory holds, in one kernel."""

    def __init__(self, scope: Mapping[Any, str]) -> None:
        self.scope = scope
        self.latest: dict[Element, int] = {}
        self.held: dict[tuple[Any, Element], int] = {}
        self.open: dict[Element, tuple[Block, For, Path]] = {}
        """What threads are reducing: the block, its outermost loop and where that is."""

    def run(self, kernel: Stmt) -> str | None:
        for number, one in enumerate(instances(kernel, {}, ())):
            sharing = _sharing(one)
            own = {s.buffer for s in walk(one.block.body) if isinstance(s, Store)}
            for buffer, element, writes in touches(one.block, one.env):
                at = (buffer, element)
                if sharing and buffer in own:
                    self._reduce(one, at, sharing, number)
                elif self._early(one, at):
                    return f"{buffer.name}{list(element)} at {one.path}, before it is combined"
                elif self.scope[buffer] == "global":
                    continue
                elif writes:
                    self.latest[at] = number
                    self.held[_memory(self.scope[buffer], one.path), at] = number
                else:
                    held = self.held.get((_memory(self.scope[buffer], one.path), at))
                    if held != self.latest.get(at):
                        return f"{buffer.name}{list(element)} at {one.path}"
        return None

    def _reduce(
        self, one: Instance, at: Element, sharing: Mapping[str, int], number: int
    ) -> None:
        """All threads that share a reduction have its result."""
        place, outermost = _reduced(one)[0]
        self.open[at] = (one.block, outermost, one.path[:place])
        self.latest[at] = number
        for indices in product(*map(range, sharing.values())):
            found = dict(zip(sharing, indices))
            path = tuple([(word, found.get(word, n)) for word, n in one.path])
            self.held[_memory(self.scope[at[0]], path), at] = number

    def _early(self, one: Instance, at: Element) -> bool:
        block, outermost, prefix = self.open.get(at, (one.block, None, ()))
        inside = any(loop is outermost for _, loop in one.loops)
        return block is not one.block and inside and one.path[: len(prefix)] == prefix


def _reduced(one: Instance) -> list[tuple[int, For]]:
    """The loops that feed a reduction, outermost first, with their places in the path."""
    bindings = [it.binding for it in one.block.iters if it.kind is IterKind.REDUCE]
    fed = {var for e in bindings for var in variables(e)}
    return [(place, loop) for place, loop in one.loops if loop.var in fed]


def _sharing(one: Instance) -> dict[str, int]:
    """The axes of the threads that share a reduction, with their extents."""
    return {loop.thread: _value(loop.extent, {}) for _, loop in _reduced(one) if loop.thread}


def _as_first(path: Path, axes: Mapping[str, int]) -> Path:
    """Threads that share a reduction combine their parts, and the first one does the rest."""
    return tuple([(word, 0 if word in axes else n) for word, n in path])


def _threads(path: Path, axes: Sequence[str]) -> dict[str, int]:
    return {word: n for word, n in path if word in axes and n}


def _memory(scope: str, path: Path) -> Any:
    """Which of the memories of this scope a thread sees."""
    return tuple(sorted(_threads(path, OWNERS[scope]).items()))


def _ordered(a: Path, b: Path) -> bool:
    """Whether one of two instances of a kernel certainly comes first."""
    if _threads(a, BLOCKS) != _threads(b, BLOCKS):
        return False
    for (word, n), (other, m) in zip(a, b):
        if n != m:
            return word not in OWNERS["local"] and other not in OWNERS["local"]
    return True
