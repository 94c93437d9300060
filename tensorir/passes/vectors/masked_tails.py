"""masked_tails: the last lanes of a vectorized loop as one vector of which a part counts.

A masked statement is an If on a vector condition, `ramp(0, 1, lanes) < broadcast(n, lanes)`: its
body runs for the lanes n that come first. Only loads and stores of those lanes happen; arithmetic
is done in all of them, on zeros where nothing was loaded.

Targets have masks for elements of any size (AVX-512), or of 32 and 64 bits (AVX2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Const, Expr, ExprLike, Load, Select, convert, int_value
from tensorir.stmt import For, If, Let, Seq, Stmt, Store
from tensorir.targets.target import Target
from tensorir.vector_expr import Broadcast, Ramp, Shuffle
from tensorir.visit import loads, stmt_exprs, walk, walk_exprs

NEEDED: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = (
    (("avx512bw", "avx512f", "avx512vl"), (8, 16, 32, 64)),
    (("avx2",), (32, 64)),
)
"""What a target has whose loads and stores take masks, and the bits of elements they are for."""

REGISTERS = (128, 256, 512)


def masked_bits(target: Target) -> tuple[int, ...]:
    """The bits of the elements of which `target` loads and stores the first lanes of a vector."""
    if target.kind != "c":
        return ()
    known = set(target.features)
    return next((bits for needed, bits in NEEDED if known.issuperset(needed)), ())


def first_lanes(count: Expr, lanes: int, body: Stmt) -> Stmt:
    """`body` for the first `count` of its lanes."""
    ramp = Ramp(Const(0, dt.INDEX), Const(1, dt.INDEX), lanes)
    return If(BinOp("<", ramp, Broadcast(count, lanes)), body)


def mask_count(cond: Expr) -> Expr | None:
    """The number of lanes that a condition made by `first_lanes` lets run; None for others."""
    if not isinstance(cond, BinOp) or cond.op != "<" or not isinstance(cond.a, Ramp):
        return None
    starts = int_value(cond.a.base) == 0 and int_value(cond.a.stride) == 1
    return cond.b.a if starts and isinstance(cond.b, Broadcast) else None


def lanes_between(low: ExprLike, high: ExprLike, lanes: int) -> Expr:
    """The condition of lanes [low, high); as that of a Select, of a load that only these make.

    The ends may lie outside of the vector, and pass each other.
    """
    ramp = Ramp(Const(0, dt.INDEX), Const(1, dt.INDEX), lanes)
    first, last = (Broadcast(convert(n), lanes) for n in (low, high))
    return BinOp("and", BinOp("<=", first, ramp), BinOp("<", ramp, last))


def masked_load(e: Expr) -> tuple[Load, Expr, Expr] | None:
    """The load of a Select made with `lanes_between`, and its lanes [low, high); or None."""
    if not isinstance(e, Select) or not isinstance(e.a, Load) or not isinstance(e.cond, BinOp):
        return None
    low, high = e.cond.a, e.cond.b
    if e.cond.op != "and" or not isinstance(low, BinOp) or not isinstance(high, BinOp):
        return None
    first = low.a.a if isinstance(low.a, Broadcast) else None
    last = mask_count(high)
    if low.op != "<=" or low.b is not high.a or first is None or last is None:
        return None
    fixed = isinstance(e.b, Broadcast) and isinstance(e.b.a, Const)
    return (e.a, first, last) if fixed else None


def mixed_widths(stmt: Stmt) -> set[str]:
    """The names of buffers that `stmt` stores by shorter vectors than it accesses elsewhere: a load
    of what several stores made waits for them, and one of a part of what one stored does not."""
    shortest, longest = dict[str, int](), dict[str, int]()
    for s in walk(stmt):
        found: list[Load | Store] = [load for e in stmt_exprs(s) for load in loads(e)]
        for access in (*found, s) if isinstance(s, Store) else found:
            name, lanes = access.buffer.name, dt.lanes(access.indices[0].dtype)
            longest[name] = max(lanes, longest.get(name, 1))
            if lanes > 1 and isinstance(access, Store):
                shortest[name] = min(lanes, shortest.get(name, lanes))
    return {name for name, lanes in shortest.items() if lanes < longest[name]}


WHOLE = "whole"
"""Function attribute: names of buffers that masked statements load and store as whole vectors.

