"""cache_value: a part of a value, computed ahead."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from schedule.requests.candidates import candidates
from tensorir import interpret, parse, te, verify


def product(of=lambda a, b, s: a * (b + s), dtype="float32"):
    """C[i, j] = sum of `of` A[i, k], B[k, j] and S[k]."""
    a, b = te.placeholder((5, 3), dtype, name="A"), te.placeholder((3, 7), dtype, name="B")
    s, k = te.placeholder((3,), dtype, name="S"), te.reduce_axis(3, name="k")
    c = te.compute((5, 7), lambda i, j: te.sum(of(a[i, k], b[k, j], s[k]), axis=k), name="C")
    return te.create_prim_func([a, b, s, c], name="product")


def equal(sch, dtype="float32"):
    """Whether the schedule has the bits of its definition, and is legal in all of its steps."""
    verify(sch.func)
    rng = np.random.default_rng(0)
    args = [rng.integers(1, 99, p.const_shape).astype(dtype) for p in sch.func.inputs]
    (found,), (wanted,) = interpret(sch.func, *args, races=True), interpret(sch.definition, *args)
    np.testing.assert_array_equal(found, wanted)
    assert str(parse(str(sch.func))) == str(sch.func)
    return sch.numerics == "bitwise"


def test_golden(check, golden):
    sch = Schedule(product())
    assert sch.cache_value("C", [1, 1]) == "C_part"
    golden(str(sch.func), "cache_value")
    assert equal(sch)
    check(sch)
    again = Schedule(product()).apply(sch.trace)
    assert str(again.func) == str(sch.func)


@pytest.mark.parametrize("step", [2, 4, 5])
def test_what_is_read_where_the_block_runs_alone(step, check):
    """Parts of a sum that have terms beyond its end read nothing there: sums of odd length over
    products of an array by itself had no tiles."""
    x, k = te.placeholder((13,), name="A"), te.reduce_axis(9, name="k")
    c = te.compute((5,), lambda i: te.sum(x[k] * x[k + i], axis=k), name="C")
    sch = Schedule(te.create_prim_func([x, c], name="lags"))
    sch.rfactor("C", sch.split("k", [None, step])[0])
    maker = sch.cache_value("C_rf", [1, 1])
    check(sch)
    assert (9 % step > 0) == ("select" in str(sch.state.block(maker)))


OF = {
    "int8": lambda a, b, s: a * (b * s),
    "uint16": lambda a, b, s: (b - s) * (b - s) + a,
    "float64": lambda a, b, s: te.exp(b) / s * a,
    "bool": lambda a, b, s: te.if_then_else(b > s, a, s),
}


@pytest.mark.parametrize("dtype", OF)
def test_types(dtype):
    """In the bits that the type of a part has, wherever it occurs."""
    kind = "int8" if dtype == "bool" else dtype
    sch = Schedule(product(OF[dtype], kind))
    found = list(candidates(sch.state, "cache_value"))
    made = set()
    for block, part in found:
        tried = sch.copy()
        tried.cache_value(block, part)
        assert equal(tried, kind)
        made.add(tried.func.buffers[0].dtype)
    assert dtype in made


def test_what_a_part_reads_and_writes_may_be_renamed_and_permuted(check):
    a, b = te.placeholder((2, 3, 4), name="x"), te.placeholder((4, 3), name="y")
    k = te.reduce_axis(3, name="w")
    c = te.compute((4, 1, 2), lambda p, u, q: te.sum(te.exp(a[q, k, p]) * b[p, k], k), name="z")
    sch = Schedule(te.create_prim_func([a, b, c], name="turned"))
    sch.split("p", [None, 3])
    maker = sch.cache_value("z", [1, 0], "local")
    assert sch.state.func.buffers[0].const_shape == (4, 2, 3)
    sch.compute_at(maker, "q")
    check(sch)


def test_a_copy_takes_it_in(check):
    """So an operand is packed and computed at once."""
    sch = Schedule(product())
    maker = sch.cache_value("C", [1, 1])
    copy = sch.cache_read("C", "C_part", "global")
    sch.transform_layout(copy, "C_part_global", "k, j: j // 4, k, j % 4", 0.0)
    sch.compute_inline(maker)
    assert [str(b) for b in sch.get_blocks()] == ["C_part_global", "C"]
    check(sch)


def test_symbolic_sizes_and_numbers():
    n, alpha = te.var("n"), te.var("alpha", "float32")
    a, b = te.placeholder((n, 3), name="A"), te.placeholder((3,), name="B")
    k = te.reduce_axis(3, name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k] * (b[k] * alpha), axis=k), name="C")
    sch = Schedule(te.create_prim_func([alpha, a, b, c], name="scaled"))
    sch.cache_value("C", [1, 1])
    x, y = np.arange(15, dtype="float32").reshape(5, 3), np.arange(3, dtype="float32")
    np.testing.assert_array_equal(build(sch)(2.0, x, y), x @ (2 * y))


def test_refuses_places_that_lead_nowhere():
    sch = Schedule(product())
    for part, match in [
        ([2], "at \\[\\], has operands 0 to 1"),
        ([1, -1], "at \\[1\\], has operands 0 to 1"),
        ([1, 0, 0], "has no operands that are values"),
    ]:
        refused(sch.cache_value, "C", part, match=match)
    refused(sch.cache_value, "C", [1, 1], "disk", match="is none of")
    refused(sch.cache_value, "C", [], match="reads 'C', which the block writes")
    x = te.placeholder((4,), "int64", name="x")
    y = te.compute((4,), lambda i: x[i] * 2 + i, name="y")
    sch = Schedule(te.create_prim_func([x, y], name="counted"))
    for part in ([1], [0, 1]):
        refused(sch.cache_value, "y", part, match="of which nothing is computed")


def test_refuses_what_only_a_condition_keeps_inside(conv):
    sch = Schedule(conv())
    refused(sch.cache_value, "pad", [1], match="by itself cannot be verified")
    assert sch.cache_value("pad", []) == "pad_part"  # with the condition
    sch = Schedule(conv())
    sch.compute_at("pad", sch.get_loops("conv")[0])
    refused(sch.cache_value, "conv", [1], match="'pad' writes 'pad' in the same nest")


def test_refuses_what_is_made_in_part():
    sch = Schedule(parse(PART))
    refused(sch.cache_value, "C", [0], match="computes only the part of 'B'")


def test_refuses_several_values():
    a, k = te.placeholder((4, 5), name="A"), te.reduce_axis(5, name="k")
    places = te.compute((4,), lambda i: te.argmax(a[i, k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, places]))
    refused(sch.cache_value, sch.get_blocks()[0], [0], match="stores more than one value")



PART = """
@prim_func
def part(A: f32[5, 4], C: f32[3]):
    B = alloc(f32[5])
    for i, k in grid(3, 4):
        with block("B"):
            vi = spatial(5, i)
            vk = reduce(4, k)
            with init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
    for c in range(3):
        with block("C"):
            vc = spatial(3, c)
            C[vc] = B[vc] * 2.0
