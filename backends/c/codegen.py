"""C text for a lowered program: signature, OpenMP, and where buffers live.

    int NAME(const float *restrict A, ..., float *restrict C, i64 n);   0, or 1: out of memory
    void NAME_release(void);                                frees the memory kept between calls

Arguments are the buffers in call order and then the symbolic sizes. Loop variables and index
arithmetic are int64: on 64-bit machines it costs nothing. The body of a parallel loop is a function
of its own, because gcc forgets `restrict` in the functions it makes for OpenMP (measured with
gcc 12: accumulators in an output stay in registers this way, and are stored in every step else).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from backends.c.memory import MemoryEmitter
from backends.c.tensorized import intrinsic_call
from backends.c.threads import THREADS_TEXT
from backends.c.workspace import workspace_text
from backends.errors import BuildError
from backends.expressions import ADD, UNARY
from backends.names import c_identifier
from backends.sharing import SharedLoad
from tensorir import (
    Alloc,
    Buffer,
    Expr,
    For,
    ForKind,
    Let,
    Load,
    Prefetch,
    PrimFunc,
    Stmt,
    Store,
    Target,
    TensorIntrin,
    Var,
    stmt_exprs,
    walk,
    walk_exprs,
)
from tensorir import dtype as dt

SCHEDULES = ("static", "dynamic", "guided")

_KEEP = """\
#if defined(__x86_64__) && defined(__GNUC__)
#define KEEP(v) __asm__("" : "+v"(v)) /* keeps gcc from loading v again at each of its few uses */
#else
#define KEEP(v) ((void)0)
#endif"""


_PREFETCH = """\
/* By integers, since the element may lie outside of the array. */
#define PREFETCH(p, i) __builtin_prefetch((const void *)( \\
    (__UINTPTR_TYPE__)(p) + (__UINTPTR_TYPE__)(i) * sizeof *(p)))"""


_UNROLL = """\
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define UNROLL(n) PRAGMA(unroll n)
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif"""


def emit(func: PrimFunc, target: Target) -> str:
    """The complete C text of a lowered program; needs no header.

    Raises BuildError where the program is not lowered or uses what C does not have.
    """
    return CEmitter(func, target).text()


def c_name(func: PrimFunc) -> str:
    """The name of the kernel's function in the C text."""
    return c_identifier(func.name)


def signature(func: PrimFunc) -> str:
    """The declaration of the kernel without the semicolon, in the types that the text defines."""
    emitter = CEmitter(func, Target())
    return emitter.signature()


