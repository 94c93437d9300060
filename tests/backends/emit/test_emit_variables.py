"""Arrays of vectors are variables where each of their elements is named by a number."""

from __future__ import annotations

import numpy as np
import pytest

from backends.c.emit.codegen import emit
from tensorir import (
    Alloc,
    BinOp,
    Buffer,
    For,
    ForKind,
    Load,
    Prefetch,
    PrimFunc,
    Ramp,
    Stmt,
    Store,
    Target,
    Var,
    const,
    seq,
)

LANES, PARTS = 8, 3
i, n = Var("i"), Var("n")
x, y = Buffer("x", (4 * PARTS * LANES,), "float32"), Buffer("y", (PARTS * LANES,), "float32")
acc = Buffer("acc", (PARTS + 1,), f"float32x{LANES}", "local")


def vector(base) -> tuple[Ramp]:
    return (Ramp(base, const(1), LANES),)


def first(at) -> Stmt:
    return Store(acc, (at,), Load(x, vector(at * LANES)))


def step(at) -> Stmt:
    term = Load(x, vector(((i + 1) * PARTS + at) * LANES))
    return Store(acc, (at,), BinOp("+", Load(acc, (at,)), term))


def result(at) -> Stmt:
    return Store(y, vector(at * LANES), Load(acc, (at,)))


def sums(beside: Stmt | None = None, loop: str = "") -> PrimFunc:
    """y[p] = the sum of x[i, p] over i; what `loop` names goes over the parts by a loop."""

    def over(what: str, stmt) -> Stmt:
        if what == loop:
            return For(n, const(PARTS), stmt(n))
        return seq(*(stmt(const(part)) for part in range(PARTS)))

    steps = For(i, const(3), over("steps", step))
    body = seq(over("first", first), beside, steps, over("results", result))
    return PrimFunc("f", (x, y), (), Alloc(acc, body))


ARRAYS = {
    "stored in a loop": sums(loop="first"),
    "both in a loop": sums(loop="steps"),
    "loaded in a loop": sums(loop="results"),
    "prefetched": sums(beside=Prefetch(acc, (const(0),))),
}


def is_array(func: PrimFunc) -> bool:
    return "acc[" in emit(func, Target(vector_bits=256))


def check(func: PrimFunc, run) -> None:
    a = np.arange(4 * PARTS * LANES, dtype="float32")
    found = np.zeros(PARTS * LANES, "float32")
    run(func, a, found)
    np.testing.assert_array_equal(found, a.reshape(4, -1).sum(0))


def test_of_elements_that_are_used(run):
    func = sums()
    text = emit(func, Target(vector_bits=256))
    assert "acc_0, acc_1, acc_2;" in text and not is_array(func)
    check(func, run)


@pytest.mark.parametrize("how", ARRAYS)
def test_what_needs_an_address_stays_an_array(how, run):
    assert is_array(ARRAYS[how])
    check(ARRAYS[how], run)


def test_what_goes_to_a_function_stays_an_array(run):
    """The body of a parallel loop is a function, which takes the address."""
    own = For(n, const(1), For(i, const(3), seq(*(step(const(p)) for p in range(PARTS)))))
    own = For(n, own.extent, own.body, ForKind.PARALLEL)
    parts = [const(p) for p in range(PARTS)]
    body = seq(*map(first, parts), own, *map(result, parts))
    func = PrimFunc("f", (x, y), (), Alloc(acc, body))
    assert is_array(func)
    check(func, run)


def test_names_of_elements_are_free(run):
    other = Buffer("acc_1", (1,), f"float32x{LANES}", "local")
    inner = seq(
        Store(other, (const(0),), Load(acc, (const(1),))),
        *(step(const(p)) for p in range(PARTS)),
        Store(acc, (const(1),), BinOp("+", Load(acc, (const(1),)), Load(other, (const(0),)))),
        Store(acc, (const(1),), BinOp("-", Load(acc, (const(1),)), Load(other, (const(0),)))),
    )
    parts = [const(p) for p in range(PARTS)]
    loop = For(i, const(3), Alloc(other, inner))
    func = PrimFunc("f", (x, y), (), Alloc(acc, seq(*map(first, parts), loop, *map(result, parts))))
    check(func, run)
