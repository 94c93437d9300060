"""transform_layout: index maps, packed operands, padding, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule, ScheduleError, Trace
from tensorir import dtype, interpret, ops, parse, te, verify


def packed_lanes(k, j):
    return j // 4, k, j % 4


def test_golden_packed_panel(matmul, check, golden):
    """The packed operand of a matrix product: [n/4][k][4], computed where it is used."""
    sch = Schedule(matmul(8, 12, 5))
    copy = sch.cache_read("C", "B", "global")
    sch.transform_layout("C", "B_global", packed_lanes)
    outer, inner = sch.split("j", [None, 4])
    sch.reorder(outer, "i", "k", inner)
    sch.compute_at(copy, outer)
    sch.vectorize(inner)
    sch.parallel(outer)
    golden(str(sch.func), "packed_panel")
    check(sch)
    assert "B_global[k * 4]" in build(sch).source


@pytest.mark.parametrize("n", [128, 100])
def test_panels_of_whole_vectors(matmul, check, n):
    """Packing by vectors: full panels become vector copies, the last one is padded."""
    sch = Schedule(matmul(9, n, 11))
    copy = sch.cache_read("C", "B", "global")
    sch.transform_layout(copy, "B_global", lambda k, j: (j // 16, k, j % 16), pad_value=0.0)
    i_0, i_1 = sch.split("i", [None, 4])
    j_0, j_1, j_2 = sch.split("j", [None, 4, 16])
    sch.reorder(j_0, i_0, j_1, "k", i_1, j_2)
    sch.compute_at(copy, j_0)
    sch.parallel(j_0)
    sch.unroll(i_1)
    sch.vectorize(j_2)
    sch.vectorize(sch.get_loops(copy)[-1])
    check(sch)


def test_golden_padding(matmul, check, golden):
    """Ten columns in panels of four: the copy fills the last one up, and can still be moved."""
    sch = Schedule(matmul())
    copy = sch.cache_read("C", "B", "global")
    sch.transform_layout("C", "B_global", lambda k, j: (j // 4, k, j % 4), pad_value=0.0)
    golden(str(sch.func), "padding")
    check(sch)
    outer, inner = sch.split("j", [None, 4])
    sch.reorder(outer, "i", "k", inner)
    sch.compute_at(copy, outer)
    check(sch)


def test_golden_fill(matmul, check, golden):
    """The padding of a reduction is filled by a block of its own."""
    sch = Schedule(matmul())
    sch.cache_write("C", "C", "global")
    sch.transform_layout("C", "C_global", "i, j: j // 4, i, j % 4", 0)
    golden(str(sch.func), "fill")
    check(sch)


MAPS = [
    ("i, j: j, i", None),
    ("i, j: i * 5 + j", None),
    ("i, j: i // 4, j, i % 4", None),
    ("i, j: i % 3, j, i // 3", None),
    ("i, j: (i * 5 + j) // 6, (i * 5 + j) % 6", None),
    ("i, j: 11 - i, j", None),
    ("i, j: i + j, j", 1.5),
    ("i, j: i * 2, j + 1", "-inf"),
    ("i, j: i // 5, j // 2, i % 5, j % 2", "nan"),
]


@pytest.mark.parametrize(("text", "pad"), MAPS, ids=[text for text, _ in MAPS])
def test_maps(chain, check, text, pad):
    sch = Schedule(chain())
    sch.transform_layout("C", "B", text, pad)
    check(sch)
    sch.transform_layout("D", "C", text, pad)
    check(sch)


@pytest.mark.parametrize(("text", "pad"), MAPS[:4] + MAPS[-1:], ids=lambda value: str(value))
def test_before_and_after_other_primitives(chain, check, text, pad):
    sch = Schedule(chain())
    if pad is None:
        sch.split("i", [None, 5])
    sch.split(sch.get_loops("D")[0], [None, 4])
    sch.transform_layout("B", "B", text, pad)
    sch.transform_layout("C", "C", text, pad)
    check(sch)
    for block in ("C", "B"):
        sch.compute_at(block, sch.get_loops("D")[0])
    sch.parallel(sch.get_loops("D")[0])
    check(sch)


def test_reduction_on_new_axes(matmul, check):
    """The block speaks of the new indices; its loops stay, and can follow the layout."""
    sch = Schedule(matmul(6, 12, 7))
    sch.cache_write("C", "C", "global")
    sch.transform_layout("C", "C_global", lambda i, j: (j // 4, i, j % 4))
    assert "C_global[vj_0, vi, vj_1]" in str(sch.func)
    outer, inner = sch.split("j", [None, 4])
    sch.reorder(outer, "i", "k", inner)
    sch.vectorize(inner)
    init = sch.decompose_reduction("C", "k")
    assert init in sch.get_blocks()
    check(sch)


def test_symbolic_sizes():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    func = te.create_prim_func([a, c], name="symbolic")
    for text, pad in [
        ("i, j: j, i", None),
        ("i, j: j // 4, i, j % 4", 0.0),
        ("i, j: i * m + j", None),
        ("i, j: i // 2, j // 3, i % 2, j % 3", 0.0),
    ]:
        sch = Schedule(func)
        sch.transform_layout("B", "B", text, pad)
        verify(sch.func)
        assert str(parse(str(sch.func))) == str(sch.func)
        if "*" not in text:
            sch.compute_at("B", sch.get_loops("C")[0])
        x = np.arange(35, dtype="float32").reshape(5, 7)
        np.testing.assert_array_equal(interpret(sch.func, x)[0], (x + 1) * 2)
        np.testing.assert_array_equal(build(sch)(x), (x + 1) * 2)


def test_lambdas_are_stored_as_text(chain):
    sch = Schedule(chain())
    sch.transform_layout("C", "B", lambda row, col: [col, row * 2], pad_value=0.0)
    step = sch.trace.instructions[-1]
    assert step.args["index_map"] == "row, col: col, row * 2"
    again = Schedule(chain()).apply(Trace.from_python(sch.trace.as_python()))
    assert str(again.func) == str(sch.func)
    with pytest.raises(ScheduleError, match="one named parameter per dimension"):
        sch.transform_layout("C", "B", lambda *indices: indices)


def test_argmax_keeps_its_pair(check):
    a = te.placeholder((6, 4), name="A")
    k = te.reduce_axis(4, name="k")
    m = te.compute((6,), lambda i: te.argmax(a[i, k], axis=k), name="M")
    d = te.compute((6,), lambda i: m[i] + 1, name="D")
    sch = Schedule(te.create_prim_func([a, d], name="argmax"))
    for buffer in [b.name for b in sch.func.buffers]:
        sch.transform_layout("M", buffer, "i: i % 2, i // 2")
    check(sch)


def test_after_compute_at(matmul, check):
    """The other order: the copy is in place, and then gets its layout."""
    sch = Schedule(matmul(8, 12, 5))
    copy = sch.cache_read("C", "B", "global")
    outer, inner = sch.split("j", [None, 4])
    sch.reorder(outer, "i", "k", inner)
    sch.compute_at(copy, outer)
    sch.parallel(outer)
    sch.transform_layout("C", "B_global", packed_lanes)
    check(sch)
    assert "B_global[20]" in build(sch).source
    sch.transform_layout("C", "B_global", "i, j, k: i * 20 + j * 4 + k")
    check(sch)


def test_refuses_uncovered_boxes():
    """What may be read, behind a condition, is not all written in the same iteration."""
    sch = Schedule(parse(HALVES))
    refused(sch.transform_layout, "T", "T", "i: i // 4, i % 4", match="is not known to lie between")


HALVES = """
@prim_func
def halves(A: f32[16], C: f32[16]):
    T = alloc(f32[16])
    for i in range(4):
        for j in range(3):
            with block("T"):
                vi = spatial(16, i * 4 + j)
                T[vi] = A[vi]
        for k in range(4):
            with block("C"):
                vi = spatial(16, i * 4 + k)
                C[vi] = select(vi % 4 < 3, T[vi], 0.0)
