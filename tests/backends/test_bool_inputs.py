"""A bool of the caller is a byte: 0 is False and all others are True, whatever a program does.

Masked arrays are refused wherever arrays come in, since no program would see the mask.
"""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import TensorIRError, interpret, ops, parse, reference, te

ROWS, COLUMNS = 6, 37
BYTES = np.array([0, 1, 2, 255, 128, 0, 254, 3], np.uint8)


def odd_bools(rows=ROWS, columns=COLUMNS):
    return np.resize(BYTES, (rows, columns)).view(bool)


def program():
    """All that expressions can do with a bool, each in an output of its own."""
    a = te.placeholder((ROWS, COLUMNS), "bool", name="A")
    x = te.placeholder((ROWS, COLUMNS), name="X")
    k = te.reduce_axis((0, COLUMNS), name="k")
    shape = (ROWS, COLUMNS)
    outputs = [
        te.compute(shape, lambda i, j: te.if_then_else(a[i, j], 1, 0), name="Chosen"),
        te.compute(shape, lambda i, j: te.select(a[i, j], x[i, j], 2.0), name="Selected"),
        te.compute(shape, lambda i, j: a[i, j].astype("int32"), name="Number"),
        te.compute(shape, lambda i, j: a[i, j].astype("float32") * 3.0, name="Float"),
        te.compute(shape, lambda i, j: a[i, j] == (x[i, j] > 0.0), name="Same"),
        te.compute(shape, lambda i, j: te.all(a[i, j], x[i, j] > 0.0), name="Both"),
        te.compute((ROWS,), lambda i: te.sum(a[i, k].astype("int32"), axis=k), name="Count"),
        te.compute(shape, lambda i, j: x[i, a[i, j].astype("int64")], name="Taken"),
        te.compute(shape, lambda i, j: a[i, j], name="Copied"),
        te.compute(shape, lambda i, j: te.select(x[i, j] > 0.0, a[i, j], True), name="Moved"),
        ops.logical_not(a),
        ops.transpose(a),
        ops.pad(a, ((1, 0), (2, 1)), value=True),
        ops.where(a, x, 0.0),
    ]
    return te.create_prim_func([a, x, *outputs], name="bools")


def arguments():
    return odd_bools(), np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("float32")


class Exporter:
    """An array that speaks DLPack only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def bits(arrays):
    return [(a.dtype, a.shape, a.tobytes()) for a in arrays]


@pytest.fixture(scope="module")
def expected():
    a, x = arguments()
    func = program()
    results = interpret(func, a.view(np.uint8) != 0, x)
    for output, result in zip(func.outputs, results):
        if output.dtype == "bool":
            assert set(result.view(np.uint8).ravel()) <= {0, 1}
    return bits(results)


@pytest.mark.parametrize("schedule", [lambda func: func, default_schedule])
def test_any_byte_but_zero_is_true(expected, schedule):
    kernel = build(schedule(program()))
    a, x = arguments()
    for given in (a, Exporter(a), memoryview(a)):
        assert bits(kernel(given, x)) == expected
    np.testing.assert_array_equal(a.view(np.uint8), odd_bools().view(np.uint8))


def test_constants(expected):
    a, x = arguments()
    kernel = build(default_schedule(program()), constants={"A": a})
    assert bits(kernel(x)) == expected


def test_the_interpreter_and_the_reference(expected):
    a, x = arguments()
    func = program()
    assert bits(interpret(func, a, x)) == expected
    for got, want in zip(reference(func, a, x), reference(func, a.view(np.uint8) != 0, x)):
        assert got.tobytes() == want.tobytes()


EXTERN = """
@prim_func
def ordered(A: bool[3, 8], B: bool[3, 8], C: bool[3, 8]):
    for i in range(3):
        with block("B"):
            vi = spatial(3, i)
            extern("sort", [part(B[vi, 0], 8)], [part(A[vi, 0], 8)])
    for i in range(3):
        for j in range(8):
            with block("C"):
                vi = spatial(3, i)
                vj = spatial(8, j)
                C[vi, vj] = A[vi, vj]
"""


def test_extern_functions_see_bools():
    func = parse(EXTERN.strip())
    a = odd_bools(3, 8)
    whole = np.asarray(a.view(np.uint8) != 0)
    found = build(func)(a)
    assert bits(found) == bits((np.sort(whole, axis=1), whole)) == bits(interpret(func, a))


def masked(values):
    return np.ma.masked_array(values, mask=np.zeros(values.shape, bool))


def test_masked_arrays_are_refused():
    x = te.placeholder((4,), name="X")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="Y")])
    kernel = build(func)
    plain, hidden = np.ones(4, np.float32), masked(np.ones(4, np.float32))
    for call in (
        lambda: kernel(hidden),
        lambda: kernel(plain, hidden),
        lambda: kernel.timer(hidden),
        lambda: build(func, constants={"X": hidden}),
        lambda: interpret(func, hidden),
        lambda: reference(func, hidden),
    ):
        with pytest.raises(TensorIRError, match=r"'[XY]'.* is a masked array.*\.filled\("):
            call()
    assert (hidden.data == 1).all()


def test_other_arrays_with_a_class_of_their_own_are_plain_memory(monkeypatch, tmp_path):
    x = te.placeholder((2, 4), name="X")
    func = te.create_prim_func([x, te.compute((2, 4), lambda i, j: x[i, j] + 1.0, name="Y")])
    kernel = build(func)
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    structured = np.zeros((2, 4), [("value", "f4"), ("mask", "f4")]).view(np.recarray)
    assert (kernel(structured.mask.copy()) == 1).all()
    with pytest.raises(TensorIRError, match=r"'X' \(0\) has dtype \(numpy.record"):
        kernel(structured)
    monkeypatch.setattr("backends.kernel.adopt", lambda *given: pytest.fail("not in the entry"))
    for given in (mapped, np.ones((2, 4), np.float32).view(np.matrix)):
        out = kernel(given)
        assert type(out) is np.ndarray and (out == 2).all()
