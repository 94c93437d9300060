"""Products on GPUs have tiles wherever their terms lie: in axes that are not one in memory, at
constants of an axis, in any order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from autotune.rules.gpu.product import ProductPlan, contraction_of
from autotune.rules.group import find_groups
from backends import build
from benchmarks.general.form import numbers
from benchmarks.general.rewritings import forms_of
from schedule import Schedule, library
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))


def scheduled(func: PrimFunc) -> tuple[set[str], Schedule]:
    """The names of the plans of the default schedule, and that."""
    sketch = choose(func, DEVICE, None, ()).sketch
    return {plan.name for plan in sketch.plans}, sketch.build(sketch.values())


def require_right(func: PrimFunc, sch: Schedule, cache) -> None:
    """Whole numbers are the same in any order of sums."""
    arrays = numbers(func)
    found = build(sch, f"{TARGET} -check=races,uninitialised", cache=cache)(*arrays)
    np.testing.assert_array_equal(found, reference(func, *arrays)[0])


def einsum(equation: str, **sizes: int) -> PrimFunc:
    inputs = [
        te.placeholder([sizes[axis] for axis in axes], name=f"x{n}")
        for n, axes in enumerate(equation.partition("->")[0].split(","))
    ]
    return te.create_prim_func([*inputs, ops.einsum(inputs, equation)])


TERMS = [f"a{p}{q},{b}->ab" for p, q in ("cd", "dc") for b in map("".join, permutations("bcd"))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("equation", TERMS)
@pytest.mark.parametrize("terms", [{"c": 16, "d": 64}, {"c": 256, "d": 4}])
def test_terms_in_several_axes_take_about_as_long_as_in_one(equation, terms):
    """Copies ahead of parts of two axes were refused, and a warp for each result took fifty times
    as long."""
    func = einsum(equation, a=1024, b=1024, **terms)
    plans, sch = scheduled(func)
    _, one = scheduled(einsum("ac,cb->ab", a=1024, b=1024, c=1024))
    assert plans == {"product"}
    plain, found = (cycles(works_of(s.func, DEVICE), DEVICE) for s in (one, sch))
    assert found <= 1.25 * plain


@pytest.mark.sampled(2)
@pytest.mark.parametrize("equation", TERMS[::5])
@pytest.mark.parametrize("kind", ["three axes", "two axes"])
def test_terms_in_several_axes_are_summed(equation, kind, cache):
    more = "e" * (kind == "three axes")
    first, _, rest = equation.partition(",")
    func = einsum(f"{first}{more},{more}{rest}", a=33, b=70, c=5, d=19, e=3)
    plans, sch = scheduled(func)
    assert plans == {"product"}
    require_right(func, sch, cache)


def parts(shape: tuple[int, int, int], at: int) -> PrimFunc:
    """The real part of a product of complex matrices, whose parts are dimension `at`."""
    m, n, k = shape

    def with_parts(rows: int, columns: int, name: str):
        order = [rows, columns]
        order.insert(at, 2)
        x = te.placeholder(order, name=name)

        def element(part, i, j):
            places = [i, j]
            places.insert(at, part)
            return x[tuple(places)]

        return x, element

    (a, left), (b, right) = with_parts(m, k, "a"), with_parts(k, n, "b")
    r = te.reduce_axis(k, "r")
    out = te.compute(
        (m, n),
        lambda i, j: te.sum(
            left(0, i, r) * right(0, r, j) - left(1, i, r) * right(1, r, j), axis=r
        ),
    )
    return te.create_prim_func([a, b, out])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_parts_of_complex_numbers_have_tiles_wherever_they_lie(at, cache):
    """Operands that are read in several places had dimensions that their copies do not have."""
    plans, _ = scheduled(parts((1024, 1024, 1024), at))
    assert plans == {"product"}
    func = parts((33, 40, 21), at)
    plans, sch = scheduled(func)
    assert plans == {"product"}
    require_right(func, sch, cache)


def by_condition(shape: tuple[int, int, int], at: int) -> PrimFunc:
    """A product of complex matrices in one stage: dimension `at` of the result says which part."""
    m, n, k = shape
    a, b = te.placeholder((m, k, 2), name="a"), te.placeholder((k, n, 2), name="b")
    r = te.reduce_axis(k, "r")

    def element(*places):
        i, j = (place for n, place in enumerate(places) if n != at)
        real = a[i, r, 0] * b[r, j, 0] - a[i, r, 1] * b[r, j, 1]
        other = a[i, r, 0] * b[r, j, 1] + a[i, r, 1] * b[r, j, 0]
        return te.sum(te.select(places[at] < 1, real, other), axis=r)

    sizes = [m, n]
    sizes.insert(at, 2)
    return te.create_prim_func([a, b, te.compute(sizes, element, name="out")])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_thread_has_both_parts_of_complex_numbers(at, cache):
    """A condition on the part in each term kept threads from reading each element once: twenty
    times as long as a product of real numbers, whose terms are an operation each. Here they are
    six, for each part two products and a sum: with these alone multiprocessors are busy."""
    real = einsum("ac,cb->ab", a=1024, b=1024, c=1024)
    plain, found = (
        works_of(scheduled(f)[1].func, DEVICE) for f in (real, by_condition((1024,) * 3, at))
    )
    operations = sum(work.cycles_by_limit(DEVICE)["float32"] for work in plain)
    assert cycles(found, DEVICE) <= 1.1 * 6 * operations
    func = by_condition((33, 40, 21), at)
    require_right(func, scheduled(func)[1], cache)


def banded(heads: int, rows: int, width: int, terms: int, sums: str, by_rows: bool) -> PrimFunc:
    """Products of rows with the `width` rows from theirs on: `sums` over what rows have, or over
    these rows. The result of the first is the band of a matrix."""
    shape = (heads, rows + width - 1, terms)
    v = te.placeholder(shape if by_rows else (shape[0], shape[2], shape[1]), name="v")

    def element(h, row, k):
        return v[h, row, k] if by_rows else v[h, k, row]

    if sums == "of rows":
        q, r = te.placeholder((heads, rows, terms), name="q"), te.reduce_axis(terms, "r")
        out = te.compute(
            (heads, rows, width), lambda h, i, j: te.sum(q[h, i, r] * element(h, i + j, r), axis=r)
        )
        return te.create_prim_func([q, v, out])
    p, t = te.placeholder((heads, rows, width), name="p"), te.reduce_axis(width, "t")
    out = te.compute(
        (heads, rows, terms), lambda h, i, c: te.sum(p[h, i, t] * element(h, i + t, c), axis=t)
    )
    return te.create_prim_func([p, v, out])


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("sums", ["of rows", "of bands"])
def test_bands_of_matrices_share_what_neighbours_read(sums, by_rows, cache):
    """What rows and columns of a band read moves with both, so that each row was a batch."""
    func = banded(32, 4096, 65, 64, sums, by_rows)
    *_, last = works_of(scheduled(func)[1].func, DEVICE)
    assert last.sectors <= 10 * least_transactions(func, {})
    assert last.wavefronts <= 1.3 * last.free
    func = banded(2, 45, 9, 11, sums, by_rows)
    require_right(func, scheduled(func)[1], cache)


def weighted(m: int, n: int, k: int) -> PrimFunc:
    """A product of matrices with a weight for each term."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    w, r = te.placeholder((k,), name="w"), te.reduce_axis(k, "r")
    out = te.compute((m, n), lambda i, j: te.sum(a[i, r] * w[r] * b[r, j], axis=r), name="out")
    return te.create_prim_func([a, b, w, out])