"""


def test_refuses_buffers(chain, matmul):
    sch = Schedule(chain())
    refused(
        sch.transform_layout, "B", "A", "i, j: j, i", match="'A' is a parameter .*cache it|para"
    )
    refused(sch.transform_layout, "D", "B", "i, j: j, i", match="'B' is not among them")
    sch.compute_at("C", sch.get_loops("D")[0])
    padded = "i, j: j // 4, i, j % 4"
    refused(sch.transform_layout, "D", "C", padded, 0, match="'D' reads 'C' in the nest where 'C'")
    sch = Schedule(chain())
    sch.storage_align("B", "B", 0, 8)
    refused(sch.transform_layout, "B", "B", "i, j: j, i", match="'B' is marked align")
    marked = parse(
        str(chain()).replace("C[vi, vj] =", 'annotate({"x": 1})\n            C[vi, vj] =')
    )
    sch = Schedule(marked)
    refused(sch.transform_layout, "B", "B", "i, j: j, i", match="'C', which uses 'B', is annotated")


def test_refuses_maps(chain):
    sch = Schedule(chain())
    for text, match in [
        ("j // 4", "is no index map"),
        ("i: i", "has 1 parameters; 'B' has 2 dimensions"),
        ("i, i: i, i", "are not distinct new names"),
        ("i, j: i, q", "cannot be read"),
        ("i, j: i, B[j]", "cannot be read"),
        ("i, j: i, (", "cannot be read"),
        ("i, j: i < 3, j", "is no index"),
        ("i, j: i, 0", "may send two elements of 'B', of different 'j'"),
        ("i, j: i + j", "may send two elements"),
        ("i, j: i // 2, j", "may send two elements of 'B', of different 'i'"),
        ("i, j: i - 1, j", "i - 1 of the index map is not known to be 0 or more"),
        ("i, j: i // j, j, i", "is not known to be 0 or more and bounded"),
    ]:
        refused(sch.transform_layout, "B", "B", text, match=match)


def test_refuses_padding(chain):
    sch = Schedule(chain())
    padded = "i, j: j // 4, i, j % 4"
    refused(sch.transform_layout, "B", "B", padded, match=r"\[2, 12, 4\] has places that no")
    for value in ("zero", True, float("inf")):
        refused(sch.transform_layout, "B", "B", padded, value, match="is no value of type float32")
        exact = "i, j: j, i"  # whatever it is needed for
        refused(sch.transform_layout, "B", "B", exact, value, match="is no value of type float32")


@pytest.mark.parametrize("kind", dtype.SCALARS)
def test_zero_is_a_padding_of_every_type(kind):
    """Library and rules fill up whatever they copy with it."""
    a = te.placeholder((5, 10), kind, name="A")
    b = te.compute((5, 10), lambda i, j: a[i, j], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    copy = sch.cache_read("B", "A", "global")
    sch.transform_layout(copy, "A_global", "i, j: j // 4, i, j % 4", pad_value=0)
    verify(sch.func)
    x = (np.arange(50).reshape(5, 10) % 2).astype(dtype.numpy_dtype(kind))
    np.testing.assert_array_equal(interpret(sch.func, x)[0], x)


@pytest.mark.parametrize("width", [4, 8])
def test_a_writer_stays_at_its_variables_where_an_extent_is_one(width):
    """One panel, or one row: compute_at still moves the block, which needs plain variables."""
    a = te.placeholder((1, 8), name="A")
    b = te.compute((1, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((1, 8), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name="chain"))
    sch.transform_layout("B", "B", f"i, j: i, j // {width}, j % {width}")
    outer, _ = sch.split(sch.get_loops("C")[1], [None, 4])
    sch.compute_at("B", outer)
    verify(sch.func)
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    np.testing.assert_array_equal(interpret(sch.func, x)[0], (x + 1) * 2)


def test_a_block_that_an_algorithm_computes_has_no_hint_of_memory():
    """The function says by block what was computed otherwise; a buffer may have the same name."""
    x = te.placeholder((4, 9), name="X")
    sch = Schedule(te.create_prim_func([x, ops.var(x, 1, algorithm="welford")], name="var"))
    made = str(sch.use_algorithm("moments", "two_pass_moments"))
    assert made in sch.func.attrs["algorithms"]
    sch.transform_layout(made, made, "i: 3 - i")
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_allclose(interpret(sch.func, x)[0], x.var(axis=1), rtol=1e-4)


@pytest.mark.parametrize("pad", [0, "-inf", "nan"])
@pytest.mark.parametrize("index_map", ["i, j: i, j, i", "i, j: j, 2, j, i"])
def test_an_index_may_be_there_twice(index_map, pad):
    a = te.placeholder((3, 4), name="A")
    b = te.compute((3, 4), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((3, 4), lambda i, j: b[i, j] + 1.0, name="C")
    func = te.create_prim_func([a, c], name="twice")
    sch = Schedule(func)
    sch.transform_layout("B", "B", index_map, pad)
    text = str(sch.func)
    assert str(parse(text)) == text
    for trace in (Trace.from_json(sch.trace.dumps()), Trace.from_python(sch.trace.as_python())):
        assert str(Schedule(func).apply(trace).func) == text
    x = np.arange(12, dtype="f4").reshape(3, 4)
    np.testing.assert_array_equal(interpret(sch.func, x)[0], x * 2 + 1)
