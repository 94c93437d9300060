"""te.scan: what it computes, and what it refuses when it is defined."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import interpret, parse, reference, reference_with_tolerance, te, verify
from tensorir.errors import TensorIRError, VerifyError

M, N = 7, 5
X = te.placeholder((M, N), name="X")
S = te.placeholder((M, N), name="S")
FIRST = te.compute((1, N), lambda _, i: X[0, i], name="first")
STEP = te.compute((M, N), lambda t, i: S[t - 1, i] + X[t, i], name="step")


def run(func, *inputs):
    """The reference, after comparing the interpreter with it."""
    verify(func)
    assert str(parse(str(func))) == str(func)
    expected = reference(func, *inputs)
    for found, wanted in zip(interpret(func, *inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return expected


def test_running_sum():
    total = te.scan(FIRST, STEP, S, inputs=[X])
    assert total.shape == S.shape and total.name == "scan" and total.op.inputs == (FIRST, X)
    x = np.arange(M * N, dtype=np.float32).reshape(M, N)
    func = te.create_prim_func([X, total])
    np.testing.assert_array_equal(run(func, x)[0], x.cumsum(0))
    (_,), (bound,) = reference_with_tolerance(func, x)
    assert not bound.any()  # whole numbers
    (_,), (bound,) = reference_with_tolerance(func, x + np.float32(0.1))
    assert (np.diff(bound[:, 0]) > 0).all()  # errors add up along the time


@pytest.mark.parametrize("m", [1, 2, 6])
def test_symbolic(m):
    rows, columns = te.var("m"), te.var("n")
    x = te.placeholder((rows, columns), name="X")
    s = te.placeholder((rows, columns), name="S")
    first = te.compute((1, columns), lambda _, i: x[0, i])
    step = te.compute((rows, columns), lambda t, i: s[t - 1, i] * x[t, i])
    func = te.create_prim_func([x, te.scan(first, step, s)])
    data = np.random.default_rng(0).integers(-3, 4, (m, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(func, data)[0], data.cumprod(0))


def test_more_rows_than_there_are():
    rows = te.var("m")
    s = te.state((rows,), "int32", name="s")
    first = te.compute((2,), lambda t: te.const(1, "int32"))
    step = te.compute((rows,), lambda t: s[t - 1] + s[t - 2])
    func = te.create_prim_func([te.scan(first, step, s, name="fib")])
    for m in (0, 1, 2, 9):
        found = interpret(func, sizes={"m": m})[0]
        np.testing.assert_array_equal(found, [1, 1, 2, 3, 5, 8, 13, 21, 34][:m])
        np.testing.assert_array_equal(reference(func, sizes={"m": m})[0], found)


def test_states_together():
    a, b = te.state((M,), name="a"), te.state((M,), name="b")
    x = te.placeholder((M,), name="X")
    first = te.compute((1,), lambda t: (x[t], x[t] * 2.0), name="first")
    step = te.compute((M,), lambda t: (b[t - 1] + x[t], a[t - 1] - x[t]), name="step")
    fa, fb = te.scan(first, step, (a, b), name="pair")
    data = np.array([1, -2, 3, 0, 4, 1, 2], np.float32)
    left, right = [data[0]], [data[0] * 2]
    for v in data[1:]:
        left, right = [*left, right[-1] + v], [*right, left[-1] - v]
    found = run(te.create_prim_func([x, fa, fb]), data)
    np.testing.assert_array_equal(found, [left, right])


def test_stages_and_reductions():
    n = 3
    x, w = te.placeholder((M, n), name="X"), te.placeholder((n, n), name="W")
    h, k = te.state((M, n), name="h"), te.reduce_axis(n, name="k")
    first = te.compute((2, n), lambda t, i: x[t, i], name="first")
    gate = te.compute((M, n), lambda t, i: te.sum(h[t - 2, k] * w[i, k], axis=k), name="gate")
    best = te.compute((M, n), lambda t, i: te.max(gate[t, i], h[t - 1, n - 1 - i]), name="best")
    step = te.compute((M, n), lambda t, i: best[t, n - 1 - i] * 0.5 + x[t, i], name="step")
    rng = np.random.default_rng(0)
    data, weights = (rng.integers(-3, 4, s).astype(np.float32) for s in ((M, n), (n, n)))
    rows = [data[0], data[1]]
    for t in range(2, M):
        new = np.maximum(weights @ rows[t - 2], rows[t - 1][::-1])
        rows.append(new[::-1] * 0.5 + data[t])
    func = te.create_prim_func([x, w, te.scan(first, step, h)])
    np.testing.assert_allclose(run(func, data, weights)[0], rows)


def test_after_and_before_other_stages():
    doubled = te.compute((M, N), lambda t, i: X[t, i] * 2.0, name="doubled")
    step = te.compute((M, N), lambda t, i: S[t - 1, i] + doubled[t, i], name="step")
    first = te.compute((1, N), lambda t, i: doubled[t, i], name="first")
    total = te.scan(first, step, S, name="total")
    last = te.compute((N,), lambda i: total[M - 1, i], name="last")
    x = np.ones((M, N), np.float32)
    np.testing.assert_array_equal(run(te.create_prim_func([X, last]), x)[0], [2.0 * M] * N)


def test_scans_in_a_row():
    total = te.scan(FIRST, STEP, S, name="total")
    s = te.placeholder((M, N), name="S2")
    first = te.compute((1, N), lambda _, i: total[0, i])
    step = te.compute((M, N), lambda t, i: s[t - 1, i] + total[t, i])
    x = np.ones((M, N), np.float32)
    func = te.create_prim_func([X, te.scan(first, step, s, name="again")])
    np.testing.assert_array_equal(run(func, x)[0], x.cumsum(0).cumsum(0))


def wide(f, name="step"):
    return te.compute((M, N), f, name=name)


SHORT = te.compute((1, N - 1), lambda _, i: X[0, i], name="short")
INTS = te.compute((1, N), lambda _, i: te.const(1, "int32"), name="ints")
ALL = te.compute((M + 1, N), lambda t, i: 0.0, name="all_rows")
EMPTY = te.compute((0, N), lambda t, i: 0.0, name="empty")

REFUSED = {
    "numbers": (lambda: te.scan((FIRST, FIRST), STEP, S), "2 inits, 1 updates and 1 states"),
    "twice": (lambda: te.scan((FIRST, FIRST), (STEP, STEP), (S, S)), "given one init twice"),
    "no tensor": (lambda: te.scan(0.0, STEP, S), "0.0, which is no tensor"),
    "state": (lambda: te.scan(FIRST, STEP, STEP), "state 'step' of scan 'scan' is computed"),
    "update": (lambda: te.scan(FIRST, X, S), "update 'X' of scan 'scan' is not a te.compute"),
    "init": (lambda: te.scan(X, STEP, S), "init 'X' of scan 'scan' is not a te.compute"),
    "dtype": (
        lambda: te.scan(INTS, STEP, S),
        r"'ints' of scan 'scan' is int32, and its state 'S' is float32; .* \.astype\('float32'\)",
    ),
    "rows": (lambda: te.scan(SHORT, STEP, S), "has other rows than its state"),
    "too many": (lambda: te.scan(ALL, STEP, S), "gives 8 of 7 rows"),
    "none": (lambda: te.scan(EMPTY, STEP, S), "gives 0 of 7 rows"),
    "shape": (lambda: te.scan(FIRST, FIRST, S), "have different shapes"),
    "later": (lambda: te.scan(FIRST, wide(lambda t, i: S[t, i]), S), "outside of 'S'"),
    "too early": (lambda: te.scan(FIRST, wide(lambda t, i: S[t - 2, i]), S), r"over \[-1, 4\]"),
    "input": (lambda: te.scan(FIRST, wide(lambda t, i: S[t - 1, i] + X[t - 2, i]), S), "of 'X'"),
    "transposed": (
        lambda: te.scan(FIRST, wide(lambda t, i: transposed()[i, t]), S),
        "its first dimension must be the time, of extent 7",
    ),
    "other step": (
        lambda: te.scan(FIRST, wide(lambda t, i: previous()[0, i]), S),
        r"reads stage\[0, i\]; a step reads the tensors of its own step",
    ),
}


def transposed():
    return te.compute((N, M), lambda i, t: S[te.max(t - 1, 0), i], name="transposed")


def previous():
    return te.compute((M, N), lambda t, i: S[t - 1, i] * 2.0, name="stage")


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    define, message = REFUSED[name]
    with pytest.raises(TensorIRError, match=message):
        define()


def test_a_step_is_part_of_its_scan_only():
    total = te.scan(FIRST, STEP, S)
    leak = te.compute((M, N), lambda t, i: total[t, i] + STEP[t, i], name="leak")
    with pytest.raises(TensorIRError, match="'step' is a step of scan 'scan' and used outside"):
        te.create_prim_func([X, leak])
    with pytest.raises(TensorIRError, match="'first' is part of scan 'b' and also of another"):
        again = te.scan(FIRST, previous(), S, name="b")
        te.create_prim_func([X, total, again])


def test_rows_before_the_first_are_an_error_anywhere_else():
    with pytest.raises(VerifyError, match=r"S\[t - 1, i\] ranges over \[-1, 5\]"):
        te.create_prim_func([X, S, STEP])
