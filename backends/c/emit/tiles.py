"""Tile registers in C text: set up around what uses them, and sums that stay in them.

    zeros(C)                            zeros_on()
    for k: product(A, B, C)      ->     for k: product_on(A, B)
                                        product_out(C)

gcc has no values for tiles, as it has for vectors, so it cannot keep them across a loop by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from backends.c.emit.masked import MaskedEmitter
from backends.c.emit.team import is_shared
from backends.c.tiles import REFUSED, TILES_TEXT
from backends.emit.intrinsic_calls import IntrinsicCall, intrinsic_call, intrinsic_function
from tensorir import (
    TENSORIZE,
    Alloc,
    For,
    ForKind,
    Operand,
    PrimFunc,
    Seq,
    Stmt,
    Target,
    TensorIntrin,
    Var,
    find_intrin,
    loads,
    variables,
    walk,
)
from tensorir import dtype as dt


@dataclass(frozen=True)
class Held:
    """What a run of statements holds in tiles.

    call    the first of its calls
    whole   whether that writes all of the output without asking what was there
    """

    call: IntrinsicCall
    whole: bool


class TileEmitter(MaskedEmitter):
    """Adds calls of intrinsics that work on tile registers.

    in_parallel   whether what is printed is one thread's part
    tiles_ready   whether what is printed runs where tiles are configured
    tiles_open    whether the function that is printed has configured them itself
    held          what the calls that are being printed hold
    """

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.intrinsics: dict[str, str] = {}
        self.trial: TensorIntrin | None = None  # one that is being checked
        self.in_parallel = False
        self.tiles_ready = self.tiles_open = False
        self.held: Held | None = None

    def ask_for_tiles(self) -> None:
        """The line with which a kernel that uses tiles begins."""
        if self.uses_tiles(self.func.body):
            self.type_name(dt.INDEX)
            self.declarations.setdefault("tiles", TILES_TEXT)
            self.line(f"if (!tiles_allowed()) return {REFUSED};")

    @contextmanager
    def tiles_around(self, s: Stmt) -> Iterator[None]:
        """Lines around those of `s`, which one thread runs, that it needs for its tiles."""
        needed = self.uses_tiles(s)
        if needed:
            self.line("tiles_begin();")
        yield
        if needed:
            self.line("tiles_end();")

    def uses_tiles(self, s: Stmt) -> bool:
        """Whether `s` may call an intrinsic that works on tiles."""
        return any(isinstance(node, For) and self._works_on_tiles(node) for node in walk(s))

    def stmt(self, s: Stmt) -> None:
        apart = isinstance(s, Alloc) or not self.in_parallel and is_shared(s)
        # Each thread configures its own, and has the memory that it needs by then.
        if self.tiles_ready or apart or not self.uses_tiles(s):
            super().stmt(s)
            return
        self.tiles_ready = self.tiles_open = True
        with self.tiles_around(s):
            super().stmt(s)
        self.tiles_ready = self.tiles_open = False

    def stmt_seq(self, s: Seq) -> None:
        if not self.tiles_ready or self.held is not None:
            super().stmt_seq(s)
            return
        rest: list[Stmt] = []
        for part, held in self._runs(s.stmts):
            if held is None:
                rest += part
                continue
            super().stmt_seq(Seq(tuple(rest)))
            rest = []
            self.held_run(part, held)
        super().stmt_seq(Seq(tuple(rest)))

    def stmt_for(self, s: For) -> None:
        plain = TENSORIZE not in s.annotations
        held = self._held_by([s]) if plain and self.tiles_ready and self.held is None else None
        if held is None:
            super().stmt_for(s)
        else:
            self.held_run([s], held)

    def held_run(self, stmts: Sequence[Stmt], held: Held) -> None:
        """Statements whose calls hold one output: it is loaded before and stored after them."""
        call = held.call
        output, name = call.operands[-1], intrinsic_function(self, call.intrin, call.intrin.source)
        steps = [self.expr(step) for step in output.strides]
        place = ", ".join([f"&{self.element(output.buffer, (output.base,))}", *steps])
        if not held.whole:
            self.line(f"{name}_in({place});")
        self.held = held
        for s in stmts:
            self.stmt(s)
        self.held = None
        self.line(f"{name}_out({place});")

    def _runs(self, stmts: Sequence[Stmt]) -> Iterator[tuple[Sequence[Stmt], Held | None]]:
        """The statements of a sequence: one by one, or as many as can hold one output together."""
        at = 0
        while at < len(stmts):
            end, held = at + 1, self._held_by(stmts[at : at + 1])
            while held is not None and end < len(stmts):
                more = self._held_by(stmts[at : end + 1])
                if more is None:
                    break
                end, held = end + 1, more
            single = end == at + 1 and held is not None and held.whole
            yield stmts[at:end], None if single else held
            at = end

    def _held_by(self, stmts: Sequence[Stmt]) -> Held | None:
        """What statements hold, if they are nothing but calls that can hold one output."""
        calls: list[IntrinsicCall] = []
        inside: set[Var] = set()
        if not all(self._collect(s, calls, inside) for s in stmts) or not calls:
            return None
        first, output = calls[0], calls[0].operands[-1]
        same = all(
            call.intrin.tiles == first.intrin.tiles and _same(output, call.operands[-1])
            for call in calls
        )
        if not same or any(variables(e) & inside for e in (output.base, *output.strides)):
            return None
        store = first.intrin.nest.store
        blind = all(load.buffer is not store.buffer for load in loads(store.value))
        at_once = isinstance(stmts[0], For) and TENSORIZE in stmts[0].annotations
        return Held(first, blind and at_once and not first.guards)

    def _collect(self, s: Stmt, calls: list[IntrinsicCall], inside: set[Var]) -> bool:
        """Note the calls in `s`, and the loops around them; False where there are other things."""
        if isinstance(s, Seq):
            return all(self._collect(each, calls, inside) for each in s.stmts)
        if not isinstance(s, For):
            return False
        if TENSORIZE not in s.annotations:
            inside.add(s.var)
            kept = s.kind in (ForKind.SERIAL, ForKind.UNROLLED)
            return kept and self._collect(s.body, calls, inside)
        call = None
        if self._works_on_tiles(s):
            call = intrinsic_call(self.func, s, self.target, self.trial)
        if not isinstance(call, IntrinsicCall):
            return False
        calls.append(call)
        return True

    def _works_on_tiles(self, s: For) -> bool:
        if TENSORIZE not in s.annotations:
            return False
        intrin = self.trial or find_intrin(str(s.annotations[TENSORIZE]))
        known = self.target.instructions
        return intrin is not None and bool(intrin.tiles) and intrin.runs_on(known)


def _same(one: Operand, other: Operand) -> bool:
    """Whether two operands are the same part of a buffer."""
    return one.buffer is other.buffer and one.base is other.base and one.strides == other.strides
