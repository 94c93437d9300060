"""Sums of floats in the units that multiply, where those that add have more to do.

Processors by AMD (Zen 1 to 5) have two units for multiply-adds, and two others for sums,
comparisons, maxima and minima. What looks for the least of sums keeps the second pair busy and the
first one idle. There `a + b` is written as `a * 1 + b`, which is the same number, for as many sums
as make both pairs take as long. The C text asks what it is compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence

from backends.c.emit.integer_sums import CountEmitter
from backends.c.emit.native import FEATURES
from backends.emit.expressions import ADD, MUL, Text, is_number
from backends.emit.sharing import uses_of
from tensorir import BinOp, Buffer, Call, Expr, Load, PrimFunc, Store, Target, loads
from tensorir import dtype as dt

FUNCTION = 8
"""Products that a function, a quotient or a root counts as, at least: they are polynomials, or keep
a unit for products busy."""

_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))

_TIMES_ONE = """\
/* Processors by AMD have other units for sums than for products, which have less to do here. */
#if defined(__SSE4A__) && defined(__FMA__)
#define TIMES_ONE(a, one) ((a) * (one))
#define HIDE(one) __asm__("" : "+v"(one)) /* a compiler that knows it leaves the product out */
#else
#define TIMES_ONE(a, one) (a)
#define HIDE(one) ((void)(one))
#endif"""


class AdderEmitter(CountEmitter):
    """Adds the choice of the units that add to the emitter."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.times_one: dict[Expr, str] = {}
        """Sums that are written as multiply-adds, and the vectors of ones that they take."""

    def in_register(self, buffer: Buffer) -> bool:
        """Whether elements of a buffer are variables."""
        return False

    def stmt_run(self, run: Sequence[Store]) -> None:
        before, self.times_one = self.times_one, {}
        ones: dict[str, str] = {}
        for e in self.moved(run):
            vector = self.vector_type(e.dtype)
            if vector not in ones:
                ones[vector] = self.names.fresh("one")
                self.declarations.setdefault("TIMES_ONE", _TIMES_ONE)
                self.line(f"{vector} {ones[vector]} = {self.splatter(e.dtype)}(1);")
                self.line(f"HIDE({ones[vector]});")
            self.times_one[e] = ones[vector]
        super().stmt_run(run)
        self.times_one = before

    def expr_binop(self, e: BinOp) -> Text:
        one = self.times_one.get(e)
        if one is None:
            return super().expr_binop(e)
        a, b = e.a, e.b
        if e.op == "+" and isinstance(a, Load) and a not in self.named:
            a, b = b, a  # what is added comes from memory as it is
        return f"TIMES_ONE({self.operand(a, b, 0)}, {one}) {e.op} {self.operand(b, a, MUL)}", ADD

    def is_operator(self, e: BinOp) -> bool:
        return e not in self.times_one and super().is_operator(e)

    def moved(self, run: Sequence[Store]) -> list[BinOp]:
        """The sums of consecutive stores that go to the units for products: half of what the other
        units have more to do, where these take longer than memory does.

        Sums that the stores add to what they have stored stay: they would come later.
        """
        if self.on_arm:
            return []
        values = {e: None for nodes in uses_of(run) for e in nodes}
        moves = sum(not self.in_register(e.buffer) for e in values if isinstance(e, Load))
        moves += sum(2 for store in run if not self.in_register(store.buffer))
        added = products = 0
        for e in values:
            more = self._operations(e)
            added, products = added + more[0], products + more[1]
        if added <= max(moves, products + 1):
            return []
        written = {store.buffer for store in run}
        sums = [
            e
            for e in values
            if isinstance(e, BinOp)
            and e.op in ("+", "-")
            and self._operations(e) == (1, 0)
            and not any(load.buffer in written for load in loads(e))
        ]
        count = min(len(sums), (added - products) // 2)
        return [
            e for n, e in enumerate(sums) if (n + 1) * count // len(sums) > n * count // len(sums)
        ]

    def _operations(self, e: Expr) -> tuple[int, int]:
        """How many instructions for sums and for products `e` is, of its operands."""
        compares = isinstance(e, BinOp) and e.op in _COMPARISONS
        dtype = e.a.dtype if isinstance(e, BinOp) else e.dtype
        bits = 8 * dt.itemsize(dtype)
        real = dt.element(dtype) in ("float32", "float64") and dt.lanes(dtype) > 1
        if not real or bits not in FEATURES or bits > (self.target.vector_bits or 0):
            return 0, 0
        if isinstance(e, Call):
            return 0, FUNCTION
        if not isinstance(e, BinOp):
            return 0, 0
        to_masks = bits == 512
        if compares:
            return (0, 1) if to_masks else (1, 0)
        if e.op in ("max", "min"):
            if is_number(e.a) or is_number(e.b):
                return 1, 0
            return (1, 1) if to_masks else (2, 1)  # which finds NaN as well
        if e.op == "/":
            return 0, FUNCTION
        fused = any(isinstance(x, BinOp) and x.op == "*" for x in (e.a, e.b))
        return (0, 1) if e.op == "*" else (0 if fused else 1, 0)
