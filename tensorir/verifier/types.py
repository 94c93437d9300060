"""The typing rules of the IR: one function for each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Not, Select, Var, int_value
from tensorir.func import PrimFunc
from tensorir.numbers.intrin import MATH, REINTERPRET, no_such_function
from tensorir.numbers.operators import check_operator
from tensorir.stmt import Block, Exchange, For, ForKind, If, Let, Prefetch, Stmt, Store
from tensorir.vector_expr import Broadcast, Ramp, Shuffle
from tensorir.visit import child_stmts, stmt_exprs, walk, walk_exprs

BODIES = 1024
"""Bodies of blocks that are known to be well typed: schedules of a program share them."""


def check_types(func: PrimFunc) -> None:
    """Raise VerifyError where types, ranks or constant extents of `func` do not fit together."""
    for buffer in (*func.params, *func.buffers):
        _shape(buffer)
    seen: set[Expr] = set()
    stack = [func.body]
    while stack:
        stmt = stack.pop()
        _statement(stmt, seen)
        if isinstance(stmt, Block):
            for part in child_stmts(stmt):
                _body(part)
        else:
            stack.extend(reversed(child_stmts(stmt)))


@lru_cache(maxsize=BODIES)
def _body(body: Stmt) -> None:
    """Check the body or init of a block."""
    seen: set[Expr] = set()
    for stmt in walk(body):
        _statement(stmt, seen)


def _statement(stmt: Stmt, seen: set[Expr]) -> None:
    """Check a statement without those in it; expressions in `seen` were checked before."""
    rule = _STATEMENTS.get(type(stmt))
    if rule is not None:
        rule(stmt)
    for e in stmt_exprs(stmt):
        new = [node for node in walk_exprs(e) if node not in seen] if e not in seen else []
        seen.update(new)
        for node in reversed(new):  # operands before operations: the smaller thing is named
            _node(node)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise VerifyError(text)


def _shape(buffer: Buffer) -> None:
    for size in buffer.shape:
        value = int_value(size)
        if value is not None and value < 0:
            raise VerifyError(f"buffer {buffer!r} has a negative size")
        if size.dtype != dt.INDEX:
            raise VerifyError(f"buffer {buffer!r} has a size of type {size.dtype}")


def _node(e: Expr) -> None:
    rule = _EXPRESSIONS.get(type(e))
    if rule is None:
        raise VerifyError(f"{e!r} is a {type(e).__name__}, which a function cannot contain")
    rule(e)


def _access(buffer: Buffer, indices: tuple[Expr, ...], text: object) -> None:
    count = len(indices)
    if count != buffer.ndim:
        rank = buffer.ndim
        raise VerifyError(f"{text} has {count} indices, but {buffer!r} has rank {rank}")
    for index in indices:
        if dt.element(index.dtype) != dt.INDEX:
            raise VerifyError(
                f"{text} has the index {index!r} of type {index.dtype}; convert it to {dt.INDEX}"
            )


def _binary(e: BinOp) -> None:
    if e.a.dtype != e.b.dtype:
        raise VerifyError(
            f"the operands of {e!r} have dtypes {e.a.dtype} and {e.b.dtype}; convert one"
        )
    try:
        check_operator(e.op, e.a.dtype)
    except TensorIRError as error:
        raise VerifyError(f"{e!r}: {error}") from None


def _select(e: Select) -> None:
    if not dt.is_bool(e.cond.dtype):
        raise VerifyError(f"the condition of {e!r} is {e.cond.dtype}, not bool")
    if e.a.dtype != e.b.dtype:
        dtypes = f"{e.a.dtype} and {e.b.dtype}"
        raise VerifyError(f"the two sides of {e!r} have dtypes {dtypes}; convert one")


def _call(e: Call) -> None:
    if e.name == REINTERPRET:
        _reinterpret(e)
        return
    row = MATH.get(e.name)
    if row is None:
        raise VerifyError(f"{e!r}: {no_such_function(e.name)}")
    count = len(e.args)
    if count != row.arity:
        raise VerifyError(f"{e.name} takes {row.arity} arguments, and {e!r} has {count}")
    for arg in e.args:
        if not row.takes(arg.dtype) or dt.element(arg.dtype) in dt.STORAGE_ONLY:
            named = {"float": "float32 or float64", "int": "a type of integers"}
            wanted = " or ".join(named.get(kind, kind) for kind in row.kinds)
            raise VerifyError(f"{e!r} is applied to {arg.dtype}; convert it to {wanted}")
        if arg.dtype != e.args[0].dtype:
            raise VerifyError(f"the arguments of {e!r} differ in dtype")
    result = row.result_of(e.args[0].dtype)
    _require(e.dtype == result, f"{e!r} has dtype {e.dtype}, and {e.name} gives {result}")


def _reinterpret(e: Call) -> None:
    types = [e.dtype, *(a.dtype for a in e.args)]
    sizes = {(dt.bits(t), dt.lanes(t)) for t in types}
    if len(types) != 2 or any(map(dt.is_bool, types)) or len(sizes) > 1:
        raise VerifyError(f"{e!r} needs one operand of a type as wide as its own, bool excepted")


def _cast(e: Cast) -> None:
    if dt.lanes(e.dtype) != dt.lanes(e.a.dtype):
        raise VerifyError(f"{e!r} changes the number of lanes")


def _not(e: Not) -> None:
    if not dt.is_bool(e.a.dtype):
        raise VerifyError(f"{e!r} negates {e.a.dtype}, not bool")


def _ramp(e: Ramp) -> None:
    scalar = e.base.dtype == e.stride.dtype and dt.lanes(e.base.dtype) == 1
    _require(scalar and dt.is_int(e.base.dtype), f"{e!r} needs a base and a stride of one type")
    _require(e.lanes > 1, f"{e!r} has {e.lanes} lanes; a vector has two or more")


def _broadcast(e: Broadcast) -> None:
    _require(dt.lanes(e.a.dtype) == 1, f"{e!r} repeats a vector; only scalars are broadcast")
    _require(e.lanes > 1, f"{e!r} has {e.lanes} lanes; a vector has two or more")


def _shuffle(e: Shuffle) -> None:
    count = dt.lanes(e.a.dtype)
    _require(e.a.dtype == e.b.dtype and count > 1, f"{e!r} needs two vectors of one type")
    known = all(0 <= lane < 2 * count for lane in e.indices)
    _require(known and len(e.indices) > 1, f"{e!r} takes lanes outside of 0 to {2 * count - 1}")


_EXPRESSIONS: dict[type, Callable[[Any], None]] = {
    Const: lambda e: None,
    Var: lambda e: None,
    BinOp: _binary,
    Not: _not,
    Cast: _cast,
    Select: _select,
    Load: lambda e: _access(e.buffer, e.indices, e),
    Call: _call,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
}


def _store(s: Store) -> None:
    target = Load(s.buffer, s.indices)
    _access(s.buffer, s.indices, target)
    if s.value.dtype != target.dtype:
        raise VerifyError(
            f"{target!r} is {target.dtype}, but {s.value!r} is {s.value.dtype}; convert the value"
        )


def _exchange(s: Exchange) -> None:
    _store(Store(s.buffer, s.indices, s.value))
    lane = s.source.dtype
    _require(dt.is_int(lane), f"exchange reads the lane {s.source!r}, which is {lane}")


def _extent(owner: str, var: Var, extent: Expr) -> None:
    value = int_value(extent)
    _require(value is None or value >= 0, f"{owner} has the negative extent {value}")
    if not var.dtype == extent.dtype == dt.INDEX:
        dtypes = f"{owner} is {var.dtype} and its extent {extent!r} is {extent.dtype}"
        raise VerifyError(f"{dtypes}; both are {dt.INDEX}")


def _for(s: For) -> None:
    _extent(f"loop {s.name!r}", s.var, s.extent)
    _require(
        (s.thread is not None) == (s.kind is ForKind.THREAD),
        f"loop {s.name!r} is {s.kind} with thread {s.thread!r}; loops of kind thread have one",
    )


def _condition(owner: str, cond: Expr, lanes: int = 1) -> None:
    if cond.dtype != dt.with_lanes("bool", lanes):
        raise VerifyError(f"the condition of {owner} is {cond.dtype}, not bool: {cond!r}")


def _block(s: Block) -> None:
    for it in s.iters:
        owner = f"{it.var.name!r} of block {s.name!r}"
        _extent(owner, it.var, it.extent)
        if it.binding.dtype != it.var.dtype:
            raise VerifyError(
                f"{owner} is {it.var.dtype}, but it is bound to {it.binding!r}, {it.binding.dtype}"
            )
    _condition(f"block {s.name!r}", s.predicate)


def _let(s: Let) -> None:
    same = s.var.dtype == s.value.dtype
    _require(same, f"{s.var.name!r} is {s.var.dtype}, but {s.value!r} is {s.value.dtype}")


_STATEMENTS: dict[type, Callable[[Any], None]] = {
    For: _for,
    Block: _block,
    Store: _store,
    Let: _let,
    Exchange: _exchange,
    Prefetch: lambda s: _access(s.buffer, s.indices, f"prefetch of {s.buffer.name!r}"),
    If: lambda s: _condition("an if", s.cond, dt.lanes(s.cond.dtype)),
}
