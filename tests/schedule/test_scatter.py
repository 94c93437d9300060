"""scatter: terms that are for one element are added there, bit by bit as before."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import VerifyError, int_value, interpret, parse, te, verify

BINS = 11


def number(x, k):
    """What is in `x` as a number of a bin."""
    return x[k]


def program(n=37, kind="int32", dtype="float32", bins=BINS, find=number, rows=None, of=None):
    """Sums of w by the bin that `find` gives; of rows of it where `rows` is a number."""
    x = te.placeholder((n,), kind, name="x")
    w = te.placeholder((n,) if rows is None else (n, rows), dtype, name="w")
    k = te.reduce_axis(n, name="k")

    def element(b, *j):
        if of is not None:
            return of(x, w, k, b)
        return te.sum(te.if_then_else(find(x, k) == b, w[(k, *j)], 0), axis=k)

    axes = (lambda b: element(b)) if rows is None else (lambda b, j: element(b, j))
    h = te.compute((bins,) if rows is None else (bins, rows), axes, name="h")
    return te.create_prim_func([x, w, h])


def drawn(func, n=37, seed=0):
    """Numbers in and out of range; of floats all that has a sign, a NaN or an infinity."""
    rng = np.random.default_rng(seed)
    arrays = []
    for p in func.inputs:
        shape = tuple(n if int_value(d) is None else int_value(d) for d in p.shape)
        if p.name == "x":
            low = 0 if p.dtype.startswith("u") or p.dtype.startswith("float") else -3
            found = rng.integers(low, 15, shape)
            arrays.append((found / 2 if p.dtype.startswith("float") else found).astype(p.dtype))
        elif p.dtype.startswith("float"):
            values = [0.0, -0.0, -0.0, 1.0, -1.0, 0.1, 3e30] * 6 + [np.inf, -np.inf, np.nan]
            arrays.append(rng.choice(values, shape).astype(p.dtype))
        else:
            info = np.iinfo(p.dtype)
            arrays.append(rng.integers(info.min, info.max, shape, p.dtype, endpoint=True))
    return arrays


def same_bits(a, b):
    nan = np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
    assert (nan == (np.isnan(b) if b.dtype.kind == "f" else nan)).all()
    assert a[~nan].tobytes() == b[~nan].tobytes()


def check_bits(sch, n=37, compiled=True):
    """The scheduled program gives the bits of its definition, by the interpreter and in C."""
    func = sch.definition
    verify(sch.func)
    assert str(parse(str(sch.func))) == str(sch.func)
    inputs = drawn(func, n)
    (wanted,) = interpret(func, *inputs)
    same_bits(wanted, interpret(sch.func, *inputs)[0])
    if compiled:
        same_bits(wanted, build(sch, "c -threads=2")(*inputs))


def scattered(func):
    sch = Schedule(func)
    assert sch.scatter("h") == "h_init"
    assert not any(loop.startswith("b") for loop in sch.get_loops("h"))
    return sch


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64"])
def test_every_type(kind, dtype):
    sch = scattered(program(kind=kind, dtype=dtype))
    assert sch.numerics == "bitwise"
    check_bits(sch, compiled=kind == "uint8" or dtype == "int8")


@pytest.mark.parametrize("n, bins", [(0, 5), (1, 1), (1, 7), (13, 1), (16, 16), (te.var("n"), 5)])
def test_sizes(n, bins):
    """One bin has a loop or none; and none has a term."""
    sch = Schedule(program(n, bins=bins, rows=3))
    sch.scatter("h")
    check_bits(sch, 17 if not isinstance(n, int) else n)


def test_a_number_of_bins_that_a_call_tells():
    m = te.var("m")
    x, like = te.placeholder((9,), "int32", name="x"), te.placeholder((m,), name="like")
    k = te.reduce_axis(9, name="k")
    h = te.compute(
        (m,), lambda b: te.sum(te.if_then_else(x[k] == b, like[b], 0.0), axis=k), name="h"
    )
    sch = Schedule(te.create_prim_func([x, like, h]))
    sch.scatter("h")
    args = [np.array([0, 1, 1, 5, -1, 4, 3, 3, 9], "int32"), np.arange(5, dtype="float32")]
    np.testing.assert_array_equal(build(sch)(*args), interpret(sch.definition, *args)[0])


@pytest.mark.parametrize(
    "find",
    [
        lambda x, k: x[k] - 3,
        lambda x, k: 7 - x[k],
        lambda x, k: x[k] * 2,
        lambda x, k: te.max(x[k], 2),
        lambda x, k: x[k] % 4,
        lambda x, k: x[(k * 5) % 37],
    ],
)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_numbers_that_are_computed(find, kind):
    check_bits(scattered(program(kind=kind, find=find)))


@pytest.mark.parametrize(
    "equal",
    [
        lambda x, b: x == b * 2 + 1,
        lambda x, b: x + b == 9,
        lambda x, b: b - 2 == x,
        lambda x, b: x.astype("int8") == b.astype("int8"),
    ],
)
def test_equalities_that_are_solved(equal):
    """x == 2 * b + 1 is for b = (x - 1) // 2 where x is odd."""

    def of(x, w, k, b):
        return te.sum(te.if_then_else(equal(x[k], b), w[k], 0.0), axis=k)

    check_bits(scattered(program(kind="int64", of=of)))


