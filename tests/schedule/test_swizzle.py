"""swizzle: elements in another order in memory, which only flatten_buffers sees."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import Target, VerifyError, interpret, lower, parse, prove, te
from tensorir.arith import Analyzer
from tensorir.expr import Const
from tensorir.passes.flatten_buffers import flatten_buffers
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.swizzle import swizzled, swizzled_size


def place(n: int, bits: int, base: int, shift: int) -> int:
    return n ^ (n >> shift & ((1 << bits) - 1) << base)


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
@pytest.mark.parametrize("base", [0, 2, 3])
@pytest.mark.parametrize("shift", [1, 2, 3, 7])
def test_places_are_those_of_the_formula_and_all_of_a_run(bits, base, shift):
    wanted, known = (bits, base, shift), Analyzer()
    size = swizzled_size(Const(100, "int64"), wanted, known).value
    assert size % (1 << (bits + base)) == 0 and size >= 100
    found = [known.simplify(swizzled(Const(n, "int64"), wanted, known)).value for n in range(size)]
    assert found == [place(n, *wanted) for n in range(size)]
    assert sorted(found) == list(range(size))


def transpose(n=5, m=7):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[j, i] * 2.0, name="C")
    return te.create_prim_func([a, c], name="turn")


@pytest.mark.parametrize("wanted", [(3, 2, 3), (1, 0, 1), (2, 0, 1), (2, 2, 5)])
def test_same_values(wanted, check):
    sch = Schedule(transpose())
    sch.swizzle("C", "B", *wanted)
    check(sch)
    x = np.arange(35, dtype="float32").reshape(5, 7)
    flat = flatten_buffers(lower_blocks(sch.func))
    np.testing.assert_array_equal(interpret(flat, x.ravel())[0], ((x.T + 1) * 2).ravel())


def test_golden(golden, check):
    """Of the part that is allocated in the end, in vectors that stay together."""
    sch = Schedule(transpose(32, 32))
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.compute_at("B", outer)
    sch.swizzle("B", "B", 2, 2, 1)
    sch.vectorize(sch.split(sch.get_loops("B")[-1], [None, 4])[-1])
    check(sch)
    low = lower(sch.func, Target("c", "haswell"))
    golden(str(sch.func) + str(low), "swizzle")


def test_symbolic():
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, n), lambda i, j: b[j, i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name="symbolic"))
    sch.swizzle("B", "B", 3, 0, 3)
    for size in (0, 1, 7, 16):
        x = np.arange(size * size, dtype="float32").reshape(size, size)
        np.testing.assert_array_equal(build(sch)(x), (x.T + 1) * 2)


def test_refuses(chain):
    sch = Schedule(chain())
    refused(sch.swizzle, "B", "A", 3, 2, 3, match="'A' is a parameter of the function")
    refused(sch.swizzle, "B", "C", 3, 2, 3, match="'C' is not among them")
    refused(sch.swizzle, "B", "B", 0, 2, 3, match="no element would move")
    refused(sch.swizzle, "B", "B", 3, -1, 3, match="base -1 is not at least 0")
    refused(sch.swizzle, "B", "B", 3, 2, 0, match="come to lie at one place")
    refused(sch.swizzle, "B", "B", 15, 2, 3, match="elements are longer than")
    refused(sch.swizzle, "B", "B", 3, 2, 63, match="shift 63 is more than 62, the bits of a place")
    sch.swizzle("B", "B", 3, 2, 3)
    refused(sch.transform_layout, "B", "B", "i, j: j, i", match="is marked swizzle")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ('{"B": [0, 2, 3]}', "not \\[bits, base, shift\\]"),
        ('{"B": [3, 2, 0]}', "not \\[bits, base, shift\\]"),
        ('{"B": 3}', "not \\[bits, base, shift\\]"),
        ('{"A": [3, 2, 3]}', "'A' is a parameter"),
        ("[3]", "not a dictionary"),
    ],
)
def test_texts_have_its_form(chain, value, match):
    sch = Schedule(chain())
    sch.swizzle("B", "B", 3, 2, 3)
    text = str(sch.func)
    assert '{"B": [3, 2, 3]}' in text
    prove(parse(text))
    with pytest.raises(VerifyError, match=match):
        prove(parse(text.replace('{"B": [3, 2, 3]}', value)))


def tile(wanted=None, vector=4):
    """A transpose by tiles of 32 x 32 in shared memory, filled in vectors by 8 x 32 threads."""
    a = te.placeholder((40, 36), name="A")
    c = te.compute((36, 40), lambda i, j: a[j, i], name="C")
    sch = Schedule(te.create_prim_func([a, c], name="turn"))
    copy = sch.cache_read("C", "A", "shared")
    (i0, i1), (j0, j1) = (sch.split(loop, [None, 32]) for loop in sch.get_loops("C"))
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(copy, j0)
    for loop, axis in zip((i0, j0, j1), ("blockIdx.y", "blockIdx.x", "threadIdx.x")):
        sch.bind(loop, axis)
    sch.bind(sch.split(i1, [None, 8])[1], "threadIdx.y")
    sch.cooperative_fetch(copy, vector=vector)
    if wanted is not None:
        sch.swizzle(copy, copy, *wanted)
    return sch


@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("wanted", [(5, 0, 5), (3, 2, 3), (2, 1, 4), (1, 0, 1)])
def test_indices_of_gpus_have_32_bits_and_nobody_waits_more_often(wanted, vector):
    """Also where lanes of a vector change their places, so that it is no vector of neighbours."""
    low, plain = (lower(tile(w, vector).func, Target.parse("cuda")) for w in (wanted, None))
    assert "i64" not in str(low)
    assert str(low).count("sync") == str(plain).count("sync") == 1
    x = np.arange(40 * 36, dtype="float32")
    np.testing.assert_array_equal(interpret(low, x, races=True)[0], x.reshape(40, 36).T.ravel())