def test_what_is_computed_of_operands_is_laid_out_ahead_too(cache):
    """Where terms are filled up besides, it was refused: weights of odd rows took twice as long."""
    plain, func = einsum("ac,cb->ab", a=2049, b=2047, c=2051), weighted(2049, 2047, 2051)
    times = [cycles(works_of(scheduled(f)[1].func, DEVICE), DEVICE) for f in (plain, func)]
    assert times[1] <= 1.05 * times[0]
    sch = Schedule(func := weighted(19, 37, 21))
    (group,) = find_groups(sch)
    plan = ProductPlan(group, sch.copy(), contraction_of(sch, group), DEVICE).with_values()
    c, cut = plan.contraction, library.gpu.Cut
    cuts = [cut(parts=4, lanes=4), cut(parts=2, lanes=8), cut(parts=16)]
    laid = tuple(range(len(c.operands)))
    tiles = library.gpu.TilePlan(tuple(cuts), laid, c.written, ahead=1, laid=laid)
    made = plan.base.copy()
    library.gpu.make_tiles(made, c, tiles)
    require_right(func, made, cache)


@pytest.mark.parametrize("name", ["unit first", "unit last", "fused output"])
def test_factors_are_multiplied_as_they_are_fetched_in_any_form(name):
    """Values of parts of variables, or beside ones of one value, were left in the terms, which
    took half as long again."""
    x, y = (te.placeholder((128, 256), name=name) for name in "xy")
    w = te.placeholder((128, 256, 256), name="w")
    func = te.create_prim_func([x, w, y, ops.einsum([x, w, y], "ni,oij,nj->no")])
    (form,) = (form for form in forms_of(func, ("unit", "fused")) if form.name == name)
    times = [cycles(works_of(scheduled(f)[1].func, DEVICE), DEVICE) for f in (func, form.func)]
    assert times[1] <= 1.1 * times[0]