def test_numbers_that_are_floats():
    """1.5 is in no bin, nor is NaN; floats hold all numbers of bins up to some."""

    def of(x, w, k, b):
        return te.sum(te.if_then_else(x[k] == b.astype("float32"), w[k], 0.0), axis=k)

    sch = scattered(program(kind="float32", of=of))
    check_bits(sch)
    x = np.array([1.0, np.nan, np.inf, -np.inf, 1.5, -0.0, 2.0], "float32").repeat(6)[:37]
    w = np.ones(37, "float32")
    same_bits(interpret(sch.definition, x, w)[0], build(sch, "c")(x, w))
    many = Schedule(program(kind="float32", of=of, bins=(1 << 24) + 2))
    refused(many.scatter, "h", match="is for one element that data tell")


REDUCTIONS = {
    "max": lambda x, w, k, b: te.max(te.if_then_else(x[k] == b, w[k], -float("inf")), axis=k),
    "min": lambda x, w, k, b: te.min(w[k], axis=k, where=x[k] == b),
    "prod": lambda x, w, k, b: te.prod(te.if_then_else(x[k] == b, w[k], 1.0), axis=k),
    "argmax": lambda x, w, k, b: te.argmax(w[k], axis=k, where=x[k] == b),
    "from": lambda x, w, k, b: te.sum(te.if_then_else(x[k] == b, w[k], 0.0), axis=k, init=3.0),
    "count": lambda x, w, k, b: te.sum((x[k] == b).astype("int64"), axis=k),
    "chosen": lambda x, w, k, b: te.sum(w[k] * 2.0, axis=k, where=te.all(x[k] == b, w[k] > 0)),
    "any": lambda x, w, k, b: te.any(te.all(x[k] == b, w[k] > 0), axis=k),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    func = program(of=REDUCTIONS[name])
    block = next(b for b in Schedule(func).get_blocks() if b.startswith("h"))
    sch = Schedule(func)
    sch.scatter(block)
    check_bits(sch)


def test_products_of_integers():
    """0 times anything is 0; of floats it may be NaN, or have another sign."""

    def of(x, w, k, b):
        return te.sum((x[k] == b).astype(w.dtype) * w[k], axis=k)

    check_bits(scattered(program(dtype="int32", of=of)))
    sch = Schedule(program(of=of))
    refused(sch.scatter, "h", match="is for one element that data tell")


def test_a_sum_that_starts_at_minus_zero():
    """0.0 added to -0.0 is 0.0: the bins without a term are told from those that have one."""

    def of(x, w, k, b):
        return te.sum(te.if_then_else(x[k] == b, w[k], 0.0), axis=k, init=-0.0)

    sch = Schedule(program(of=of))
    refused(sch.scatter, "h", match="is for one element that data tell")


def test_other_values_than_those_that_change_nothing():
    for other in (1.0, -0.5, float("nan")):
        func = program(
            of=lambda x, w, k, b, o=other: te.sum(te.if_then_else(x[k] == b, w[k], o), axis=k)
        )
        refused(Schedule(func).scatter, "h", match="is for one element that data tell")


def test_a_conversion_that_wraps():
    """uint8(b) is 1 for b = 1 and b = 257: both have the term."""

    def of(x, w, k, b):
        return te.sum(te.if_then_else(x[k] == b.astype("uint8"), w[k], 0.0), axis=k)

    check_bits(scattered(program(kind="uint8", of=of, bins=256)))
    sch = Schedule(program(kind="uint8", of=of, bins=257))
    refused(sch.scatter, "h", match="is for one element that data tell")


def test_what_is_read_under_a_condition():
    """The number of the element before, of which the first has none."""

    def of(x, w, k, b):
        inner = te.if_then_else(x[k - 1] == b, w[k], 0.0)
        return te.sum(te.if_then_else(k >= 1, inner, 0.0), axis=k)

    sch = scattered(program(of=of))
    assert "where(1 <= k and " in str(sch.func)
    check_bits(sch)
    sch.split("k", [None, 4])
    check_bits(sch)


def joint(find):
    x, y = te.placeholder((37,), "int32", name="x"), te.placeholder((37, 5), "int32", name="y")
    w, k = te.placeholder((37,), name="w"), te.reduce_axis(37, name="k")
    h = te.compute(
        (7, 5),
        lambda b, c: te.sum(te.if_then_else(find(x, y, k, b, c), w[k], 0.0), axis=k),
        name="h",
    )
    return te.create_prim_func([x, y, w, h])


@pytest.mark.parametrize(
    "find, loops",
    [
        (lambda x, y, k, b, c: te.all(x[k] == b, y[k, 0] == c), ["k"]),
        (lambda x, y, k, b, c: te.all(x[k] == b, x[k] == c), ["k"]),
        (lambda x, y, k, b, c: y[k, c] == b, ["c", "k"]),
        (lambda x, y, k, b, c: te.all(x[k] == b, y[k, b % 5] == c), ["c", "k"]),
        (lambda x, y, k, b, c: x[k].astype("int64") == b + c, ["c", "k"]),
    ],
)
def test_two_axes(find, loops):
    """Both tell, or one of them, for which the other may be asked."""
    sch = Schedule(joint(find))
    sch.scatter("h")
    assert sch.get_loops("h") == loops
    check_bits(sch)


def test_what_may_follow():
    """Rows side by side are free; what has the same bin is not."""
    sch = scattered(program(rows=6))
    sch.reorder("k", "j")
    sch.split("k", [None, 4])
    check_bits(sch)
    refused(sch.parallel, "k_0", match="is a reduction")
    refused(sch.vectorize, "k_1", match="is a reduction")
    sch.vectorize("j")
    check_bits(sch)
    sch.reorder("k_1", "k_0")
    assert sch.numerics == "reassociated"
    sch = scattered(program(rows=6))
    sch.parallel("j")
    check_bits(sch)


@pytest.mark.parametrize("factor", [2, 3, 30])
def test_sums_of_their_own_for_each_thread(factor):
    sch = Schedule(program(dtype="int32"))
    sch.split("k", [factor, None])
    part = sch.rfactor("h", "k_0", 0)
    sch.reorder("k_0", "b")
    init = sch.scatter(part)
    assert sch.get_loops(init)[0] == "k_0"
    sch.parallel("k_0")
    check_bits(sch)


def test_refusals():
    sch = Schedule(program(rows=4))
    sch.unroll("b")
    refused(sch.scatter, "h", match="is unrolled")
    sch = Schedule(program(rows=4))
    sch.split("b", [None, 2])
    refused(sch.scatter, "h", match="has no loop over all of it")
    sch = Schedule(program(rows=4))
    sch.parallel("b")
    refused(sch.scatter, "h", match="is parallel")
    sch = scattered(program(rows=4))
    refused(sch.scatter, "h", match="is no reduction with its init")
    refused(sch.scatter, "h_init", match="is no reduction with its init")


BESIDE = """
@prim_func
def beside(x: i32[9], w: f32[9], h: f32[4], v: f32[9]):
    for b, k in grid(4, 9):
        with block("v"):
            vk = spatial(9, k)
            v[vk] = w[vk]
        with block("h"):
            vb = spatial(4, b)
            vk = reduce(9, k)
            with init():
                h[vb] = 0.0
            h[vb] = h[vb] + select(i64(x[vk]) == vb, w[vk], 0.0)
"""

SKEWED = """
@prim_func
def skewed(x: i32[9], w: f32[9], h: f32[4, 7]):
    for b, r, k in grid(4, 4, 9):
        with block("h"):
            vb = spatial(4, b)
            vr = spatial(7, b + r)
            vk = reduce(9, k)
            with init():
                h[vb, vr] = 0.0
            h[vb, vr] = h[vb, vr] + select(i64(x[vk]) == vb, w[vk], 0.0)
"""

REPEATED = """
@prim_func
def repeated(x: i32[9], w: f32[9], h: f32[4]):
    for b, r, k in grid(4, 2, 9):
        with block("h"):
            vb = spatial(4, b)
            vk = reduce(9, k)
            with init():
                h[vb] = 0.0
            h[vb] = h[vb] + select(i64(x[vk]) == vb, w[vk], 0.0)
"""


@pytest.mark.parametrize(
    "text, match",
    [
        (BESIDE, "block 'v' is inside of its loops too"),
        (SKEWED, "more than one variable needs 'b'"),
        (REPEATED, "loop 'r' repeats instances"),
    ],
)
def test_other_nests(text, match):
    sch = Schedule(parse(text))
    refused(sch.scatter, "h", match=match)


def test_no_memory_may_change_under_a_place():
    """What a predicate says of memory is known of it until the block writes there."""
    text = """
@prim_func
def moved(x: i32[9], h: f32[4]):
    for k in range(9):
        with block("h"):
            vb = spatial(4, i64(x[k]))
            vk = spatial(9, k)
            where(0 <= i64(x[k]) and i64(x[k]) < 4)
            x[vk] = i32(9)
            h[vb] = 1.0
"""
    with pytest.raises(VerifyError, match="binds 'vb'"):
        verify(parse(text))


def test_a_place_is_asked_where_its_loops_are_in_range():
    """Conditions without reads come first, wherever a step has put them."""
    sch = scattered(program())
    sch.split("k", [None, 8])
    inputs = drawn(sch.definition)
    same_bits(interpret(sch.definition, *inputs)[0], interpret(sch.func, *inputs)[0])


@pytest.mark.parametrize("n", [36, 37])
@pytest.mark.parametrize("elements", [3, 5, 20])
def test_ranges_of_elements(elements, n):
    """Data tell the last digit of a place, the loop over the other one goes past terms of other
    ranges; ranges may end beyond the last element, and terms before their loops do."""
    sch = Schedule(program(n, dtype="int32"))
    part = sch.rfactor("h", sch.split("k", [4, None, 2])[0], 0)
    own = sch.rfactor(part, sch.get_loops(part)[-1])
    names = [f"v{n}" for n in range(len(sch.state.block(own).iters))]
    cut = [f"v0 // {elements}", *names[1:], f"v0 % {elements}"]
    sch.transform_block_layout(own, f"{', '.join(names)}: {', '.join(cut)}")
    dims = f"p, b, t: b // {elements}, p, b % {elements}, t"
    sch.transform_layout(own, "h_rf_rf", dims, pad_value="unset")
    ranges, *_, chosen = sch.get_loops(own)
    sch.scatter(own)
    assert ranges in sch.get_loops(own) and chosen not in sch.get_loops(own)
    check_bits(sch, n)
