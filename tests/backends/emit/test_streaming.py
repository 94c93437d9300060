"""Which streamed vectors may be stored in pieces of 16 bytes: those that complete lines soon."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from backends.emit.long_runs import RUN, long_runs
from schedule import Schedule
from tensorir import Target, lower, te


def streamed(m: int, n: int, turned: bool = False, unrolled: int = 1, dtype: str = "float32"):
    """Rows of n elements; `turned`: those of a column come first."""
    a = te.placeholder((m, n), dtype, name="a")
    func = te.create_prim_func([a, te.compute((m, n), lambda i, j: a[i, j] + a[i, j], name="b")])
    sch = Schedule(func)
    i, j = sch.get_loops("b")
    outer, lanes = sch.split(j, [None, 16])
    if turned:
        sch.reorder(outer, i, lanes)
    elif unrolled > 1:
        outer, few = sch.split(outer, [None, unrolled])
        sch.unroll(few)
    sch.vectorize(lanes)
    sch.stream("b")
    return sch


@pytest.mark.parametrize(
    ("m", "n", "how", "wanted"),
    [
        (1, RUN // 4, {}, True),
        (1, RUN // 4, {"unrolled": 4}, True),
        (1, RUN // 8, {}, False),  # short
        (1, RUN // 8, {"dtype": "float64"}, True),
        (64, 64, {}, True),  # rows that follow each other
        (64, 64, {"turned": True}, False),
        (64, 2048, {"turned": True}, False),
        (64, 8, {"turned": True}, False),
    ],
)
def test_runs(m, n, how, wanted):
    sch = streamed(m, n, **how)
    assert long_runs(lower(sch.func, Target(vector_bits=512))) == ({"b"} if wanted else set())
    assert ("_pieces" in build(sch, "c -vector_bits=512").source) == wanted


def test_sizes_that_are_not_known_may_be_long():
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    sch = Schedule(te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0, name="b")]))
    outer, lanes = sch.split(sch.get_loops("b")[0], [None, 8])
    sch.vectorize(lanes)
    sch.stream("b")
    assert long_runs(lower(sch.func, Target(vector_bits=512))) == {"b"}


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_any_place_is_written_and_nothing_beside_it(bits, dtype):
    n = 3 * RUN // np.dtype(dtype).itemsize + 5
    a = te.placeholder((n,), dtype, name="a")
    sch = Schedule(te.create_prim_func([a, te.compute((n,), lambda i: a[i] + a[i], name="b")]))
    sch.vectorize(
        sch.split(sch.get_loops("b")[0], [None, bits // 8 // np.dtype(dtype).itemsize])[1]
    )
    sch.stream("b")
    kernel = build(sch, f"c -vector_bits={bits}")
    x = (np.arange(n) % 100).astype(dtype)
    memory = np.zeros(x.nbytes + 256, "uint8")
    line = -memory.ctypes.data % 64
    for offset in range(0, 64, x.itemsize):
        memory[:] = 255
        out = memory[line + offset :][: x.nbytes].view(dtype)
        kernel(x, out)
        np.testing.assert_array_equal(out, x + x)
        assert (memory[: line + offset] == 255).all()
        assert (memory[line + offset + x.nbytes :] == 255).all()