def distances(rows: int, columns: int, given: bool) -> PrimFunc:
    """The least of x[i, k] and the square of how far k is from j, which is computed or `given`."""
    x, r = te.placeholder((rows, columns), name="x"), te.reduce_axis(columns, "r")
    far = te.placeholder((columns, columns), name="far")

    def away(j):
        return far[r, j] if given else te.cast((j - r) * (j - r), "float32")

    out = te.compute((rows, columns), lambda i, j: te.min(x[i, r] + away(j), axis=r), name="out")
    return te.create_prim_func([x, *[far] * given, out])


def test_what_is_computed_of_variables_alone_is_fetched_too(cache):
    """It was computed for each term: two and a half times as long as if memory had it."""
    plain, found = (
        cycles(works_of(scheduled(distances(1024, 1024, given))[1].func, DEVICE), DEVICE)
        for given in (True, False)
    )
    assert found <= 1.1 * plain
    (plan,) = choose(distances(1024, 1024, given=False), DEVICE, None, ()).sketch.plans
    assert plan.chosen.plan.ahead, "nobody waits for what no memory gives"
    for shape in ((33, 37), (5, 70)):
        func = distances(*shape, given=False)
        require_right(func, scheduled(func)[1], cache)


def units_swapped(order: tuple[int, ...], length: int) -> PrimFunc:
    """A vector with an axis of one value before it and one behind it, in another order."""
    x = te.placeholder((1, length, 1), name="x")
    at = [order.index(n) for n in range(3)]
    shape = [(1, length, 1)[n] for n in order]
    return te.create_prim_func(
        [x, te.compute(shape, lambda *i: te.tanh(x[tuple(i[n] for n in at)]), name="out")]
    )


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_axes_of_one_value_that_change_places_move_nothing(order):
    """Tiles of these alone had a thread at work in each block."""
    func, plain = units_swapped(order, 1 << 20), units_swapped((0, 1, 2), 1 << 20)
    found, wanted = (cycles(works_of(scheduled(f)[1].func, DEVICE), DEVICE) for f in (func, plain))
    assert found <= 1.05 * wanted
