"""Statements: a persistent tree of loops and blocks. Nodes are never mutated.

    Stmt := Seq(stmts)
          | For(var, extent, kind, body, annotations, thread)       var runs over [0, extent)
          | Block(name, iters, predicate, init, body, annotations)
          | Store(buffer, indices, value)
          | Let(var, value, body)
          | If(cond, then, orelse)       `then` runs for the lanes of a vector condition (lowered)
          | Extern(name, outputs, inputs)   an extern function fills parts of buffers from others
          | Alloc(buffer, body)          only in lowered programs: the place of an allocation
          | Prefetch(buffer, indices)    only in lowered programs: a hint without any effect
          | Sync(scope)                  only in lowered programs: threads wait for each other
          | Exchange(buffer, indices, value, source)   only in lowered programs: from another lane

A Block is the unit of scheduling. Its body speaks of its own iteration variables only; each
IterVar carries the `binding`, the expression of the loops around that gives its value. Primitives
change loops and bindings. An instance of the block runs where `predicate` (an expression of the
loops) holds: parts that read memory are asked where the others hold, and bindings where all do.

The `init` of a reduction runs directly before the outermost loop that feeds a reduce variable (or
before the block, where none does): once for each value of the spatial variables that the loops from
there inwards give, whether or not there is an instance that adds to it. Of the predicate only what
does not speak of the loops of the reduction bears on it. So an init needs no instance at zero, and
sums of nothing have a value. `verify` refuses what the order of loops could give another meaning:
instances that a reduction repeats, inits that read what is written in it.

An Extern calls a function of tensorir.externs.extern. Its Parts are adjacent elements, row by row:
in a block all of the last dimensions of a buffer, at fixed places of the ones before.

Since primitives leave bodies alone, all schedules of a function share them. Reads and writes are
inferred from bodies, never stored, and there is no node for the realization of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Var, int_value


class _Kind(Enum):
    def __repr__(self) -> str:
        return str(self.value)

    __str__ = __repr__
    __hash__ = object.__hash__  # there is one of each: what Enum hashes is its name


class ForKind(_Kind):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"


class IterKind(_Kind):
    """What a block variable means: independent instances, or a reduction over instances."""

    SPATIAL = "spatial"
    REDUCE = "reduce"
    OPAQUE = "opaque"


class Stmt:
    """Base of all statements."""

    __slots__ = ("_buffers",)  # what `buffers_in` (parts.py) has found

    def __repr__(self) -> str:
        from tensorir.text.printer import format_stmt

        return format_stmt(self)


@dataclass(slots=True, eq=False, repr=False)
class Seq(Stmt):
    stmts: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class For(Stmt):
    var: Var
    extent: Expr
    body: Stmt
    kind: ForKind = ForKind.SERIAL
    annotations: Mapping[str, Any] = field(default_factory=dict)
    thread: str | None = None

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def const_extent(self) -> int | None:
        """The extent as an integer, or None where it is symbolic."""
        return int_value(self.extent)


@dataclass(slots=True, eq=False)
class IterVar:
    """A variable of a block: it takes values in [0, extent), given by `binding`."""

    var: Var
    extent: Expr
    kind: IterKind
    binding: Expr


@dataclass(slots=True, eq=False, repr=False)
class Block(Stmt):
    name: str
    iters: tuple[IterVar, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr = field(default_factory=lambda: TRUE)
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spatial(self) -> tuple[IterVar, ...]:
        return tuple(it for it in self.iters if it.kind is IterKind.SPATIAL)

    @property
    def reduced(self) -> tuple[IterVar, ...]:
        return tuple(it for it in self.iters if it.kind is IterKind.REDUCE)

    @property
    def is_reduction(self) -> bool:
        return IterKind.REDUCE in [it.kind for it in self.iters]


@dataclass(slots=True, eq=False, repr=False)
class Store(Stmt):
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Let(Stmt):
    var: Var
    value: Expr
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class If(Stmt):
    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(slots=True, eq=False, repr=False)
class Alloc(Stmt):
    """Memory for `buffer` exists while `body` runs, once per thread that reaches it."""

    buffer: Buffer
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class Prefetch(Stmt):
    """Memory that will be read soon. The indices may lie outside of the buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]


SYNC_SCOPES = ("block", "warp")
"""Who waits at a Sync: all threads of a block, or the lanes of each warp of it."""


@dataclass(slots=True, eq=False, repr=False)
class Sync(Stmt):
    """Threads wait here for each other, and see after it what each of them wrote before it.

    `scope` is "block" for the threads of a block, "warp" for the lanes of a warp; all reach it.
    """

    scope: str


@dataclass(slots=True, eq=False, repr=False)
class Exchange(Stmt):
    """Each lane of a warp stores into an element of its own what `value` is in another lane.

    `source` is that lane, 0 to 31; lanes are counted by the linear index of the thread. All lanes
    of the warp reach it. What they have written to memory is not ordered by it.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    source: Expr


@dataclass(slots=True, eq=False)
class Part:
    """Adjacent elements of a buffer, an array of `shape`; the first one is at `indices`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    shape: tuple[Expr, ...]

    @property
    def lead(self) -> int:
        """How many dimensions of the buffer stand before those of the part; 0 in a flat one."""
        return max(0, len(self.indices) - len(self.shape))


@dataclass(slots=True, eq=False, repr=False)
class Extern(Stmt):
    """The extern function `name` writes all of its outputs, and reads nothing but its inputs."""

    name: str
    outputs: tuple[Part, ...]
    inputs: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Inputs, then outputs: the order of the arguments of the function."""
        return (*self.inputs, *self.outputs)


S = TypeVar("S", bound="Stmt | IterVar | Part")


def replace(node: S, **changes: Any) -> S:
    """A copy of `node` with some fields changed.

    Fields are arguments of the constructor, in order: dataclasses.replace in a fifth of the time.
    """
    cls: Any = type(node)
    values = [changes.pop(n) if n in changes else getattr(node, n) for n in cls.__slots__]
    if changes:
        raise TypeError(f"{cls.__name__} has no field {next(iter(changes))!r}")
    return cls(*values)  # type: ignore[no-any-return]


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements one after the other: nested sequences are flattened, None is dropped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
