"""te: what is refused when it is defined, and in which words. One row per error."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import te
from tensorir.errors import TensorIRError, VerifyError

A = te.placeholder((4, 8), name="A")
V = te.placeholder((8,), name="V")
J = te.placeholder((4,), "int32", name="J")
H = te.placeholder((4,), "float16", name="H")
P = te.placeholder((4,), "bool", name="P")
I64 = te.placeholder((4,), "int64", name="I64")
U64 = te.placeholder((4,), "uint64", name="U64")
N = te.var("n")
S = te.placeholder((N,), name="S")


def k(extent=8, name="k"):
    return te.reduce_axis(extent, name)


def axis_of_another():
    """A reduce axis as long as an axis of another compute says."""
    made = []
    vector(lambda i: made.append(te.reduce_axis(i + 1, name="q")) or V[i])
    return made[0]


def vector(f, size=4):
    return te.compute((size,), f, name="B")


def reducing(f):
    """A tensor B of rank one whose element is f(i, k)."""
    axis = k()
    return vector(lambda i: f(i, axis))


def softmax():
    axis = k()
    return vector(lambda i: te.exp(A[i, 0]) / te.sum(te.exp(A[i, axis]), axis=axis))


def two_axes():
    r, s = k(), k(name="s")
    return vector(lambda i: (te.sum(A[i, r], axis=r), te.sum(A[i, s], axis=s)))


def nested():
    r, s = k(), k(name="s")
    return vector(lambda i: te.sum(te.max(A[i, r], axis=r) * V[s], axis=s))


def borrowed():
    B = te.compute((4,), lambda i: A[i, 0], name="B")
    return te.compute((4,), lambda j: A[B.op.axis[0], 0], name="C")


DEFINITIONS = {
    "rank": (lambda: V[1, 2], "tensor 'V' has 1 dimensions and is indexed with 2"),
    "rank in two steps": (lambda: A[1][2, 3], "'A' has 2 dimensions and is indexed with 3"),
    "index of a number": (lambda: A[1][2][3], r"A\[1, 2\] is one number, which cannot be indexed"),
    "no index": (lambda: A[()], "tensor 'A' has 2 dimensions and is indexed with 0"),
    "a row": (lambda: vector(lambda i: A[i]), r"A\[i\] has 1 of the 2 indices .* A\[i\]\[i\]"),
    "sum with a row": (lambda: vector(lambda i: V[i] + A[i]), r"A\[i\] has 1 of the 2 indices"),
    "rows": (lambda: A[0] < A[1], r"A\[0\] has 1 of the 2 indices"),
    "slice of a row": (lambda: A[1][:], "index 1 of tensor 'A' is a slice"),
    "slice": (lambda: A[1, :], "index 1 of tensor 'A' is a slice"),
    "float index": (lambda: V[0.5], "index 0 of tensor 'V' is .* of type float32"),
    "bool index": (lambda: V[True], "of type bool; indices are integers"),
    "not a scalar": (lambda: vector(lambda i: V), "'V' has 1 dimensions; index it, as in V"),
    "whole in an element": (lambda: vector(lambda i: V[i] + A), r"'A' has 2 .*index it, as in A\["),
    "function in an element": (lambda: vector(lambda i: te.pow(V, i)), "'V' .* index it, as in V"),
    "broadcast": (lambda: A + te.placeholder((4, 3), name="X"),
                  "add: .* cannot be broadcast: dimension -1 has the sizes"),
    "tensor as a condition": (lambda: 1 if V < 2 else 3, "tensor 'less' is not true or false"),
    "text": (lambda: V[0] + "x", "'x' of type str is not an expression"),
    "whole and text": (lambda: A + "x", "'x' of type str is not an expression"),
    "none added": (lambda: None * A[0, 0], "None of type NoneType is not an expression"),
    "complex": (lambda: V[0] * 1j, "1j of type complex is not an expression"),
    "array": (lambda: V[0] * np.zeros(3), "of type ndarray is not an expression"),
    "name": (lambda: te.placeholder((4,), name="a b"), "name 'a b' is not an identifier"),
    "keyword": (lambda: te.compute((4,), lambda i: 0.0, name="for"), "'for' is a keyword of Py"),
    "dtype": (lambda: te.placeholder((4,), "float31"), "unknown dtype 'float31'"),
    "negative": (lambda: te.placeholder((4, -1), name="X"), "dimension 1 of placeholder 'X' has "
                 "the negative extent -1"),
    "extent from memory": (lambda: te.compute((N // J[0],), lambda i: 0.0, name="X"),
                           "dimension 0 of tensor 'X' reads memory: n // i64.J.0.*make the number"),
    "whole extent": (lambda: te.placeholder((J,), name="X"), "'J' has 1 dimensions; index it"),
    "float extent": (lambda: te.compute((2.5,), lambda i: 0.0), "extent 2.5 of type float32"),
    "negative axis": (lambda: k(-2), "reduce axis 'k' has the negative extent -2"),
    "range of an axis": (lambda: te.reduce_axis((1, 4, 2)), "or the pair \\(first, end\\)"),
    "first of an axis": (lambda: te.reduce_axis((0.5, 4)), "the bound 0.5 of type float32"),
    "end of an axis": (lambda: te.reduce_axis((3, 1)), "has the negative extent -2"),
    "extent of any size": (lambda: vector(lambda i: te.sum(V[i], axis=te.reduce_axis(J[i]))),
                           "no largest value is known; limit it with te.min"),
    "axis of another": (lambda: vector(lambda i: te.sum(V[i], axis=axis_of_another())),
                        "the range of reduce axis 'q' in tensor .* depends on axis 'i'"),
    "positions from elsewhere": (lambda: vector(lambda i: te.argmax(
        V[i], axis=[k(2), te.reduce_axis((i, 4))])), "numbers their values from 0 on"),
    "size type": (lambda: te.size_var("n", "float32"), "size 'n' cannot be float32"),
    "few arguments": (lambda: te.compute((4, 4), lambda i: 0.0), "has 2 dimensions, and its "
                      "fcompute takes 1"),
    "many arguments": (lambda: vector(lambda i, j: 0.0), "has 1 dimensions, and its fcompute "
                       "takes 2"),
    "no expression": (lambda: vector(lambda i: ()), "returned no expression"),
    "not an expression": (lambda: vector(lambda i: "x"), "'x' of type str is not an expression"),
    "none": (lambda: vector(lambda i: None), "None of type NoneType is not an expression"),
    "python if": (lambda: vector(lambda i: 1.0 if A[i, 0] > 0.0 else 2.0), "use te.if_then_else"),
    "dtypes": (lambda: vector(lambda i: I64[i] < U64[i]), "dtypes int64 and uint64, which no type"),
    "dtypes of sides": (lambda: te.if_then_else(P[0], I64[0], U64[0]), "int64 and uint64"),
    "bits of floats": (lambda: V[0] & J[0], "'&' needs integers, not float32"),
    "minus of bools": (lambda: P[0] - P[1], "'-' is not defined for bool"),
    "minus bool": (lambda: -P[0], "'-' is not defined for bool; use ~"),
    "division of ints": (lambda: J[0] / J[1], "'/' needs floats, not int32"),
    "too large": (lambda: te.placeholder((4,), "int8", "X")[0] + 200, "200 does not fit in int8"),
    "negative power": (lambda: J[0] ** -1, "integers to the power -1 are no integers"),
    "bits": (lambda: te.reinterpret("int64", V[0]), "reinterpret between types of equal size"),
    "bits of bool": (lambda: te.reinterpret("int8", P[0]), "bool excepted"),
    "count of floats": (lambda: te.popcount(V[0]), "popcount needs ints, not float32"),
    "function of bools": (lambda: te.exp(P[0]), "exp needs floats, not bool"),
    "const": (lambda: te.const(1.5, "int32"), "1.5 is not an integer"),
    "const of nan": (lambda: te.const(float("nan"), "int32"), "nan is not an integer"),
    "function of ints": (lambda: vector(lambda i: te.exp(J[i])), "exp needs floats, not int32"),
    "function arity": (lambda: te.exp(1.0, 2.0), "exp takes 1 operands, not 2"),
    "function types": (lambda: te.pow(I64[0], U64[0]), "dtypes int64 and uint64"),
    "infinity": (lambda: te.infinity("int32"), "int32 has no infinity"),
    "not at the top": (softmax, "sum in tensor 'B' is not at the top of its expression"),
    "nested": (nested, "max in tensor 'B' is not at the top"),
    "reduction in index": (lambda: reducing(lambda i, r: A[te.argmax(V[r], axis=r), 0]),
                           "argmax in tensor 'B' is not at the top"),
    "mixed": (lambda: reducing(lambda i, r: (te.sum(A[i, r], axis=r), A[i, 0])),
              "mixes reductions and plain"),
    "two axes": (two_axes, "over different axes: \\(k\\) and \\(s\\)"),
    "free axis": (lambda: reducing(lambda i, r: A[i, r]), "uses the reduce axis 'k' and does not"),
    "foreign axis": (borrowed, "uses axis 'i', which belongs to another te.compute"),
    "spatial axis": (lambda: vector(lambda i: te.sum(V[i], axis=i)),
                     "sum reduces over i, which is not made by te.reduce_axis"),
    "no axis": (lambda: te.sum(V[0], axis=[]), "sum has no axis"),
    "axis twice": (lambda: reducing(lambda i, r: te.sum(A[i, r], axis=[r, r])), "reduces twice"),
    "empty max": (lambda: te.max(V[0], axis=k(0)), "empty max: axis 'k' has extent 0"),
    "empty min": (lambda: te.min(V[0], axis=k(0)), "empty min"),
    "empty argmax": (lambda: te.argmax(V[0], axis=k(0)), "empty argmax"),
    "empty argmin": (lambda: te.argmin(V[0], axis=k(0)), "empty argmin"),
    "max of one": (lambda: te.max(V[0]), "max needs axis= to reduce, or two operands"),
    "max of two and axis": (lambda: te.max(V[0], V[1], axis=k()), "reduces one expression, not 2"),
    "where without axis": (lambda: te.max(V[0], V[1], where=P[0]), "where= of max needs axis="),
    "where type": (lambda: te.sum(V[0], axis=k(), where=V[0]), "where= of sum is float32"),
    "start of a wider type": (lambda: te.sum(J[0], axis=k(), init=1.5),
                              "init= of sum is float32, and int32 is reduced"),
    "start with the axis": (lambda: reducing(lambda i, r: te.sum(A[i, r], axis=r, init=V[r])),
                            "init= of sum uses the axis 'k', over which it reduces"),
    "start without axis": (lambda: te.max(V[0], V[1], init=0.0), "init= of max needs axis="),
    "python if ==": (lambda: vector(lambda i: 1.0 if i == 0 else V[i]), "use te.if_then_else"),
    "python if !=": (lambda: vector(lambda i: 1.0 if V[i] != 0.0 else 2.0), "use te.if_then_else"),
    "python or": (lambda: vector(lambda i: te.if_then_else(i == 0 or i == 3, 1.0, V[i])),
                  "use te.if_then_else, te.all or te.any"),
    "bool": (lambda: vector(lambda i: V[i] * bool(P[i])), "the value of P.i. is not known"),
    "float": (lambda: vector(lambda i: float(V[i])), "the value of V.i. .* use .astype"),
    "int": (lambda: vector(lambda i: int(V[i])), "the value of V.i. is not known"),
    "range": (lambda: vector(lambda i: sum(V[n] for n in range(i))), "the value of i .* an axis"),
    "half of a sum": (lambda: reducing(lambda i, r: te.sum(H[r], axis=r) * 2.0), "not at the top"),
    "any of floats": (lambda: te.any(V[0], axis=k()), "needs bool operands"),
    "identity": (lambda: te.comm_reducer(lambda x, y: x + y, lambda d: te.const(0), "s")(
        V[0], axis=k()), "identity of s gives int64, and the operands are float32"),
    "identities": (lambda: te.comm_reducer(lambda x, y: x, lambda d, e: (0.0,), "s")(
        (V[0], V[1]), axis=k()), "identity of s gives 1 values for 2 operands"),
    "combiner": (lambda: te.comm_reducer(lambda x, y: x < y, lambda d: 0.0, "s")(V[0], axis=k()),
                 "combiner of s gives bool"),
    "combiner tuple": (lambda: te.comm_reducer(lambda x, y: x[0], lambda d, e: (0.0, 0.0), "s")(
        (V[0], V[1]), axis=k()), "s reduces 2 values .* use a tuple"),
    "combiner arity": (lambda: te.comm_reducer(lambda x: x, lambda d: 0.0, "s"),
                       "fcombine of 's' must take two arguments"),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition(name):
    define, message = DEFINITIONS[name]
    with pytest.raises(TensorIRError, match=message):
        define()


INDICES = {
    "above": (lambda: vector(lambda i: V[i + 1], 8), r"index 0 of V\[i \+ 1\] ranges over \[1, 8\],"
              r" and that dimension has size 8"),
    "below": (lambda: vector(lambda i: V[i - 1], 8), r"ranges over \[-1, 6\]"),
    "constant": (lambda: vector(lambda i: A[i, 8]), r"index 1 of A\[i, 8\] ranges over \[8, 8\]"),
    "negative": (lambda: vector(lambda i: V[-1]), r"ranges over \[-1, -1\]"),
    "gather": (lambda: vector(lambda i: V[J[i]]), r"can read outside of 'V'"),
    "reduction": (lambda: reducing(lambda i, r: te.sum(V[i + r], axis=r)), r"\[0, 10\]"),
    "wrong side": (lambda: vector(lambda i: te.if_then_else(i < 1, V[i - 1], 0.0), 8), "'V'"),
    "unrelated condition": (
        lambda: vector(lambda i: te.if_then_else(A[0, 0] < 1.0, V[i], 0.0), 9), r"\[0, 8\]"),
    "where": (lambda: te.compute((), lambda: _sum_where(lambda r: r < 10)), r"\[0, 9\]"),
    "symbolic": (lambda: te.compute((N,), lambda i: S[i + 1], name="B"), "that dimension has "
                 "size n"),
    "symbolic constant": (lambda: te.compute((1,), lambda i: S[i], name="B"), "size n"),
    "two sizes": (lambda: te.compute((te.var("m"),), lambda i: S[i], name="B"), "size n"),
    "inside index": (lambda: vector(lambda i: V[te.clip(J[i + 1], 0, 7)]), "of 'J'"),
    "and is no guard": (lambda: vector(lambda i: te.all(i < 8, V[i] > 0.0), 9), "'V'"),
}


def _sum_where(condition):
    axis = k(12)
    return te.sum(V[axis], axis=axis, where=condition(axis))


@pytest.mark.parametrize("name", INDICES)
def test_index_that_can_leave_its_tensor(name):
    define, message = INDICES[name]
    with pytest.raises(VerifyError, match=message):
        define()


INSIDE = {
    "shifted": lambda: vector(lambda i: V[i + 4]),
    "reversed": lambda: vector(lambda i: V[7 - i], 8),
    "strided": lambda: reducing(lambda i, r: te.sum(V[(i * 2 + r) % 8], axis=r)),
    "divided": lambda: te.compute((32,), lambda i: A[i // 8, i % 8]),
    "guarded": lambda: vector(lambda i: te.if_then_else(i < 8, V[i], 0.0), 20),
    "guarded twice": lambda: vector(
        lambda i: te.if_then_else(i < 2, 0.0, te.if_then_else(i >= 10, 1.0, V[i - 2])), 20),
    "negated": lambda: vector(lambda i: te.if_then_else(~te.any(i < 2, i > 9), V[i - 2], 0.0), 20),
    "where": lambda: te.compute((), lambda: _sum_where(lambda r: r < 8)),
    "clip": lambda: vector(lambda i: V[te.clip(i - 3, 0, 7)], 20),
    "symbolic": lambda: te.compute((N - 1,), lambda i: S[i + 1]),
    "symbolic reversed": lambda: te.compute((N,), lambda i: S[N - 1 - i]),
    "symbolic guard": lambda: te.compute(
        (N + 2,), lambda i: te.if_then_else(te.all(i >= 1, i <= N), S[i - 1], 0.0)),
    "symbolic tile": lambda: te.compute(
        (te.ceildiv(N, 4), 4), lambda i, j: te.if_then_else(i * 4 + j < N, S[i * 4 + j], 0.0)),
    "empty": lambda: te.compute((0,), lambda i: V[i + 100]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_index_that_stays_inside(name):
    INSIDE[name]()


def made():
    return te.compute((4,), lambda i: A[i, 0], name="B")


B = made()
UNBOUND = te.compute((2,), lambda i: te.cast(te.var("q"), "float32"), name="B")
FUNCTIONS = {
    "missing": ([B], "tensor 'B' reads placeholder 'A', which is not among the arguments"),
    "twice": ([A, B, B], "tensor 'B' is given twice"),
    "placeholder twice": ([A, A, B], "tensor 'A' is given twice"),
    "only placeholders": ([A, V], "needs an output"),
    "nothing": ([], "needs an output"),
    "order": ([A, B, V], "placeholder 'V' comes after the output 'B'"),
    "not a tensor": ([A, 3], "argument 1 of create_prim_func is 3 of type int"),
    "a sum of sizes": ([A, te.var("m") + 1, B], "argument 1 of create_prim_func is m . 1 of type"),
    "one tensor": (B, "takes a list of tensors"),
    "unknown size": ([UNBOUND], "size 'q' in tensor 'B' is not a dimension of any argument"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_create_prim_func(name):
    args, message = FUNCTIONS[name]
    with pytest.raises(TensorIRError, match=message):
        te.create_prim_func(args)


def test_function_name():
    with pytest.raises(TensorIRError, match="function name '1st' is not an identifier"):
        te.create_prim_func([A, B], name="1st")


def test_tensors_cannot_be_iterated():
    with pytest.raises(TypeError, match="tensor 'V' is not iterable"):
        list(V)
