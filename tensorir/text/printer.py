"""Printing programs as text that is valid Python syntax and that tensorir.text.parser reads back.

Consecutive plain loops share one `grid` line. Expressions are printed by
tensorir.text.printer_expr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir.annotations import checked
from tensorir.buffer import Buffer
from tensorir.expr import TRUE
from tensorir.func import PrimFunc
from tensorir.scalars import Scalar
from tensorir.stmt import (
    Alloc,
    Block,
    Exchange,
    Extern,
    For,
    ForKind,
    If,
    Let,
    Part,
    Prefetch,
    Seq,
    Stmt,
    Store,
    Sync,
)
from tensorir.text.printer_expr import (
    format_buffer_type,
    format_expr,
    format_exprs,
    format_scalar_type,
)
from tensorir.visit import variables

__all__ = ["LOOP_WORDS", "format_expr", "format_func", "format_stmt"]

LOOP_WORDS = {
    ForKind.SERIAL: "range",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD: "thread",
}
"""The word after `in` for each kind of loop."""


def format_stmt(s: Stmt) -> str:
    """`s` as indented lines; buffers are named, not declared."""
    printer = _Printer()
    printer.stmt(s, 0)
    return "\n".join(printer.lines)


@checked
def format_func(f: PrimFunc, mark: str | None = None) -> str:
    """`f` as the text of a function, which tensorir.text.parser.parse reads back.

    With `mark`, every line is shifted by four columns, and the line of the loop or block of that
    name starts with `>>>`.
    """
    printer = _Printer(mark, frozenset((*f.params, *f.buffers)))
    printer.func(f)
    if mark is None:
        return "\n".join(printer.lines)
    shifted = [
        (">>> " if n in printer.marked else "    ") + line for n, line in enumerate(printer.lines)
    ]
    return "\n".join(line.rstrip() for line in shifted)


def _with_scope(word: str, buffer: Buffer, *before: str) -> str:
    parts = [*before, format_buffer_type(buffer)]
    if buffer.scope != "global":
        parts.append(f'scope="{buffer.scope}"')
    return f"{word}({', '.join(parts)})"


def _argument(p: Buffer | Scalar) -> str:
    if isinstance(p, Scalar):
        return f"{p.name}: {format_scalar_type(p)}"
    kind = format_buffer_type(p) if p.scope == "global" else _with_scope("buffer", p)
    return f"{p.name}: {kind}"


@dataclass
class _Printer:
    mark: str | None = None
    declared: frozenset[Buffer] | None = None
    lines: list[str] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)

    def line(self, depth: int, text: str, name: str | None = None) -> None:
        if name is not None and name == self.mark:
            self.marked.add(len(self.lines))
        self.lines.append("    " * depth + text)

    def func(self, f: PrimFunc) -> None:
        self.line(0, "@prim_func")
        self.line(0, f"def {f.name}({', '.join(map(_argument, f.arguments))}):")
        if f.attrs:
            self.line(1, f"attrs({_literal(f.attrs)})")
        for buffer in f.buffers:
            self.line(1, f"{buffer.name} = {_with_scope('alloc', buffer)}")
        self.stmt(f.body, 1)

    def stmt(self, s: Stmt, depth: int) -> None:
        _STATEMENTS[type(s)](self, s, depth)

    def seq(self, s: Seq, depth: int) -> None:
        if not s.stmts:
            self.line(depth, "pass")
        for part in s.stmts:
            self.stmt(part, depth)

    def loop(self, s: For, depth: int) -> None:
        nest = self._grid(s)
        if len(nest) > 1:
            names = ", ".join(loop.name for loop in nest)
            self.line(depth, f"for {names} in grid({format_exprs(tuple(n.extent for n in nest))}):")
            self.stmt(nest[-1].body, depth + 1)
            return
        parts = [format_expr(s.extent)]
        if s.kind is ForKind.THREAD:
            parts.insert(0, json.dumps(s.thread))
        if s.annotations:
            parts.append(f"annotations={_literal(s.annotations)}")
        self.line(depth, f"for {s.name} in {LOOP_WORDS[s.kind]}({', '.join(parts)}):", s.name)
        self.stmt(s.body, depth + 1)

    def _grid(self, s: For) -> list[For]:
        """The plain loops that can share a line with `s`: one inside the other, as a rectangle."""
        nest = [s]
        while _is_plain(nest[-1]) and nest[-1].name != self.mark:
            inner = nest[-1].body
            if not isinstance(inner, For) or not _is_plain(inner) or inner.name == self.mark:
                break
            if variables(inner.extent) & {loop.var for loop in nest}:
                break
            nest.append(inner)
        return nest

    def block(self, s: Block, depth: int) -> None:
        self.line(depth, f"with block({json.dumps(s.name)}):", s.name)
        for it in s.iters:
            args = format_exprs((it.extent, it.binding))
            self.line(depth + 1, f"{it.var.name} = {it.kind.value}({args})")
        if s.predicate is not TRUE:
            self.line(depth + 1, f"where({format_expr(s.predicate)})")
        if s.annotations:
            self.line(depth + 1, f"annotate({_literal(s.annotations)})")
        if s.init is not None:
            self.line(depth + 1, "with init():")
            self.stmt(s.init, depth + 2)
        self.stmt(s.body, depth + 1)

    def store(self, s: Store, depth: int) -> None:
        target = f"{s.buffer.name}[{format_exprs(s.indices) or '()'}]"
        self.line(depth, f"{target} = {format_expr(s.value)}")

    def prefetch(self, s: Prefetch, depth: int) -> None:
        self.line(depth, f"prefetch({s.buffer.name}[{format_exprs(s.indices) or '()'}])")

    def sync(self, s: Sync, depth: int) -> None:
        self.line(depth, f"sync({json.dumps(s.scope)})")

    def exchange(self, s: Exchange, depth: int) -> None:
        target = f"{s.buffer.name}[{format_exprs(s.indices) or '()'}]"
        self.line(depth, f"{target} = exchange({format_exprs((s.value, s.source))})")

    def extern(self, s: Extern, depth: int) -> None:
        parts = [f"[{', '.join(map(_part, parts))}]" for parts in (s.outputs, s.inputs)]
        self.line(depth, f"extern({json.dumps(s.name)}, {', '.join(parts)})")

    def let(self, s: Let, depth: int) -> None:
        self.line(depth, f"with let({s.var.name}, {format_expr(s.value)}):")
        self.stmt(s.body, depth + 1)

    def branch(self, s: If, depth: int, word: str = "if") -> None:
        self.line(depth, f"{word} {format_expr(s.cond)}:")
        self.stmt(s.then, depth + 1)
        if isinstance(s.orelse, If):
            self.branch(s.orelse, depth, "elif")
        elif s.orelse is not None:
            self.line(depth, "else:")
            self.stmt(s.orelse, depth + 1)

    def alloc(self, s: Alloc, depth: int) -> None:
        known = self.declared is None or s.buffer in self.declared
        name = s.buffer.name
        text = f"alloc({name})" if known else _with_scope("alloc", s.buffer, name)
        self.line(depth, f"with {text}:")
        self.stmt(s.body, depth + 1)


_STATEMENTS: dict[type, Callable[[_Printer, Any, int], None]] = {
    Seq: _Printer.seq,
    For: _Printer.loop,
    Block: _Printer.block,
    Store: _Printer.store,
    Let: _Printer.let,
    If: _Printer.branch,
    Alloc: _Printer.alloc,
    Prefetch: _Printer.prefetch,
    Sync: _Printer.sync,
    Exchange: _Printer.exchange,
    Extern: _Printer.extern,
}


def _part(part: Part) -> str:
    first = f"{part.buffer.name}[{format_exprs(part.indices) or '()'}]"
    return f"part({', '.join([first, *map(format_expr, part.shape)])})"


def _is_plain(loop: For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and loop.thread is None


def _literal(value: Any) -> str:
    """Plain data as a Python literal, with strings quoted as elsewhere in the program."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)
