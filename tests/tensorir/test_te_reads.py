"""Reads that are safe are accepted, with programs that verify and run; unsafe ones beside them are
not. The interpreter checks every index."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tensorir import te
from tensorir.arith import analyzer
from tensorir.errors import VerifyError
from tensorir.expr import int_value
from tensorir.interpreter.interpret import interpret
from tensorir.verifier.program import verify
from tensorir.visit import substitute

M, N = te.var("m"), te.var("n")
SIZES = {M: 11, N: 6}
V = te.placeholder((9,), name="V")
W = te.placeholder((16,), name="W")
S = te.placeholder((M,), name="S")
D = te.placeholder((M * N,), name="D")
X = te.placeholder((M, N), name="X")
J = te.placeholder((7,), "int64", name="J")
K = te.placeholder((7,), "int32", name="K")


def over(index, tensor=V, extent=7):
    """tensor[index(i)] for every i below `extent`."""
    return lambda: te.compute((extent,), lambda i: tensor[index(i)], name="C")


def two(index, tensor=S, shape=(7, 8)):
    return lambda: te.compute(shape, lambda i, j: tensor[index(i, j)], name="C")


def guarded(cond, index, tensor=S, shape=(7, 8)):
    def rule(i, j):
        return te.if_then_else(cond(i, j), tensor[index(i, j)], 0.0)

    return lambda: te.compute(shape, rule, name="C")


def chosen(limit, cond, second=None, extent=16):
    """Sums of as many elements of V as `limit` says, of those that `cond` tells by memory; of as
    many more of each as `second` says."""

    def rule(i):
        k = te.reduce_axis((0, te.clip(limit(i), 0, extent)), "k")
        if second is None:
            return te.sum(V[te.min(k, 8)], axis=k, where=cond(i, k))
        j = te.reduce_axis((0, te.clip(second(i, k), 0, 5)), "j")
        where = None if cond is None else cond(i, k)
        return te.sum(V[te.min(k + j, 8)], axis=[k, j], where=where)

    return lambda: te.compute((7,), rule, name="C")


def wrapped(x, size):
    return te.if_then_else(x < 0, x + size, x)


def reflected(x, size):
    return te.if_then_else(x < 0, -x, te.if_then_else(x >= size, 2 * size - 2 - x, x))


SAFE = {
    "twice truncmod": over(lambda i: te.truncmod(te.truncmod(J[i], 9) + 9, 9)),
    "twice truncmod, int32": over(lambda i: te.truncmod(te.truncmod(K[i], 9) + 9, 9)),
    "twice truncmod, symbolic": two(
        lambda i, j: te.truncmod(te.truncmod(J[i], M) + M, M), S, (7, M)),
    "truncmod of an axis": over(lambda i: te.truncmod(i + 3, M), S, M),
    "truncmod, shifted": over(lambda i: te.truncmod(J[i], 5) + 4),
    "truncmod, wrapped": over(lambda i: wrapped(te.truncmod(J[i], 9), 9)),
    "truncmod, absolute": over(lambda i: te.abs(te.truncmod(J[i], 9))),
    "truncdiv, negative": over(lambda i: te.truncdiv(te.clip(J[i], -9, 7), 2) + 4),
    "truncdiv of truncmod": over(lambda i: te.truncdiv(te.truncmod(J[i], 9), 4) + 2),
    "floormod of truncmod": over(lambda i: te.floormod(te.truncmod(J[i], 9), 9)),
    "floormod, negative divisor": over(lambda i: -te.floormod(J[i], -9)),
    "floordiv, negative": over(lambda i: -te.floordiv(-i, 2), V, 17),
    "rolled back": over(lambda i: te.truncmod(i - te.truncmod(3, M) + M, M), S, M),
    "absolute": over(lambda i: te.abs(i - 8), V, 17),
    "absolute, symbolic": over(lambda i: te.abs(i - te.min(3, M - 1)), S, M),
    "triangle wave": over(lambda i: 8 - te.abs(8 - te.floormod(J[i], 16))),
    "nearest end": over(lambda i: te.min(te.floormod(J[i], 16), 16 - te.floormod(J[i], 16))),
    "next, wrapped": over(lambda i: te.if_then_else(i + 1 < M, i + 1, 0), S, M),
    "reflected by limits": guarded(
        lambda i, j: M >= 3, lambda i, j: M - 1 - te.abs(M - 1 - te.abs(i - 2)), S, (M + 4, 1)),
    "reflected by choices": guarded(
        lambda i, j: M >= 3, lambda i, j: reflected(i - 2, M), S, (M + 4, 1)),
    "counted from the end": guarded(
        lambda i, j: te.all(J[i] >= -M, J[i] < M), lambda i, j: wrapped(J[i], M)),
    "window": guarded(lambda i, j: M >= 8, lambda i, j: te.clip(J[i], 0, M - 8) + j),
    "window, dilated": guarded(lambda i, j: M >= 15, lambda i, j: te.clip(J[i], 0, M - 15) + 2 * j),
    "window of an axis": guarded(
        lambda i, j: M >= 8, lambda i, j: te.clip(2 * i - 3, 0, M - 8) + j, S, (M, 8)),
    "window, symbolic": two(lambda i, j: te.clip(J[i], 0, M - te.min(M, 8)) + j, S,
                            (7, te.min(M, 8))),
    "window of a row": two(lambda i, j: i * N + te.clip(J[0] + j, 0, N - 1), D, (M, N)),
    "flat, symbolic": lambda: te.compute((M * N,), lambda i: X[i // N, i % N], name="C"),
    "flat, transposed": lambda: te.compute((N * M,), lambda i: X[i % M, i // M], name="C"),
    "nested clips": over(lambda i: te.clip(te.clip(J[i], -5, 11) + 1, 0, 8)),
    "smaller size": lambda: te.compute(
        (te.min(M, N), te.min(M, N)), lambda i, j: X[te.max(i, j), te.min(i, j)], name="C"),
    "or": over(lambda i: (te.clip(K[i], 0, 3) * 4) | te.clip(K[i], 0, 3), W),
    "or, all values": over(lambda i: i | 8, W, 8),
    "exclusive or": two(lambda i, j: (i * 4 + j) ^ 3, W, (4, 4)),
    "shifted right": over(lambda i: te.clip(K[i], 0, 127) >> 3, W),
    "shifted left": over(lambda i: te.clip(K[i], 0, 7) << 1, W),
    "Gray code": over(lambda i: i ^ (i >> 1), W, 16),
    "chosen within a limit": chosen(lambda i: i + 1, lambda i, k: J[6 - i + k] > i),
    "chosen within a limit that is read": chosen(
        lambda i: te.min(J[i], 7 - i), lambda i, k: K[i + k] > K[i]),
    "as many as is read within a limit": chosen(lambda i: i + 1, None, lambda i, k: J[6 - i + k]),
    "both": chosen(
        lambda i: te.min(K[i], 7 - i), lambda i, k: J[i + k] > 0, lambda i, k: K[i + k]),
    "reversed bits": over(lambda i: ((i & 1) << 1) | ((i >> 1) & 1), W, 4),
}


def inputs(func):
    rng = np.random.default_rng(0)
    made = []
    for buffer in func.params[:-1]:
        shape = [size_of(e) for e in buffer.shape]
        if buffer.dtype.startswith("int"):
            made.append(rng.integers(-40, 40, shape).astype(buffer.dtype))
        else:
            made.append(rng.normal(size=shape).astype(buffer.dtype))
    return made


def size_of(extent):
    return int_value(substitute(extent, {v: te.const(k, "int64") for v, k in SIZES.items()}))


@pytest.mark.parametrize("name", SAFE)
def test_a_safe_read(name):
    made = SAFE[name]()
    func = te.create_prim_func([*made.op.inputs, made])
    verify(func)
    interpret(func, *inputs(func), sizes={v.name: SIZES[v] for v in func.size_vars})


UNSAFE = {
    "window of a shorter row": two(lambda i, j: te.clip(J[i], 0, M - 8) + j),
    "an empty row": over(lambda i: te.truncmod(te.truncmod(J[i], M) + M, M), S),
    "clipped to an empty row": over(lambda i: te.clip(i - 2, 0, M - 1), S, M + 4),
    "truncmod alone": over(lambda i: te.truncmod(J[i], 9)),
    "truncdiv, one more": over(lambda i: te.truncdiv(te.clip(J[i], -10, 7), 2) + 4),
    "absolute, one more": over(lambda i: te.abs(i - 8), V, 18),
    "next, not wrapped": over(lambda i: te.if_then_else(i + 1 <= M, i + 1, 0), S, M),
    "reflected once too far": guarded(
        lambda i, j: M >= 2, lambda i, j: reflected(i - 2, M), S, (M + 4, 1)),
    "or": over(lambda i: (te.clip(K[i], 0, 3) * 4) | te.clip(K[i], 0, 3), V),
    "shift of a negative": over(lambda i: te.clip(K[i], -8, 127) >> 3, W),
    "squares": over(lambda i: i * i, V, 4),
    "chosen, a limit too large": chosen(lambda i: i + 2, lambda i, k: J[6 - i + k] > i),
    "as many as is read beyond a limit": chosen(lambda i: i + 2, None, lambda i, k: J[6 - i + k]),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_read_beside_them(name):
    with pytest.raises(VerifyError, match="can read outside of"):
        UNSAFE[name]()


INTEGERS = [-(2**31), -(2**31) + 1, -10, -9, -1, 0, 1, 9, 10, 2**31 - 1]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("divisor", [1, 7, 2**31 - 1, -7, None])
def test_truncated_division_is_that_of_c(dtype, divisor):
    """Also of the smallest number, which has no positive counterpart."""
    values = np.array(INTEGERS, dtype)
    by = np.array([3 if divisor is None else divisor] * len(values), dtype)
    A, B = (te.placeholder(values.shape, dtype, name=name) for name in "AB")

    def rule(i):
        y = B[i] if divisor is None else divisor
        return te.truncdiv(A[i], y), te.truncmod(A[i], y)

    made = te.compute(values.shape, rule, name="C")
    quotient, rest = interpret(te.create_prim_func([A, B, *made]), values, by)
    expected = [int(np.trunc(np.longdouble(int(v)) / int(d))) for v, d in zip(values, by)]
    np.testing.assert_array_equal(quotient, expected)
    np.testing.assert_array_equal(rest, values - quotient * by)


def states():
    s = te.state((M, N), name="s")
    first = te.compute((1, N), lambda _, i: 0.0, name="first")
    return s, first


OTHERS = {
    "more rows": (te.placeholder((M + 1, N), name="T"), lambda t, i: (t - 1, i)),
    "one dimension": (te.placeholder((M,), name="T"), lambda t, i: (t - 1,)),
    "another dimension": (te.placeholder((N, M), name="T"), lambda t, i: (i, t - 1)),
    "computed": (te.compute((M, N), lambda t, i: X[t, i] * 2.0, name="T"), lambda t, i: (t - 1, i)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("staged", [False, True], ids=["in the update", "in a stage"])
def test_a_step_reads_the_row_before_of_another_tensor(name, staged):
    other, where = OTHERS[name]
    s, first = states()
    shape = s.shape
    if staged:
        before = te.compute(shape, lambda t, i: s[t - 1, i] * 0.5, name="before")
        step = te.compute(shape, lambda t, i: before[t, i] + other[where(t, i)], name="step")
    else:
        step = te.compute(shape, lambda t, i: s[t - 1, i] + other[where(t, i)], name="step")
    made = te.scan(first, step, s)
    given = [X] if name == "computed" else [other]
    func = te.create_prim_func([*given, te.placeholder((M, N), name="rows"), made])
    verify(func)
    interpret(func, *inputs(func))


@pytest.mark.parametrize("name", OTHERS)
def test_and_nothing_else_may_read_it(name):
    other, where = OTHERS[name]
    if name != "computed":
        with pytest.raises(VerifyError, match="can read outside of 'T'"):
            lone = te.compute((M, N), lambda t, i: other[where(t, i)], name="C")
            te.create_prim_func([other, lone])
    s, first = states()
    early = te.compute(s.shape, lambda t, i: s[t - 1, i] + other[where(t - 1, i)], name="early")
    with pytest.raises(VerifyError, match="can read outside of 'T'"):
        te.scan(first, early, s)
    with pytest.raises(VerifyError, match="can read outside of"):
        te.create_prim_func([X, s, early] if name == "computed" else [other, s, early])


def work(monkeypatch, define):
    """How many expressions are simplified while something is defined, and knowledge copied."""
    count = Counter()

    def counted(name, function):
        def call(*args):
            count[name] += 1
            return function(*args)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(analyzer, "simplified", counted("simplified", analyzer.simplified))
        assume = analyzer.Analyzer._assume
        patch.setattr(analyzer.Analyzer, "_assume", counted("assumed", assume))
        define()
    return count


def reads(depth, rows, *, guard=True, size=20):
    """rows x rows reads at indices that are choices, nested `depth` times: both, or the first one
    where the size is symbolic, of which each proof takes longer."""

    def rule(i, j):
        total = te.const(0.0, "float32")
        for a in range(rows):
            for b in range(rows):
                y, x = i // 2 + (a - 2), j // 2 + (b - 2)
                for _ in range(depth):
                    y = reflected(y, size)
                    x = reflected(x, size) if size == 20 else x
                if guard:
                    inside = te.all(y >= 0, y < size, x >= 0, x < size)
                    total = total + te.if_then_else(inside, A[y, x], 0.0)
                else:
                    total = total + A[te.clip(y, 0, size - 1), te.clip(x, 0, size - 1)]
        return total

    A = te.placeholder((size, size), name="A")
    return lambda: te.compute((40, 40), rule, name="C")


def test_reads_at_limits_are_checked_without_their_choices(monkeypatch):
    """No condition is taken as known on the way to reads that need none."""
    count = work(monkeypatch, reads(3, 4, guard=False))
    assert count["assumed"] <= 1


@pytest.mark.parametrize("size", [20, M], ids=str)
def test_the_work_grows_with_nested_choices_as_the_text_does(monkeypatch, size):
    """Each further nest is as much work as the one before, where it once was five times as much."""
    counts = [work(monkeypatch, reads(depth, 1, size=size))["simplified"] for depth in (1, 2, 3)]
    assert counts[2] - counts[1] <= 1.1 * (counts[1] - counts[0])


def test_the_work_grows_with_reads_as_their_number_does(monkeypatch):
    one, many = [work(monkeypatch, reads(2, rows))["simplified"] for rows in (2, 4)]
    assert many <= 4.4 * one


@pytest.mark.parametrize("choose", [
    lambda e, n: te.select(e < float(n), e + 1.0, e), lambda e, n: te.select(e < float(n), n, e),
], ids=["both", "one"])  # fmt: skip
def test_what_is_read_inside_is_not_asked_again_where_more_is_known(monkeypatch, choose):
    """Each choice reads the one inside two or three times; no condition decides what is read."""

    def rule(i):
        e = V[i + 2]
        for n in range(6):
            e = choose(e, n)
        return e

    count = work(monkeypatch, lambda: te.compute((7,), rule, name="C"))
    assert count["assumed"] <= 1
    with pytest.raises(VerifyError, match="can read outside of 'V'"):
        te.compute((8,), rule, name="C")
