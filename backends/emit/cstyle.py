"""The emitter of the C family: prints a lowered program, and decides nothing but its spelling.

Statements are here and expressions in backends.emit.expressions; what differs between C and CUDA
stands in class attributes (tables) and small methods, which a subclass overrides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from backends.emit.expressions import ADD, ExpressionEmitter
from backends.emit.sharing import (
    Place,
    SharedLoad,
    is_near,
    shared_loads,
    shared_places,
    shared_values,
    uses_of,
)
from backends.errors import BuildError
from tensorir import (
    Alloc,
    BinOp,
    Buffer,
    Expr,
    Extern,
    For,
    ForKind,
    If,
    Let,
    Load,
    Prefetch,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Target,
)


class CStyleEmitter(ExpressionEmitter):
    """Prints the statements of one lowered PrimFunc into `lines`."""

    indent = "    "
    address_names: ClassVar[bool] = False
    """Whether addresses that several accesses are near get names."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.constant = frozenset(func.inputs)
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append(f"{self.indent * self.depth}{text}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines between `head {` and `}`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def stmt(self, s: Stmt) -> None:
        """Print a statement into `lines`."""
        method = self.statements.get(type(s))
        if method is None:
            raise BuildError(f"{self.func.name}: {type(s).__name__} is left in the lowered program")
        method(self, s)

    def stmt_seq(self, s: Seq) -> None:
        run: list[Store] = []
        for child in s.stmts:
            if isinstance(child, Store):
                run.append(child)
                continue
            self.stmt_run(run)
            run = []
            if isinstance(child, (Let, Alloc)):  # their names end with their bodies
                with self.block(""):
                    self.stmt(child)
            else:
                self.stmt(child)
        self.stmt_run(run)

    def stmt_run(self, run: Sequence[Store]) -> None:
        """Consecutive stores: what they load several times gets a name where first used."""
        used = uses_of(run)
        pending = shared_loads(run, used)
        places = shared_places(run, used) if self.address_names else {}
        for position, store in enumerate(run):
            for place in places.get(position, ()):
                self.name_place(*place)
            while pending and pending[0].first == position:
                self.name_load(pending.pop(0))
            near = is_near(self.places, store.buffer, store.indices)
            roots = (*(() if near else store.indices), store.value)
            added = self.name_values(roots, used[position])
            self.stored = store.buffer
            self.store(store)
            for value in added:
                del self.named[value]
        self.named = {e: n for e, n in self.named.items() if not isinstance(e, Load)}
        self.places = {}

    def name_place(self, place: Place, before: int) -> None:
        """A pointer to what is so far before a place: accesses near it have constant indices."""
        buffer, index = place
        name = self.names.fresh(f"{self.names.of(buffer)}_at")
        kind = f"{'const ' if buffer in self.constant else ''}{self.type_name(buffer.dtype)}"
        self.line(f"{kind} *{name} = &{self.names.of(buffer)}[{self.expr(index - before)}];")
        self.places[place] = name, before

    def name_load(self, shared: SharedLoad) -> str:
        name = self.names.fresh(f"{self.names.of(shared.load.buffer)}_v")
        self.line(f"const {self.value_type(shared.load)} {name} = {self.expr(shared.load)};")
        self.named[shared.load] = name
        return name

    def name_values(self, roots: Sequence[Expr], most: Counter[Expr] | None = None) -> list[Expr]:
        """Name the compound values that `roots` use several times; returns those. `most` are the
        `uses` of these and other expressions."""
        added = []
        for value in shared_values(roots, self.places, most):
            if value not in self.named:
                text = self.expr(value)
                name = self.names.fresh("t")
                self.line(f"const {self.value_type(value)} {name} = {text};")
                self.named[value] = name
                added.append(value)
        return added

    def store(self, s: Store) -> None:
        target = self.element(s.buffer, s.indices)
        value = s.value
        if isinstance(value, BinOp) and value.op == "+" and isinstance(value.a, Load):
            load = value.a
            same = load.buffer is s.buffer and all(a is b for a, b in zip(load.indices, s.indices))
            if same and value not in self.named and self.is_operator(value):
                self.line(f"{target} += {self.expr(value.b)};")
                return
        self.line(f"{target} = {self.expr(value)};")

    def stmt_store(self, s: Store) -> None:
        self.stmt_run((s,))

    def stmt_let(self, s: Let) -> None:
        added = self.name_values((s.value,))
        name, kind = self.names.of(s.var), self.value_type(s.value)
        self.line(f"const {kind} {name} = {self.expr(s.value)};")
        for value in added:
            del self.named[value]
        self.stmt(s.body)

    def stmt_if(self, s: If) -> None:
        with self.block(f"if ({self.expr(s.cond)})"):
            self.stmt(s.then)
        if s.orelse is not None:
            self.lines.pop()
            with self.block("} else"):
                self.stmt(s.orelse)

    def stmt_for(self, s: For) -> None:
        self.loop_prefix[s.kind](self, s)
        var, index = self.names.of(s.var), self.type_name(s.var.dtype)
        head = f"for ({index} {var} = 0; {var} < {self.expr(s.extent, ADD)}; {var}++)"
        with self.block(head), self.bounds.loop(s.var, s.extent):
            self.stmt(s.body)

    def prefix_none(self, s: For) -> None:
        """Nothing stands before a loop of this kind."""

    def prefix_unroll(self, s: For) -> None:
        count = s.const_extent
        if count is not None and count > 1:
            self.line(f"#pragma unroll {count}")

    def prefix_thread(self, s: For) -> None:
        raise BuildError(
            f"{self.func.name}: loop {s.name!r} is bound to {s.thread!r}, "
            f"and target {self.target.kind!r} has no such threads; bind is for GPUs"
        )

    def stmt_alloc(self, s: Alloc) -> None:
        raise BuildError(f"{self.func.name}: cannot place buffer {s.buffer.name!r}")

    def stmt_prefetch(self, s: Prefetch) -> None:
        """Nothing, unless the language has it: a prefetch is a hint."""

    def memory_space(self, buffer: Buffer) -> str:
        return ""

    def extern_source(self, text: str, spaces: Sequence[str]) -> str:
        return text

    def stmt_extern(self, s: Extern) -> None:
        raise BuildError(
            f"{self.func.name}: target {self.target.kind!r} cannot call the extern function "
            f"{s.name!r}, which is C text"
        )

    statements: ClassVar[dict[type, Callable[..., None]]] = {
        Seq: lambda self, s: self.stmt_seq(s),
        For: lambda self, s: self.stmt_for(s),
        Store: lambda self, s: self.stmt_store(s),
        Let: lambda self, s: self.stmt_let(s),
        If: lambda self, s: self.stmt_if(s),
        Alloc: lambda self, s: self.stmt_alloc(s),
        Prefetch: lambda self, s: self.stmt_prefetch(s),
        Extern: lambda self, s: self.stmt_extern(s),
    }
    loop_prefix: ClassVar[dict[ForKind, Callable[..., None]]] = {
        ForKind.SERIAL: lambda self, s: self.prefix_none(s),
        ForKind.VECTORIZED: lambda self, s: self.prefix_none(s),
        ForKind.PARALLEL: lambda self, s: self.prefix_none(s),
        ForKind.UNROLLED: lambda self, s: self.prefix_unroll(s),
        ForKind.THREAD: lambda self, s: self.prefix_thread(s),
    }
