"""Printed programs: readable, with few parentheses, and marked where an error points."""

from __future__ import annotations

import pytest

from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Call, Cast, Const, Load, Not, Select, Var, const
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Block, For, ForKind, If, IterKind, IterVar, Let, Store, seq
from tensorir.text.printer import format_expr, format_func, format_stmt
from tensorir.vector_expr import Broadcast, Ramp

i, j, n = Var("i"), Var("j"), Var("n")
x = Var("x", "float32")
A = Buffer("A", (8, n), "float32")
S = Buffer("S", (), "float32")


def raw(op, a, b):
    return BinOp(op, a, b)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (const(3), "3"),
        (const(-3), "-3"),
        (const(3, "int32"), "i32(3)"),
        (const(7, "uint8"), "u8(7)"),
        (const(True, "bool"), "True"),
        (const(0.1, "float32"), "0.1"),
        (const(-0.0, "float32"), "-0.0"),
        (const(1e-30, "float32"), "1e-30"),
        (const(3.4028234663852886e38, "float32"), "3.4028235e+38"),
        (const(1e39, "float32"), 'float("inf")'),
        (const(float("-inf"), "float32"), 'float("-inf")'),
        (const(float("nan"), "float64"), 'f64(float("nan"))'),
        (const(0.1, "float64"), "f64(0.1)"),
        (const(1.5, "float16"), "f16(1.5)"),
        (Const(2.0, "float32x4"), "f32x4(2.0)"),
        (raw("+", raw("+", i, j), n), "i + j + n"),
        (raw("+", i, raw("+", j, n)), "i + (j + n)"),
        (raw("-", i, raw("-", j, n)), "i - (j - n)"),
        (raw("*", raw("+", i, j), n), "(i + j) * n"),
        (raw("//", raw("*", i, j), raw("%", i, j)), "i * j // (i % j)"),
        (raw("<<", raw("+", i, j), const(1)), "i + j << 1"),
        (raw("&", raw("|", i, j), n), "(i | j) & n"),
        (
            raw("and", raw("<", i, j), raw("or", raw("<", j, n), Not(raw("==", i, n)))),
            "i < j and (j < n or not i == n)",
        ),
        (
            raw("and", raw("<", i, j), raw("and", raw("<", j, n), raw("<", i, n))),
            "i < j and (j < n and i < n)",
        ),
        (raw("==", raw("<", i, j), raw("<=", j, n)), "(i < j) == (j <= n)"),
        (raw("!=", Not(raw("<", i, j)), const(True, "bool")), "(not i < j) != True"),
        (Not(raw("and", raw("<", i, j), raw("<", j, n))), "not (i < j and j < n)"),
        (Not(Not(raw("<", i, j))), "not not i < j"),
        (raw("min", i, raw("max", j, n)), "min(i, max(j, n))"),
        (Cast("float32", i), "f32(i)"),
        (Cast("int32", const(3)), "i32(i64(3))"),
        (
            Select(raw("<", i, n), Load(A, (i, j)), const(0.0, "float32")),
            "select(i < n, A[i, j], 0.0)",
        ),
        (Load(S, ()), "S[()]"),
        (Call("exp", (x,), "float32"), "exp(x)"),
        (Call("isnan", (x,), "bool"), "isnan(x)"),
        (Call("mystery", (x,), "int32"), 'mystery(x, dtype="int32")'),
        (Call("exp", (x,), "float64"), 'exp(x, dtype="float64")'),
        (Ramp(i, const(1), 16), "ramp(i, 1, 16)"),
        (Cast("float32x4", Broadcast(i, 4)), "f32x4(broadcast(i, 4))"),
    ],
)
def test_expressions(e, text):
    assert format_expr(e) == text
    assert repr(e) == text


def matmul(kind: ForKind = ForKind.SERIAL) -> PrimFunc:
    a, b, c = (Buffer(name, (16, 16), "float32") for name in "ABC")
    i, j, k, vi, vj, vk = map(Var, ("i", "j", "k", "vi", "vj", "vk"))
    spatial = [IterVar(v, const(16), IterKind.SPATIAL, loop) for v, loop in ((vi, i), (vj, j))]
    block = Block(
        "C",
        (*spatial, IterVar(vk, const(16), IterKind.REDUCE, k)),
        Store(c, (vi, vj), c[vi, vj] + a[vi, vk] * b[vk, vj]),
        init=Store(c, (vi, vj), const(0.0, "float32")),
    )
    nest = For(i, const(16), For(j, const(16), For(k, const(16), block)), kind)
    return PrimFunc("matmul", (a, b, c), (), nest)


def everything() -> PrimFunc:
    """One of each thing that a line can hold."""
    t = Buffer("T", (16,), "float32", "local")
    q = Buffer("Q", (4,), "float32x4", "shared")
    p = Buffer("P", (4, n + 1), "bfloat16", "shared")
    vi, t0 = Var("vi"), Var("t0")
    block = Block(
        "B",
        (IterVar(vi, n, IterKind.OPAQUE, raw("+", raw("*", i, const(4)), j)),),
        seq(Let(x, A[0, vi], Store(t, (vi,), x)), Store(S, (), const(1.0, "float32"))),
        predicate=raw("<", raw("+", raw("*", i, const(4)), j), n),
        annotations={"pragma": [1, 2.5, None, {"deep": True}], "text": 'a "b"'},
    )
    nest = For(i, n, For(j, const(4), block, ForKind.VECTORIZED), annotations={"k": 1})
    triangle = For(i, const(8), For(j, i, Store(A, (i, j), const(2.0, "float32"))))
    branch = If(
        raw("<", n, const(3)),
        Alloc(t, triangle),
        If(raw("==", n, const(5)), seq(), Alloc(q, Store(q, (const(0),), q[0]))),
    )
    thread = For(t0, const(32), branch, ForKind.THREAD, thread="threadIdx.x")
    return PrimFunc("f", (A, S, p), (t,), seq(nest, thread), {"key": "value", "list": [1]})


def test_matmul(golden):
    golden(format_func(matmul()), "matmul")


def test_every_construct(golden):
    golden(format_func(everything()), "every_construct")


def test_a_marked_loop_has_a_line_of_its_own(golden):
    golden(format_func(matmul(), mark="j"), "marked_loop")


def test_a_marked_block(golden):
    golden(format_func(matmul(ForKind.PARALLEL), mark="C"), "marked_block")


def test_an_unknown_mark_marks_nothing():
    assert ">>>" not in format_func(matmul(), mark="zzz")


def test_loops_that_depend_on_each_other_do_not_share_a_grid():
    text = format_stmt(For(i, n, For(j, i, Store(A, (i, j), x))))
    assert text.splitlines()[:2] == ["for i in range(n):", "    for j in range(i):"]


def test_repr_of_statements_and_functions():
    func = matmul()
    assert repr(func) == format_func(func)
    assert repr(func.body) == format_stmt(func.body)
    assert repr(Alloc(S, Store(S, (), x))) == "with alloc(S):\n    S[()] = x"


def test_expressions_of_other_packages_describe_themselves():
    class Leaf(type(i).__base__):
        __slots__ = ()

        def describe(self):
            return "<leaf>"

    leaf = object.__new__(Leaf)
    object.__setattr__(leaf, "dtype", "int64")
    assert format_expr(BinOp("*", leaf, i)) == "<leaf> * i"
