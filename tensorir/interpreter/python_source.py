"""PrimFunc to plain Python: the text that the interpreter runs.

Every buffer is a flat list of numbers; None marks an element that was never written. Names that
the text uses and does not define (`outside`, `f32`, `wrap_int8`, ...) are in interpret.RUNTIME.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, const, in_turn
from tensorir.func import PrimFunc
from tensorir.interpreter.python_expr import Expressions
from tensorir.names import Names
from tensorir.parts import part_axes, part_indices, touched
from tensorir.rewrite.reduction import reduction_loop, split_init
from tensorir.stmt import (
    Alloc,
    Block,
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
)
from tensorir.visit import blocks, loads, stmt_exprs, walk

LOCAL = ("memory", "sizes", "block", "value", "lane", *(f"at{d}" for d in range(32)))
LOOPS_PER_FUNCTION = 15
"""Python allows 20 nested loops in a function; deeper nests go into functions of their own."""


class Emitter(Expressions):
    """Writes one function. `precise` leaves out the rounding of floats."""

    def __init__(self, func: PrimFunc, precise: bool, reserved: frozenset[str]) -> None:
        super().__init__(func.name, precise, Names({*reserved, *LOCAL}))
        self.func = func
        self.lines: list[str] = []
        self.loops = 0
        self.extents: dict[Expr, Expr] = {}  # of the variables of loops
        self.mask = ""  # of the lanes for which vector statements run
        self.initialised: set[Block] = set()
        self.inside: Collection[Buffer] = ()  # of kernels: no memory of the whole function
        self.loaded: set[Buffer] = set()
        self.stored: set[Buffer] = set()

    def source(self) -> str:
        allocated = [s.buffer for s in walk(self.func.body) if isinstance(s, Alloc)]
        self.line(0, f"def {self.names.unique(self.func.name)}(memory, sizes):")
        for size in self.func.free_vars:
            self.line(1, f"{self.name(size)} = sizes[{size.name!r}]")
        for n, param in enumerate(self.func.params):
            self.line(1, f"{self.name(param)} = memory[{n}]")
        for buffer in dict.fromkeys([*self.func.buffers, *allocated]):
            if buffer in self.inside:
                continue
            cells = "[]" if buffer in allocated else f"[None] * ({self.count(buffer)})"
            self.line(1, f"{self.name(buffer)} = {cells}")
        nodes = list(walk(self.func.body))
        touches = [touch for s in nodes for touch in touched(s)]
        self.stored = {buffer for buffer, _, is_write in touches if is_write}
        self.loaded = {e.buffer for s in nodes for x in stmt_exprs(s) for e in loads(x)}
        self.loaded |= {buffer for buffer, _, is_write in touches if not is_write}
        self.accessors([b for b in self.identifiers if isinstance(b, Buffer)], 1)
        self.stmt(self.func.body, 1)
        return "\n".join(self.lines) + "\n"

    def accessors(self, buffers: Iterable[Buffer], depth: int) -> None:
        """The functions that read and write elements of these buffers."""
        for buffer in buffers:
            if buffer in self.loaded:
                self.loader(buffer, depth)
            if buffer in self.stored:
                self.storer(buffer, depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def count(self, buffer: Buffer) -> str:
        return " * ".join(self.expr(s, above=10) for s in _cells(buffer)) or "1"

    def loader(self, buffer: Buffer, depth: int) -> None:
        """The function that reads one element, with all checks."""
        me, where = self.name(buffer), self.indices(buffer)
        self.names.taken.add(f"load_{me}")
        self.line(depth, f"def load_{me}({', '.join([*where, 'block'])}):")
        self.check(buffer, "reads", depth + 1)
        self.fetch(buffer, depth + 1)
        unwritten = f"unwritten({buffer.name!r}, {_tuple(where)}, block)"
        self.line(depth + 1, f"if value is None: {unwritten}")
        self.line(depth + 1, "return value")

    def fetch(self, buffer: Buffer, depth: int) -> None:
        self.line(depth, f"value = {self.name(buffer)}[{self.offset(buffer)}]")

    def storer(self, buffer: Buffer, depth: int) -> None:
        """The function that writes one element, with all checks."""
        me, where = self.name(buffer), self.indices(buffer)
        self.names.taken.add(f"store_{me}")
        self.line(depth, f"def store_{me}({', '.join([*where, 'value', 'block'])}):")
        self.check(buffer, "writes", depth + 1)
        self.put(buffer, self.rounded("value", buffer.dtype), depth + 1)

    def put(self, buffer: Buffer, value: str, depth: int) -> None:
        self.line(depth, f"{self.name(buffer)}[{self.offset(buffer)}] = {value}")

    def indices(self, buffer: Buffer) -> list[str]:
        return [f"at{d}" for d in range(len(_cells(buffer)))]

    def check(self, buffer: Buffer, verb: str, depth: int) -> None:
        extents, where = [self.expr(s) for s in _cells(buffer)], self.indices(buffer)
        inside = " and ".join(f"0 <= {i} < {n}" for i, n in zip(where, extents))
        if inside:
            self.line(depth, f"if not ({inside}):")
            shown = f"{buffer.name!r}, {_tuple(extents)}, {_tuple(where)}"
            self.line(depth + 1, f"outside({shown}, block, {verb!r})")

    def offset(self, buffer: Buffer) -> str:
        """The row-major position, by Horner's rule."""
        text = "0"
        for d, size in enumerate(_cells(buffer)):
            head = f"({text})" if d > 1 else text
            text = f"{head} * {self.expr(size, above=10)} + at{d}" if d else "at0"
        return text

    # statements

    def stmt(self, stmt: Stmt, depth: int) -> None:
        getattr(self, f"stmt_{type(stmt).__name__.lower()}")(stmt, depth)

    def stmt_seq(self, stmt: Seq, depth: int) -> None:
        for part in stmt.stmts:
            self.stmt(part, depth)
        if not stmt.stmts:
            self.line(depth, "pass")

    def stmt_for(self, stmt: For, depth: int) -> None:
        kind = "" if stmt.kind is ForKind.SERIAL else f"  # {stmt.thread or stmt.kind}"
        self.inits(stmt, depth)
        self.loops += 1
        self.extents[stmt.var] = stmt.extent
        split = self.loops % LOOPS_PER_FUNCTION == 0
        if split:
            part = self.names.unique("part")
            self.line(depth, f"def {part}():")
            depth += 1
        self.line(depth, f"for {self.name(stmt.var)} in {self.domain(stmt)}:{kind}")
        self.stmt(stmt.body, depth + 1)
        if split:
            self.line(depth - 1, self.call_part(part, stmt.body))
        self.loops -= 1

    def call_part(self, part: str, body: Stmt) -> str:
        """How the function that holds `body` is called."""
        return f"{part}()"

    def domain(self, stmt: For) -> str:
        return f"range({self.expr(stmt.extent)})"

    def inits(self, loop: For, depth: int) -> None:
        """The inits of the reductions of which this is the outermost loop."""
        for block in blocks(loop.body):
            if block.init is not None and block not in self.initialised:
                if reduction_loop([loop], block) is loop:
                    self.init(loop, block, depth)

    def init(self, anchor: For | Block, block: Block, depth: int) -> None:
        self.initialised.add(block)
        nest, _ = split_init(anchor, block, self.names.unique)
        self.stmt(nest, depth)

    def stmt_block(self, stmt: Block, depth: int) -> None:
        if stmt.init is not None and stmt not in self.initialised:
            self.init(stmt, stmt, depth)  # no loop around is one of its reduction
        outer, self.block = self.block, stmt.name
        self.line(depth, f"# block {stmt.name}")
        for part in in_turn(stmt.predicate):
            if part is not TRUE:
                self.line(depth, f"if {self.expr(part)}:")
                depth += 1
        for it in stmt.iters:
            var, extent = self.name(it.var), self.expr(it.extent, above=4)
            self.line(depth, f"{var} = {self.expr(it.binding)}")
            if self.extents.get(it.binding) is it.extent:
                continue  # the loop runs over just this domain
            self.line(depth, f"if not 0 <= {var} < {extent}:")
            shown = f"{it.var.name!r}, {var}, {extent}, {stmt.name!r}"
            self.line(depth + 1, f"no_instance({shown})")
        self.stmt(stmt.body, depth)
        self.block = outer

    def stmt_store(self, stmt: Store, depth: int) -> None:
        width = max(dt.lanes(e.dtype) for e in (*stmt.indices, stmt.value))
        width = max(width, dt.lanes(stmt.buffer.dtype))
        target = f"store_{self.name(stmt.buffer)}"
        value = self.expr(stmt.value)
        if width > 1:
            # all lanes are read before the first is written
            self.line(
                depth,
                f"for lane, value in [(lane, {value}) for lane in range({width}){self.mask}]:",
            )
            depth, value = depth + 1, "value"
        indices = self.access(stmt.buffer, stmt.indices)
        self.line(depth, f"{target}({', '.join([*indices, value, repr(self.block)])})")

    def stmt_extern(self, stmt: Extern, depth: int) -> None:
        """Reads all inputs, calls the meaning, and then writes all outputs."""
        given = []
        for part in stmt.inputs:
            cells = self.names.unique(f"{part.buffer.name}_part")
            runs = "".join(f" for {v} in range({n})" for v, n in self.axes(part))
            where = ", ".join([*map(self.expr, part_indices(part)), repr(self.block)])
            self.line(depth, f"{cells} = [load_{self.name(part.buffer)}({where}){runs}]")
            given.append(cells)
        shapes = [_tuple([self.expr(n) for n in part.shape]) for part in stmt.parts]
        made = self.names.unique("made")
        dtypes = tuple(part.buffer.dtype for part in stmt.parts)
        arguments = f"{stmt.name!r}, {_tuple(given)}, {_tuple(shapes)}, {dtypes!r}"
        self.line(depth, f"{made} = extern({arguments})")
        for number, part in enumerate(stmt.outputs):
            inner = depth
            for v, n in self.axes(part):
                self.line(inner, f"for {v} in range({n}):")
                inner += 1
            where = ", ".join([*map(self.expr, part_indices(part)), f"next({made}[{number}])"])
            self.line(inner, f"store_{self.name(part.buffer)}({where}, {self.block!r})")

    def axes(self, part: Part) -> list[tuple[str, str]]:
        """The variables that run over a part, and their extents, as text."""
        found = part_axes(part)
        for number, var in enumerate(found):
            if var not in self.identifiers:
                self.identifiers[var] = self.names.unique(f"{part.buffer.name}_at{number}")
        return [(self.name(var), self.expr(extent)) for var, extent in found.items()]

    def stmt_let(self, stmt: Let, depth: int) -> None:
        value = self.expr(stmt.value)
        lanes = dt.lanes(stmt.var.dtype)
        if lanes > 1:
            wanted = f"({value}){self.mask} else None" if self.mask else value
            value = f"[{wanted} for lane in range({lanes})]"
        self.line(depth, f"{self.name(stmt.var)} = {value}")
        self.stmt(stmt.body, depth)

    def stmt_if(self, stmt: If, depth: int) -> None:
        if dt.lanes(stmt.cond.dtype) > 1:  # the statements run for the lanes where it holds
            self.mask = f" if {self.expr(stmt.cond)}"
            self.stmt(stmt.then, depth)
            self.mask = ""
            return
        self.line(depth, f"if {self.expr(stmt.cond)}:")
        self.stmt(stmt.then, depth + 1)
        if stmt.orelse is not None:
            self.line(depth, "else:")
            self.stmt(stmt.orelse, depth + 1)

    def stmt_prefetch(self, stmt: Prefetch, depth: int) -> None:
        self.line(depth, "pass")

    def stmt_alloc(self, stmt: Alloc, depth: int) -> None:
        self.line(depth, f"{self.name(stmt.buffer)}[:] = [None] * ({self.count(stmt.buffer)})")
        self.stmt(stmt.body, depth)


def _cells(buffer: Buffer) -> tuple[Expr, ...]:
    """The shape of `buffer` in scalars: a vector type adds a dimension of its lanes."""
    lanes = dt.lanes(buffer.dtype)
    return (*buffer.shape, const(lanes)) if lanes > 1 else buffer.shape


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
