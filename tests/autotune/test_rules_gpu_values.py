"""What is computed of operands of products alone is computed as they are fetched: masks, factors of
terms, sums of two matrices take as many operations for a term as the product by itself."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from backends import build
from benchmarks.general.form import numbers, require_close
from tensorir import Gpu, PrimFunc, Target, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))


def product(m: int, n: int, k: int, made, kind: str = "float32", turned: bool = False) -> PrimFunc:
    """The product of what `made` gives of two matrices, another one and a vector."""
    a, c = (te.placeholder((m, k), kind, name=name) for name in "ac")
    b = te.placeholder((n, k) if turned else (k, n), kind, name="b")
    s, r = te.placeholder((k,), kind, name="s"), te.reduce_axis(k, name="r")

    def term(i, j):
        right = b[j, r] if turned else b[r, j]
        return te.sum(made(a[i, r], right, c[i, r], s[r], i, r), axis=r)

    return te.create_prim_func([a, b, c, s, te.compute((m, n), term, name="o")])


TERMS = {
    "a mask": lambda a, b, c, s, i, k: te.if_then_else(k <= i, a, te.const(0, a.dtype)) * b,
    "a factor of each term": lambda a, b, c, s, i, k: a * b * s,
    "a factor ahead": lambda a, b, c, s, i, k: s * a * b,
    "a sum of matrices": lambda a, b, c, s, i, k: (a + c) * b,
    "no negative ones": lambda a, b, c, s, i, k: b * te.clip(a, 0, 3),
    "of both": lambda a, b, c, s, i, k: (a + s) * (b - s),
}


def never(a, s, k):
    """A number, as is found when it is simplified: `a` is read where k is negative."""
    return te.if_then_else(te.all(s > te.const(0, s.dtype), k < 0), a, te.const(2, a.dtype))


NUMBERS = {
    "a number for one": lambda a, b, c, s, i, k: a * never(b, s, k),
    "a number for the other": lambda a, b, c, s, i, k: never(a, s, k) * b,
    "numbers for both": lambda a, b, c, s, i, k: never(a, s, k) * never(b, s, k),
    "numbers in part": lambda a, b, c, s, i, k: (a + s) * (never(b, s, k) + never(a, s, k)),
}
"""Operands that are fetched from nowhere."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", TERMS)
def test_terms_take_as_many_operations_as_those_of_the_product(name, turned):
    """A tenth more time, but for what is computed of both operands as they are fetched, whose steps
    wait for memory: those of the product run ahead (docs/gpu_counts.md)."""

    def time(made) -> tuple[list[str], float]:
        sketch = choose(product(512, 512, 256, made, turned=turned), DEVICE, None, ()).sketch
        works = works_of(sketch.build(sketch.values()).func, DEVICE)
        return [plan.name for plan in sketch.plans], cycles(works, DEVICE)

    plain, least = time(lambda a, b, c, s, i, k: a * b)
    plans, found = time(TERMS[name])
    assert plans == plain == ["product"]
    assert found <= (1.12 if name == "of both" else 1.1) * least


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize("numerics", ["bitwise", "reassociated"])
@pytest.mark.parametrize("name", [*TERMS, *NUMBERS])
def test_what_is_fetched_is_right(name, numerics, kind, cache):
    func = product(35, 37, 21, {**TERMS, **NUMBERS}[name], kind)
    sch = default_schedule(func, TARGET, numerics=numerics)
    given = numbers(func)
    found = build(sch, f"{TARGET} -check=races,uninitialised,bounds", cache=cache)(*given)
    require_close(func.outputs, [found], list(reference(func, *given)))


def test_bits_stay_where_they_are_asked_for():
    """Factors are not taken apart then."""
    func = product(64, 64, 64, TERMS["a factor of each term"])
    assert default_schedule(func, TARGET, numerics="bitwise").numerics == "bitwise"