class CEmitter(MemoryEmitter):
    """Prints a program as C with GCC's extensions, which clang shares."""

    stack_bytes: ClassVar[int] = 16 * 1024
    """Buffers up to this size live on the stack, the larger ones in the workspace."""
    columns: ClassVar[int] = 96
    keep_uses: ClassVar[int] = 4
    """gcc 12 turns a vector with this many uses or fewer back into memory operands."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.name = self.names.fresh(func.name)
        self.names.fresh(f"{self.name}_release")
        self.functions: list[str] = []
        self.intrinsics: dict[str, str] = {}
        self.trial: TensorIntrin | None = None  # one that is being checked
        self.slots = 0
        self.taken: list[tuple[int, str]] = []
        self.in_parallel = False
        for buffer in func.params:
            self.names.of(buffer)

    # The whole text

    def text(self) -> str:
        self.type_name(dt.INDEX)
        self.stmt(self.func.body)
        self.stream_fence(self.func.body)
        before, after = workspace_text(self.slots, f"{self.name}_release")
        kernel = "\n".join([f"{self.signature()} {{", *self.lines, f"{self.indent}return 0;", "}"])
        parts = [self.header(), self.prelude(), before, *self.functions, kernel, after]
        return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"

    def header(self) -> str:
        outputs = self.func.outputs
        lines = [f"/* {self.name}, generated for {replace(self.target, features=())}", ""]
        for buffer in self.func.params:
            way = "writes" if buffer in outputs else "reads"
            lines.append(f"   {way} {self.names.of(buffer)}: {_shape(buffer)}")
        return "\n".join([*lines, "*/"])

    def prelude(self) -> str:
        """Types first, then macros and helpers, each group in the order of need."""
        texts = list(self.declarations.values())
        types = [t for t in texts if t.startswith("typedef")]
        macros = [t for t in texts if t.startswith("#define")]
        others = [t for t in texts if t not in types and t not in macros]
        groups = ["\n".join(types), "\n".join(macros), *others]
        return "\n\n".join(group for group in groups if group)

    def signature(self) -> str:
        outputs = self.func.outputs
        params = [self.parameter(b, b in outputs) for b in self.func.params]
        params += [f"{self.type_name(v.dtype)} {self.names.of(v)}" for v in self.func.size_vars]
        return self.head(f"int {self.name}", params)

    def head(self, name: str, params: list[str]) -> str:
        """A function's head, with one parameter a line where they are many."""
        text = f"{name}({', '.join(params) or 'void'})"
        if len(text) <= self.columns:
            return text
        lines = ",\n".join(f"{self.indent}{p}" for p in params)
        return f"{name}(\n{lines})"

    def parameter(self, buffer: Buffer, written: bool) -> str:
        const = "" if written else "const "
        return f"{const}{self.type_name(buffer.dtype)} *restrict {self.names.of(buffer)}"

    # Loops

    def prefix_unroll(self, s: For) -> None:
        count = s.const_extent
        if count is not None and count > 1:
            self.declarations.setdefault("UNROLL", _UNROLL)
            self.line(f"UNROLL({min(count, 65534)})")

    def stmt_for(self, s: For) -> None:
        if "tensorize" in s.annotations and intrinsic_call(self, s, self.trial):
            return
        if s.kind is not ForKind.PARALLEL or self.in_parallel:
            super().stmt_for(s)
            return
        self.parallel_loop(s)

    def parallel_loop(self, s: For) -> None:
        """A call of the body for each iteration, shared among the threads by OpenMP."""
        function, arguments, may_fail = self.outline(s)
        call = f"{function}({', '.join(arguments)});"
        if not may_fail:
            self.shared_loop(s, call, may_fail)
            return
        with self.block(""):
            self.line("int failed = 0;")
            self.shared_loop(s, f"failed |= {call}", may_fail)
            self.give_up_if("failed")

    def shared_loop(self, s: For, call: str, may_fail: bool) -> None:
        var, index = self.names.of(s.var), self.type_name(s.var.dtype)
        head = f"for ({index} {var} = 0; {var} < {self.expr(s.extent, ADD)}; {var}++)"
        if self.target.threads == 1:
            self.line(head)
            self.line(f"{self.indent}{call}")
            return
        self.declarations.setdefault("threads", THREADS_TEXT)
        schedule = self.schedule(s)
        with self.block(""):
            self.line("const int home = threads_home();")
            self.line(f"#pragma omp parallel{self.clauses(may_fail)}")
            with self.block(""):
                self.line("threads_spread(home);")
                self.line(f"#pragma omp for schedule({schedule}) nowait")
                self.line(head)
                self.line(f"{self.indent}{call}")
                self.stream_fence(s.body)

    def schedule(self, s: For) -> str:
        schedule = s.annotations.get("schedule", "static")
        if str(schedule).partition(",")[0] not in SCHEDULES:
            raise BuildError(
                f"{self.func.name}: loop {s.name!r} has schedule {schedule!r}; "
                f"known are {', '.join(SCHEDULES)}"
            )
        return str(schedule)

    def clauses(self, may_fail: bool) -> str:
        clauses = ""
        if self.target.threads is not None:
            clauses += f" num_threads({self.target.threads})"
        return f"{clauses} reduction(|:failed)" if may_fail else clauses

    def outline(self, s: For) -> tuple[str, list[str], bool]:
        """Print the body of `s` as a function; its name, arguments, and whether it can fail."""
        buffers, variables, written = free_names(s)
        params = [self.parameter(b, b in written) for b in buffers]
        params += [f"const {self.type_name(v.dtype)} {self.names.of(v)}" for v in variables]
        function = self.names.fresh(f"{self.name}_{self.names.of(s.var)}")
        outer = self.lines, self.depth, self.taken, self.named, self.slots
        self.lines, self.depth, self.taken, self.named = [], 1, [], {}
        self.in_parallel = True
        with self.bounds.loop(s.var, s.extent):
            self.stmt(s.body)
        self.in_parallel = False
        may_fail = self.slots > outer[4]
        head = self.head(f"static {'int' if may_fail else 'void'} {function}", params) + " {"
        end = [f"{self.indent}return 0;"] if may_fail else []
        self.functions.append("\n".join([head, *self.lines, *end, "}"]))
        self.lines, self.depth, self.taken, self.named, _ = outer
        names = [*map(self.names.of, buffers), *map(self.names.of, variables)]
        return function, names, may_fail

    # Buffers

    def stmt_prefetch(self, s: Prefetch) -> None:
        self.declarations.setdefault("PREFETCH", _PREFETCH)
        self.line(f"PREFETCH({self.names.of(s.buffer)}, {self.expr(s.indices[0])});")

    def stmt_alloc(self, s: Alloc) -> None:
        (size,) = s.buffer.const_shape or (None,)
        name, element = self.names.of(s.buffer), self.type_name(s.buffer.dtype)
        item = dt.itemsize(s.buffer.dtype)
        if size is not None and size * item <= self.stack_bytes:
            self.line(f"{element} {name}[{max(size, 1)}] __attribute__((aligned(64)));")
            self.stmt(s.body)
            return
        slot, self.slots = self.slots, self.slots + 1
        count = self.expr(s.buffer.shape[0], UNARY) if size is None else str(size)
        self.line(f"{element} *restrict {name} = workspace_take({slot}, {count} * {item});")
        self.give_up_if(f"!{name}")
        self.taken.append((slot, name))
        self.stmt(s.body)
        self.taken.pop()
        self.line(f"workspace_give({slot}, {name});")

    def give_up_if(self, condition: str) -> None:
        """Leave the function with status 1; memory taken so far is put back."""
        with self.block(f"if ({condition})"):
            for slot, name in reversed(self.taken):
                self.line(f"workspace_give({slot}, {name});")
            self.line("return 1;")

    # Registers

    def name_load(self, shared: SharedLoad) -> str:
        load = shared.load
        width = dt.itemsize(load.dtype) * 8
        keep = (
            dt.lanes(load.dtype) > 1
            and 1 < shared.statements <= self.keep_uses
            and 128 <= width <= (self.target.vector_bits or 0)
            and not dt.is_bool(load.dtype)
        )
        name = super().name_load(shared)
        if keep:
            self.declarations.setdefault("KEEP", _KEEP)
            self.lines[-1] = self.lines[-1].replace("const ", "", 1)
            self.line(f"KEEP({name});")
        return name