"""


def read_at(place):
    """C[i] = sum of A at a place that i and k say, and B[k]."""
    a, b = te.placeholder((40,), name="A"), te.placeholder((5,), name="B")
    k = te.reduce_axis(5, name="k")
    c = te.compute((12,), lambda i: te.sum(a[place(i, k)] * b[k], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="windows")


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        (lambda i, k: i + k, (16,)),
        (lambda i, k: i * 2 + k, (27,)),
        (lambda i, k: i + k * 3, (24,)),
        (lambda i, k: i - k + 4, (16,)),
        (lambda i, k: te.clip(i * 2 - k, 0, 15), (27,)),
        (lambda i, k: (i + k) // 2, (16,)),
        (lambda i, k: te.clip(i + k, 0, 5) + te.maximum(i + k, 9), (16,)),
        (lambda i, k: i * 3 % 7 + k, (12, 5)),
        (lambda i, k: i * 5 % 40 + k * 0, (12,)),
        (lambda i, k: te.clip(i + k, 0, 5) + i, (12, 5)),
        (lambda i, k: i * 5 % 30 + k, (12, 5)),
    ],
)
def test_variables_by_whose_sum_a_part_moves_have_one_axis(place, shape, check):
    """As those of windows, in each of its places; not digits, which are never at one place."""
    sch = Schedule(read_at(place))
    maker = sch.cache_value("C", [1, 0])
    made = sch.state.block(maker).body.buffer.const_shape
    assert made == shape
    assert equal(sch)
    check(sch)