def packed(rows: int, terms: int, columns: int, bits: int, scaled: bool) -> PrimFunc:
    """Rows times weights of which a byte has several, and a factor for each column."""
    each, k = 8 // bits, te.reduce_axis(terms, name="k")
    x = te.placeholder((rows, terms), name="x")
    w = te.placeholder((columns, terms // each), "uint8", name="w")
    s = te.placeholder((columns,), name="s")

    def weight(j, k):
        byte = te.cast(w[j, k // each], "int32") >> (te.cast(k % each, "int32") * bits)
        value = te.cast((byte & (2**bits - 1)) - 2 ** (bits - 1), "float32")
        return value * s[j] if scaled else value

    made = te.compute(
        (rows, columns), lambda i, j: te.sum(x[i, k] * weight(j, k), axis=k), name="made"
    )
    return te.create_prim_func([x, w, *([s] if scaled else []), made])


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("scaled", [True, False])
def test_packed_weights_take_no_longer_than_bytes(bits, scaled, cache):
    """Each byte is read once, with its neighbours: a warp read them one by one, for each part."""
    x, w = te.placeholder((1, 4096), name="x"), te.placeholder((16384, 4096), "int8", name="w")
    k = te.reduce_axis(4096, name="k")
    made = te.compute(
        (1, 16384), lambda i, j: te.sum(x[i, k] * te.cast(w[j, k], "float32"), axis=k), name="made"
    )
    plain, most = planned(te.create_prim_func([x, w, made]))
    plans, time = planned(packed(1, 4096, 16384, bits, scaled))
    assert plans == plain == ["product"]
    assert time <= most
    for rows in (1, 3):
        func = packed(rows, 2048, 24, bits, scaled)
        arrays = [*numbers(func)]
        arrays[1] = np.random.default_rng(0).integers(0, 256, arrays[1].shape).astype("uint8")
        kernel = build(default_schedule(func, TARGET), f"{TARGET} -check=races", cache=cache)
        require_close(func.outputs, [kernel(*arrays)], list(reference(func, *arrays)))


def planned(func: PrimFunc) -> tuple[list[str], float]:
    sketch = choose(func, DEVICE, None, ()).sketch
    works = works_of(sketch.build(sketch.values()).func, DEVICE)
    return [plan.name for plan in sketch.plans], cycles(works, DEVICE)


def windows(*shape: int, edge: str | None = None) -> PrimFunc:
    """Sums over windows of an image by several filters, which go on beyond its edges in some way,
    or are all within it."""
    x, f = te.placeholder(shape, name="x"), te.placeholder((16, 5, 5), name="f")
    r, s = te.reduce_axis(5, name="r"), te.reduce_axis(5, name="s")

    def made(o, i, j):
        at = (i + r, j + s) if edge is None else map(EDGES[edge], (i + r - 2, j + s - 2), shape)
        return te.sum(x[tuple(at)] * f[o, r, s], axis=[r, s])

    sizes = shape if edge else [size - 4 for size in shape]
    return te.create_prim_func([x, f, te.compute((16, *sizes), made, name="o")])


EDGES = {
    "the last element": lambda place, size: te.clip(place, 0, size - 1),
    "mirrored": lambda place, size: size - 1 - te.abs(size - 1 - te.abs(place)),
    "around": lambda place, size: (place + size) % size,
    "of twice the size": lambda place, size: (place + 2) // 2,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("edge", EDGES)
def test_windows_of_what_is_read_elsewhere_take_about_as_long(edge, cache):
    """It is fetched once with its surroundings, whatever says where it is."""
    plain, least = planned(windows(516, 516))
    plans, time = planned(windows(512, 512, edge=edge))
    assert plans == plain == ["product"]
    assert time <= 1.4 * least
    func = windows(9, 37, edge=edge)
    arrays = numbers(func)
    kernel = build(default_schedule(func, TARGET), f"{TARGET} -check=races", cache=cache)
    require_close(func.outputs, [kernel(*arrays)], list(reference(func, *arrays)))


def test_what_two_axes_of_the_result_move_together_is_read_once(cache):
    """Rows by rows at some distance from them, as in stereo matching: a thread keeps those that
    several of its results read."""

    def rows(far: bool, *shape: int) -> PrimFunc:
        h, w, c = shape
        a, k = te.placeholder(shape, name="a"), te.reduce_axis(c, name="k")
        b = te.placeholder((h, w + 32 if far else 32, c), name="b")
        made = te.compute(
            (h, w, 32), lambda i, j, d: te.sum(a[i, j, k] * b[i, j + d if far else d, k], axis=k)
        )
        return te.create_prim_func([a, b, made])

    plain, least = planned(rows(False, 64, 1024, 128))
    plans, time = planned(rows(True, 64, 1024, 128))
    assert plans == plain == ["product"]
    assert time <= 2 * least  # as there are twice as many bytes
    func = rows(True, 3, 50, 24)
    arrays = numbers(func)
    kernel = build(default_schedule(func, TARGET), f"{TARGET} -check=races", cache=cache)
    require_close(func.outputs, [kernel(*arrays)], list(reference(func, *arrays)))


def pulled(bodies: int) -> PrimFunc:
    """How all bodies pull each one: terms have, beside what they share with those of other bodies,
    where their own body is."""
    x, m = te.placeholder((bodies, 3), name="x"), te.placeholder((bodies,), name="m")
    k = te.reduce_axis(bodies, name="k")

    def term(i, c):
        apart = [x[i, n] - x[k, n] for n in range(3)]
        square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + 1.0
        return te.sum(m[k] * (x[k, c] - x[i, c]) / square, axis=k)

    return te.create_prim_func([x, m, te.compute((bodies, 3), term, name="made")])


def test_what_no_terms_move_is_no_reason_to_read_all_others_for_each_result(cache):
    func, large = pulled(37), pulled(4096)
    given = numbers(func)
    sch = default_schedule(func, TARGET)
    found = build(sch, f"{TARGET} -check=races,uninitialised,bounds", cache=cache)(*given)
    require_close(func.outputs, [found], list(reference(func, *given)))
    sectors = sum(w.sectors for w in works_of(default_schedule(large, TARGET).func, DEVICE))
    assert sectors <= 4096 * 3 * 4096 * 16 / DEVICE.sector_bytes
