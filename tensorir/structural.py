"""Comparing and hashing programs by structure: names do not count, everything else does.

A program is written as a list of canonical rows. Variables and buffers are numbered as they
appear, and each distinct expression gets one row, which later uses refer to by number, so the
work is linear even where expressions share much. The rows do not depend on the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from tensorir import dtype as dt
from tensorir.annotations import checked
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Var
from tensorir.externs.built_in import extern_digest
from tensorir.func import PrimFunc
from tensorir.scalars import Scalar
from tensorir.stmt import (
    Alloc,
    Block,
    Exchange,
    Extern,
    For,
    If,
    Let,
    Part,
    Prefetch,
    Seq,
    Stmt,
    Store,
    Sync,
)
from tensorir.vector_expr import Broadcast, Ramp, Shuffle
from tensorir.visit import children, walk_exprs


def structural_equal(a: PrimFunc | Stmt, b: PrimFunc | Stmt, *, names: bool = False) -> bool:
    """Whether two programs are the same up to the names of what they define.

    With `names`, loops, blocks, variables, buffers and functions must have the same names too.
    """
    return a is b or _rows(a, names=names) == _rows(b, names=names)


@checked
def structural_hash(func: PrimFunc) -> str:
    """32 hexadecimal digits that are equal for functions that are `structural_equal`."""
    return digest(_rows(func))


@checked
def workload_key(func: PrimFunc) -> str:
    """The key under which tuning records of `func`, as it was defined, are filed."""
    return structural_hash(func)


@checked
def structure_key(func: PrimFunc) -> str:
    """A hash like `workload_key` in which no number counts: it is the same for other shapes.

    Two functions of one structure have the same loops, blocks and reads, so that a schedule for
    one is a sensible start for the other. Strides, paddings and scalar constants are not seen.
    """
    return digest(_rows(func, sizes=False))


def digest(rows: list[str]) -> str:
    return blake2b("\n".join(rows).encode(), digest_size=16).hexdigest()


def _rows(root: PrimFunc | Stmt, *, names: bool = False, sizes: bool = True) -> list[str]:
    writer = Writer(names, sizes)
    if isinstance(root, PrimFunc):
        writer.func(root)
    else:
        writer.body(root)
    return writer.rows


@dataclass
class Writer:
    """The rows of a program: with names, or none; with numbers, or none."""

    names: bool = False
    sizes: bool = True
    rows: list[str] = field(default_factory=list)
    vars: dict[Var, int] = field(default_factory=dict)
    bound: int = 0
    buffers: dict[Buffer, int] = field(default_factory=dict)
    known: dict[Expr, int] = field(default_factory=dict)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def row(self, *parts: Any) -> None:
        self.rows.append(repr(parts))

    def name(self, name: str) -> str:
        return name if self.names else ""

    def literal(self, values: Mapping[str, Any]) -> str:
        return json.dumps(dict(values), sort_keys=True, default=repr)

    def bind(self, var: Var) -> None:
        self.vars[var] = self.bound
        self.bound += 1
        self.known.clear()  # expressions of an earlier variable of this name

    @contextmanager
    def scope(self, *new: Var) -> Iterator[None]:
        before = dict(self.vars)
        for var in new:
            self.bind(var)
        yield
        self.vars = before
        self.known.clear()

    def expr(self, e: Expr) -> int:
        """The number of the row of `e`, which is written when it is new."""
        found = self.known.get(e)
        if found is None:
            key = (type(e).__name__, *self.payload(e), *[self.expr(c) for c in children(e)])
            found = self.numbers.get(key)
            if found is None:
                found = self.numbers[key] = len(self.numbers)
                self.row(*key)
            self.known[e] = found
        return found

    def exprs(self, parts: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple([self.expr(part) for part in parts])

    def payload(self, e: Expr) -> tuple[Any, ...]:
        if isinstance(e, Const):
            return e.dtype, repr(e.value) if self.sizes or dt.is_bool(e.dtype) else ""
        if isinstance(e, Var):
            return e.dtype, self.vars.get(e, e.name)
        if isinstance(e, BinOp):
            return (e.op,)
        if isinstance(e, Load):
            return (self.buffer(e.buffer),)
        if isinstance(e, Call):
            return e.name, e.dtype
        if isinstance(e, (Ramp, Broadcast)):
            return (e.lanes,)
        if isinstance(e, Shuffle):
            return (e.indices,)
        return (e.dtype,) if isinstance(e, Cast) else ()

    def buffer(self, buffer: Buffer) -> int:
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = len(self.buffers)
            shape = self.exprs(buffer.shape)
            self.row("buffer", self.name(buffer.name), buffer.dtype, buffer.scope, shape)
        return found

    def func(self, f: PrimFunc) -> None:
        for param in f.arguments:
            if isinstance(param, Scalar):
                if param.var not in self.vars:
                    self.bind(param.var)
                kind = () if param.is_size else (param.dtype,)
                self.row("scalar", self.name(param.name), self.vars[param.var], param.least, *kind)
                continue
            for size in param.shape:
                for node in walk_exprs(size):
                    if isinstance(node, Var) and node not in self.vars:
                        self.bind(node)
                        self.row("size", self.name(node.name), node.dtype)
            self.buffer(param)
        self.row("func", self.name(f.name), len(f.params), len(f.buffers), self.literal(f.attrs))
        if self.names:
            self.row(*[self.buffer(buffer) for buffer in f.buffers])
        self.body(f.body)

    def body(self, s: Stmt | None) -> None:
        """The statements of `s` between brackets, without the nesting of sequences."""
        self.row("{")
        self.stmts(s)
        self.row("}")

    def stmts(self, s: Stmt | None) -> None:
        for stmt in _flat(s):
            getattr(self, "stmt_" + type(stmt).__name__.lower())(stmt)

    def stmt_for(self, s: For) -> None:
        extent = self.expr(s.extent)
        notes = self.literal(s.annotations)
        with self.scope(s.var):
            self.row("for", self.name(s.name), s.var.dtype, s.kind.value, s.thread, extent, notes)
            self.body(s.body)

    def stmt_block(self, s: Block) -> None:
        outer = [(self.expr(it.extent), self.expr(it.binding)) for it in s.iters]
        predicate, notes = self.expr(s.predicate), self.literal(s.annotations)
        with self.scope(*[it.var for it in s.iters]):
            self.row("block", self.name(s.name), predicate, notes, len(s.iters))
            for it, bound in zip(s.iters, outer):
                self.row(self.name(it.var.name), it.var.dtype, it.kind.value, bound)
            self.body(s.init)
            self.body(s.body)

    def stmt_store(self, s: Store) -> None:
        self.row("store", self.buffer(s.buffer), self.exprs(s.indices), self.expr(s.value))

    def stmt_let(self, s: Let) -> None:
        value = self.expr(s.value)
        with self.scope(s.var):
            self.row("let", self.name(s.var.name), s.var.dtype, value)
            self.body(s.body)

    def stmt_if(self, s: If) -> None:
        self.row("if", self.expr(s.cond), s.orelse is not None)
        self.body(s.then)
        self.body(s.orelse)

    def stmt_prefetch(self, s: Prefetch) -> None:
        self.row("prefetch", self.buffer(s.buffer), self.exprs(s.indices))

    def stmt_sync(self, s: Sync) -> None:
        self.row("sync", s.scope)

    def stmt_exchange(self, s: Exchange) -> None:
        where, value = self.exprs(s.indices), self.expr(s.value)
        self.row("exchange", self.buffer(s.buffer), where, value, self.expr(s.source))

    def stmt_extern(self, s: Extern) -> None:
        parts = [tuple(map(self.part, group)) for group in (s.outputs, s.inputs)]
        self.row("extern", s.name, extern_digest(s.name), *parts)

    def part(self, part: Part) -> tuple[Any, ...]:
        return self.buffer(part.buffer), self.exprs(part.indices), self.exprs(part.shape)

    def stmt_alloc(self, s: Alloc) -> None:
        self.row("alloc", self.buffer(s.buffer))
        self.body(s.body)


def _flat(s: Stmt | None) -> Iterator[Stmt]:
    if isinstance(s, Seq):
        for part in s.stmts:
            yield from _flat(part)
    elif s is not None:
        yield s