Memory behind a masked store is not forwarded to a load, and gcc keeps no array in registers that a
masked builtin touches. So the old lanes of what one thread alone uses are stored again.
"""

LOOSE = "loose"
"""Function attribute: those of them whose other lanes nothing reads, so that they may change."""

SMALL = 16384
"""Bytes of the largest buffer that may be kept in registers, or is read soon after it is stored."""

REGISTER_FILE = 2048
"""Bytes of the largest buffer that may be kept in registers."""


class Maskable:
    """Whether vector code may run for some lanes: all it touches is contiguous, and nothing traps.

    What is the same in all lanes may be loaded, for one of them does run, but not stored. `shared`
    are the parameters, and `private` the buffers of one thread. `bits` are those of elements that
    masks are for. `whole` collects those of them that
    are accessed in whole vectors, and `kept` those whose old lanes something else may read: others
    have rows that end with the lanes that run (`rows`, the attribute that pad_rows writes).
    """

    def __init__(
        self,
        lanes: int,
        count: Expr,
        bits: Collection[int],
        shared: Collection[Buffer],
        private: Collection[Buffer],
        rows: Mapping[str, Sequence[int]],
        facts: Analyzer,
    ) -> None:
        self.lanes, self.count, self.rows, self.facts = lanes, count, rows, facts
        self.bits = bits
        self.shared, self.private = shared, private
        self.whole: set[str] = set()
        self.kept: set[str] = set()

    def stmt(self, stmt: Stmt) -> bool:
        if isinstance(stmt, Seq):
            return all(map(self.stmt, stmt.stmts))
        if isinstance(stmt, Store):
            return self.touches(stmt.buffer, stmt.indices[0]) and self.quiet(stmt.value)
        if isinstance(stmt, Let):
            return self.quiet(stmt.value) and self.stmt(stmt.body)
        if isinstance(stmt, For):
            return self.stmt(stmt.body)
        if isinstance(stmt, If):
            branches = [stmt.then, *([] if stmt.orelse is None else [stmt.orelse])]
            return dt.lanes(stmt.cond.dtype) == 1 and all(map(self.stmt, branches))
        return False

    def touches(self, buffer: Buffer, index: Expr, loading: bool = False) -> bool:
        """Whether `index` names neighbours that fill a register, and may be masked or whole.

        Loads of what is too large for registers may have a mask where whole ones end too far.
        """
        lanes = self.lanes
        if not isinstance(index, Ramp) or index.lanes != lanes or int_value(index.stride) != 1:
            return False
        bits = dt.bits(buffer.dtype)
        if bits not in self.bits or bits * lanes not in REGISTERS or dt.is_bool(buffer.dtype):
            return False
        size = int_value(buffer.shape[0])
        if buffer in self.shared or size is None or size * dt.itemsize(buffer.dtype) > SMALL:
            return True
        if buffer not in self.private or not self.facts.prove(index.base + lanes <= size):
            return loading and size * dt.itemsize(buffer.dtype) > REGISTER_FILE
        self.whole.add(buffer.name)
        if not self.ends_a_row(buffer, index.base):
            self.kept.add(buffer.name)
        return True

    def ends_a_row(self, buffer: Buffer, base: Expr) -> bool:
        """Whether the lanes from `base` on that do not run belong to no element."""
        extent, stride = self.rows.get(buffer.name, (0, 0))
        if not stride:
            return False
        start = int_value(self.facts.simplify(base % stride))
        if start is None or start + self.lanes > stride:
            return False
        return self.facts.simplify(self.count + start) is Const(extent, dt.INDEX)

    def quiet(self, e: Expr) -> bool:
        """Whether `e` can be evaluated for lanes that do not run."""
        for node in walk_exprs(e):
            if dt.lanes(node.dtype) == 1:
                continue
            if isinstance(node, Load) and not self.touches(node.buffer, node.indices[0], True):
                return False
            if isinstance(node, BinOp) and node.op in ("//", "%"):
                divisor = node.b.a if isinstance(node.b, Broadcast) else node.b
                if not int_value(divisor):
                    return False
            if isinstance(node, Shuffle):
                return False
        return True