def _shape(buffer: Buffer) -> str:
    return f"{dt.SHORT[dt.element(buffer.dtype)]}[{', '.join(map(repr, buffer.shape))}]"


def free_names(s: For) -> tuple[list[Buffer], list[Var], set[Buffer]]:
    """What one iteration of `s` refers to: buffers, variables, and the buffers it writes."""
    buffers: dict[Buffer, None] = {}
    variables: dict[Var, None] = {s.var: None}
    written: set[Buffer] = set()
    inside: set[Buffer | Var] = set()
    for stmt in walk(s.body):
        _note_statement(stmt, buffers, written, inside)
        for e in (*stmt_exprs(stmt), *_sizes(stmt)):
            for node in walk_exprs(e):
                if isinstance(node, Load):
                    buffers[node.buffer] = None
                elif isinstance(node, Var):
                    variables[node] = None
    return (
        [b for b in buffers if b not in inside],
        [v for v in variables if v not in inside],
        written,
    )


def _note_statement(
    stmt: Stmt, buffers: dict[Buffer, None], written: set[Buffer], inside: set[Buffer | Var]
) -> None:
    if isinstance(stmt, Store):
        buffers[stmt.buffer] = None
        written.add(stmt.buffer)
    elif isinstance(stmt, Prefetch):
        buffers[stmt.buffer] = None
    elif isinstance(stmt, (For, Let)):
        inside.add(stmt.var)
    elif isinstance(stmt, Alloc):
        inside.add(stmt.buffer)


def _sizes(stmt: Stmt) -> tuple[Expr, ...]:
    return stmt.buffer.shape if isinstance(stmt, Alloc) else ()
