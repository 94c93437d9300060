"""Parallel loops: OpenMP regions, and the functions that their iterations are.

The body of a parallel loop is a function of its own, because gcc forgets `restrict` in the
functions it makes for OpenMP (measured with gcc 12: accumulators in an output stay in registers
this way, and are stored in every step else).

A loop runs without OpenMP where a call gives its symbolic sizes so little work that starting
threads costs more. With constant sizes the schedule decides, and the tuner has a choice of its own
for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from backends.c.emit.outline import free_names
from backends.c.emit.team import is_shared, plan_team
from backends.c.emit.tiles import TileEmitter
from backends.c.emit.work import work_of
from backends.c.threads import THREADS_TEXT
from backends.emit.expressions import ADD
from backends.emit.names import symbol
from backends.errors import BuildError
from tensorir import (
    Buffer,
    For,
    ForKind,
    If,
    PrimFunc,
    Seq,
    Stmt,
    Target,
    Var,
    int_value,
    seq,
)
from tensorir import dtype as dt

SCHEDULES = ("static", "dynamic", "guided")

APART, LONG = "__attribute__((noinline)) ", 1 << 15
"""Tasks of so many operations are functions that stay apart: where gcc 12 puts one into the loop
over tasks, what that loop needs takes vector registers, and up to 21 operands of the 24 additions
of a tile were in memory. A call costs 20 cycles."""

LEAST_WORK = 1 << 13
"""Operations below which one thread is faster: about two microseconds of them, which is what
waking and joining the other threads costs where they still spin."""

ONLY_FOR_THREADS = re.compile(r"\s*(#pragma omp|threads_spread|const int home = )")
"""Lines of a region that one thread by itself does without."""


class ParallelEmitter(TileEmitter):
    """Adds functions, parallel loops and memory to the emitter."""

    stack_bytes: ClassVar[int] = 16 * 1024
    """Buffers up to this size live on the stack, the larger ones in the workspace."""
    columns: ClassVar[int] = 96

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.name = self.names.fresh(symbol(func.name))
        self.functions: list[str] = []
        self.globals: list[str] = [self.name]  # names of functions
        self.slots: dict[object, int] = {}  # lists of free blocks by their bytes, if known
        self.sites = 0  # where memory is taken, so far
        self.taken: list[tuple[int, str]] = []
        self.team: Stmt | None = None  # what is to be printed as one region

    def root(self, body: Stmt) -> None:
        """Print the body of the kernel, as one parallel region where that saves others."""
        plan = None
        if self.target.threads != 1:
            plan = plan_team(body, self.func.size_vars, self.on_stack)
        self.team = None if plan is None else plan.team
        self.stmt(body if plan is None else plan.body)

    def stmt(self, s: Stmt) -> None:
        if s is self.team:
            self.region(s)
        else:
            super().stmt(s)

    def stmt_for(self, s: For) -> None:
        if s.kind is not ForKind.PARALLEL or self.in_parallel:
            super().stmt_for(s)
            return
        self.parallel_loop(s)

    # One loop by itself

    def parallel_loop(self, s: For) -> None:
        """A call of the body for each iteration, shared among the threads by OpenMP."""
        function, arguments, may_fail = self.outline(s.body, s)
        call = f"{function}({', '.join(arguments)});"
        if not may_fail:
            self.shared_loop(s, call, may_fail)
            return
        with self.block(""):
            self.line("int failed = 0;")
            self.shared_loop(s, f"failed |= {call}", may_fail)
            self.give_up_if("failed")

    def shared_loop(self, s: For, call: str, may_fail: bool) -> None:
        if self.target.threads == 1:
            with self.tiles_around(s):
                self.line(self.loop_head(s))
                self.line(f"{self.indent}{call}")
            return
        with self.in_region(s, " reduction(|:failed)" if may_fail else ""):
            self.worksharing(s, call)

    def worksharing(self, s: For, call: str) -> None:
        """Iterations for each of the threads that come here; none waits for the others."""
        with self.tiles_around(s):
            self.line(f"#pragma omp for schedule({self.schedule(s)}) nowait")
            self.line(self.loop_head(s))
            self.line(f"{self.indent}{call}")
        self.stream_fence(s.body)

    def loop_head(self, s: For) -> str:
        var, index = self.names.of(s.var), self.type_name(s.var.dtype)
        return f"for ({index} {var} = 0; {var} < {self.expr(s.extent, ADD)}; {var}++)"

    @contextmanager
    def in_region(self, s: Stmt, clause: str = "") -> Iterator[None]:
        """What all threads run, started ahead of it. Where a call brings so little that one thread
        is faster, it runs the same by itself: OpenMP takes half a microsecond for a team of one."""
        self.declarations.setdefault("threads", THREADS_TEXT)
        begun, threads = len(self.lines), self.target.threads
        count = "" if threads is None else f" num_threads({threads})"
        # Constant work is what the schedule asked for; how much a call brings it cannot know.
        work = work_of(s, self.func.size_vars) if self.func.size_vars else None
        with self.block(""):
            self.line("const int home = threads_home();")
            self.line(f"#pragma omp parallel{count}{clause}")
            with self.block(""):
                self.line("threads_spread(home);")
                yield
        if work is None or int_value(work) is not None:
            return
        head, *shared = self.lines[begun:]
        alone = [line for line in shared if not ONLY_FOR_THREADS.match(line)]
        few = f"{head[:-1]}if ({self.expr(work, ADD)} <= {LEAST_WORK}) {{"
        self.lines[begun:] = [few, *alone, f"{head[:-1]}else {{", *shared]

    def schedule(self, s: For) -> str:
        schedule = s.annotations.get("schedule", "static")
        if str(schedule).partition(",")[0] not in SCHEDULES:
            raise BuildError(
                f"{self.func.name}: loop {s.name!r} has schedule {schedule!r}; "
                f"known are {', '.join(SCHEDULES)}"
            )
        return str(schedule)

    # Several loops in one region

    def region(self, s: Stmt) -> None:
        """`s` as one region; see backends.c.emit.team."""
        with self.in_region(s):
            self.together(s, last=True)

    def together(self, s: Stmt, last: bool) -> None:
        """Print what every thread of a region goes through; all wait at its end if not `last`."""
        if not is_shared(s):
            self.by_one(s)
            self.wait(last)
        elif isinstance(s, Seq):
            parts = _parts(s)
            for n, part in enumerate(parts, 1):
                self.together(part, last and n == len(parts))
        elif isinstance(s, For) and s.kind is ForKind.PARALLEL:
            function, arguments, _ = self.outline(s.body, s)
            self.worksharing(s, f"{function}({', '.join(arguments)});")
            self.wait(last)
        elif isinstance(s, For):
            with self.block(self.loop_head(s)), self.bounds.loop(s.var, s.extent):
                self.together(s.body, last=False)
        elif isinstance(s, If):
            with self.block(f"if ({self.expr(s.cond)})"):
                self.together(s.then, last)
            if s.orelse is not None:
                with self.block("else"):
                    self.together(s.orelse, last)

    def by_one(self, s: Stmt) -> None:
        """A serial statement: the thread of the caller runs it."""
        function, arguments, _ = self.outline(s)
        self.line("#pragma omp master")
        with self.block(""):
            self.line(f"{function}({', '.join(arguments)});")
            self.stream_fence(s)

    def wait(self, last: bool) -> None:
        if not last:
            self.line("#pragma omp barrier")

    # Functions

    def outline(self, s: Stmt, loop: For | None = None) -> tuple[str, list[str], bool]:
        """Print `s`, the body of `loop` if there is one, as a function.

        Returns its name, its arguments, and whether it can fail.
        """
        buffers, variables, written = free_names(s)
        if loop is not None:
            variables = [loop.var, *(v for v in variables if v is not loop.var)]
        params = [self.parameter(b, b in written) for b in buffers]
        params += [f"const {self.type_name(v.dtype)} {self.names.of(v)}" for v in variables]
        end = "once" if loop is None else self.names.of(loop.var)
        function = self.names.fresh(f"{self.name}_{end}")
        self.globals.append(function)
        outer = self.lines, self.depth, self.taken, self.named, self.sites
        self.lines, self.depth, self.taken, self.named = [], 1, [], {}
        constant, self.constant = self.constant, frozenset(buffers) - frozenset(written)
        self.in_parallel = True
        tiles = self.tiles_ready, self.tiles_open
        arrays, self.arrays = self.arrays, set()  # which it is given as pointers
        self.tiles_ready, self.tiles_open = loop is not None, False
        if loop is None:
            self.stmt(s)
        else:
            with self.bounds.loop(loop.var, loop.extent):
                self.stmt(s)
        self.in_parallel = False
        self.tiles_ready, self.tiles_open = tiles
        self.arrays = arrays
        may_fail = self.sites > outer[4]
        work = work_of(s, self.func.size_vars)
        short = work is not None and (int_value(work) or LONG) < LONG
        kind = f"{'' if short else APART}static {'int' if may_fail else 'void'}"
        head = self.head(f"{kind} {function}", params) + " {"
        ending = [f"{self.indent}return 0;"] if may_fail else []
        self.functions.append("\n".join([head, *self.lines, *ending, "}"]))
        self.lines, self.depth, self.taken, self.named, _ = outer
        self.constant = constant
        return function, self.arguments(buffers, variables), may_fail

    def arguments(self, buffers: list[Buffer], variables: list[Var]) -> list[str]:
        return [*map(self.names.of, buffers), *map(self.names.of, variables)]

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

    # Memory

    def on_stack(self, buffer: Buffer) -> bool:
        """Whether the buffer is small enough for the stack; it is flat."""
        (size,) = buffer.const_shape or (None,)
        return size is not None and size * dt.itemsize(buffer.dtype) <= self.stack_bytes

    def give_up_if(self, condition: str) -> None:
        """Leave the function with status 1; memory taken so far is put back."""
        with self.block(f"if ({condition})"):
            for slot, name in reversed(self.taken):
                self.line(f"workspace_give(&workspace_free[{slot}], {name});")
            if self.tiles_open:
                self.line("tiles_end();")
            self.line("return 1;")


def _parts(s: Seq) -> list[Stmt]:
    """The statements of a sequence; neighbours without anything to share are one."""
    parts: list[Stmt] = []
    for child in s.stmts:
        if parts and not is_shared(child) and not is_shared(parts[-1]):
            parts[-1] = seq(parts[-1], child)
        else:
            parts.append(child)
    return parts
