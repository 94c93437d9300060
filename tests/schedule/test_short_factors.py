"""Products of small integers as those of int16: which are, with the same numbers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import PrimFunc, Target, interpret, ops, te

PAIRS = Target("c", vector_bits=256, threads=1, features=("avx2", "fma"))
"""Has products of pairs of int16, and none of bytes."""
BYTES = Target(
    "c", vector_bits=512, threads=1,
    features=("avx2", "avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma"),
)  # fmt: skip


def product(
    kinds: tuple[str, str] = ("uint8", "int8"), rows: int = 24, columns: int = 40, terms: int = 70,
    zero: int = 0, sums: str = "int32", turned: bool = False, unit: bool = False,
) -> PrimFunc:  # fmt: skip
    """Sums of (a - zero) * b; b may be `turned`, and a have a dimension of one element more."""
    a = te.placeholder((rows, 1, terms) if unit else (rows, terms), kinds[0], name="a")
    b = te.placeholder((columns, terms) if turned else (terms, columns), kinds[1], name="b")
    k, u = te.reduce_axis(terms, "k"), te.reduce_axis(1, "u")

    def term(i: te.Expr, j: te.Expr) -> te.Expr:
        x = a[i, u, k] if unit else a[i, k]
        y = b[j, k] if turned else b[k, j]
        return (x.astype(sums) - zero) * y.astype(sums)

    axes = [k, u] if unit else [k]
    y = te.compute((rows, columns), lambda i, j: te.sum(term(i, j), axis=axes), "y")
    return te.create_prim_func([a, b, y], name="product")


def convolution(
    source: str = "ncyx", kernel: str = "fcrs", result: str = "nfyx",
    kinds: tuple[str, str] = ("uint8", "int8"),
    stride: int = 1, dilation: int = 1, groups: int = 1, zero: int = 0, turned: bool = False,
    within: bool = False, **sizes: int,
) -> PrimFunc:  # fmt: skip
    """Windows of r by s pixels, with dimensions in the order of these letters; the kernel may be
    `turned` round. It may stand `within` a program: behind padding, and ahead of bytes."""
    n = {"n": 2, "c": 8, "f": 16, "r": 3, "s": 2, "y": 3, "x": 4} | sizes
    reach = {"y": dilation * (n["r"] - 1) + 1, "x": dilation * (n["s"] - 1) + 1}
    whole = n | {v: stride * (n[v] - 1) + size for v, size in reach.items()}
    whole |= {"c": groups * n["c"]}
    less = 2 if within else 0
    taken = [whole[v] - (less if v in reach else 0) for v in source]
    image = te.placeholder(taken, kinds[0], name="image")
    weight = te.placeholder([n[v] for v in kernel], kinds[1], name="weight")

    def padded(*i: te.Expr) -> te.Expr:
        at = [(e - 1 if v in reach else e) for v, e in zip(source, i)]
        inside = [te.all(0 <= e, e < n) for e, v, n in zip(at, source, taken) if v in reach]
        return te.if_then_else(te.all(*inside), image[tuple(at)], te.const(0, kinds[0]))

    read = te.compute([whole[v] for v in source], padded, "padded") if within else image
    taps = {v: te.reduce_axis(n[v], v) for v in "crs" if v in kernel}

    def element(*i: te.Expr) -> te.Expr:
        at = {**dict(zip(result, i)), **taps}
        group = at["f"] // (n["f"] // groups) * n["c"] if groups > 1 else 0
        window = {"y": ("y", "r"), "x": ("x", "s")}
        places = {v: at[b] * stride + at[t] * dilation for v, (b, t) in window.items() if b in at}
        places = {**at, **places, "c": at["c"] + group}
        if turned:
            at |= {v: n[v] - 1 - at[v] for v in "rs"}
        one = read[tuple(places[v] for v in source)].astype("int32") - zero
        other = weight[tuple(at[v] for v in kernel)].astype("int32")
        return te.sum(one * other, axis=[*taps.values()])

    sums = out = te.compute([n[v] for v in result], element, "y")
    if within:
        out = ops.requantize(sums, 2.0**-7, name="bytes")
    return te.create_prim_func([image, weight, out], name="convolution")


FORMS = {
    "plain": product(),
    "int8": product(("int8", "int8")),
    "no negative ones": product(("uint8", "uint8")),
    "one is short": product(("int8", "int16")),
    "less a number": product(zero=128),
    "turned": product(turned=True),
    "a unit axis": product(unit=True),
    "odd": product(rows=33, columns=37, terms=51),
    "channels last": convolution("yxc", "rscf", "yxf"),
    "channels first": convolution(),
    "int16": convolution(kinds=("int16", "int16")),
    "as they came": convolution("xcyn", "sfrc", "ynfx"),
    "columns in the middle": convolution("cnxy", "crfs", "yfnx"),
    "strided": convolution(stride=2),
    "dilated": convolution(dilation=2),
    "in groups": convolution(groups=2, f=32),
    "in groups, channels last": convolution("nyxc", "rscf", "nyxf", groups=2, f=32),
    "odd channels": convolution(c=7, f=30, y=12),
    "few channels last": convolution("nyxc", "rscf", "nyxf", c=3, y=12),
    "one tap": convolution(r=1, s=1, n=1),
    "a row of taps": convolution(r=1, s=5),
    "strided taps": convolution(r=1, s=1, stride=2),
    "patches": convolution(stride=4, r=4, s=4, y=4, x=4),
    "along one dimension": convolution("ncx", "fcs", "nfx", x=40),
    "turned round": convolution(turned=True),
    "less a number, in windows": convolution(zero=7),
    "in a program": convolution(within=True, c=6),
}
"""Products, and convolutions whatever the order of dimensions."""
LONGER = {"no negative ones", "one is short", "less a number", "less a number, in windows", "int16"}
"""Those that need more than the bits of bytes."""


@cache
def wanted(form: str) -> np.ndarray:
    func = FORMS[form]
    return interpret(func, *numbers(func))[0]


def numbers(func: PrimFunc) -> list[np.ndarray]:
    """Any numbers of the types, the largest and the smallest ones first."""
    rng, made = np.random.default_rng(0), []
    for param in func.inputs:
        ends = np.iinfo(param.dtype)
        array = rng.integers(ends.min, ends.max + 1, param.const_shape).astype(param.dtype)
        array.flat[:2] = ends.min, ends.max
        made.append(array)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_products_of_pairs_have_the_same_numbers(form: str) -> None:
    func = FORMS[form]
    sch = Schedule(func)
    sch.use_algorithm("y", "short_factors")
    np.testing.assert_array_equal(interpret(sch.func, *numbers(func))[0], wanted(form))


@pytest.mark.parametrize("form", FORMS)
def test_processors_without_products_of_bytes_multiply_pairs(form: str) -> None:
    func = FORMS[form]
    sch = default_schedule(func, PAIRS, numerics="bitwise")
    text = sch.trace.as_python()
    assert "short_factors" in text and "i16i16.dot_8x2" in text
    np.testing.assert_array_equal(build(sch)(*numbers(func)), wanted(form))


def test_processors_with_products_of_bytes_keep_them() -> None:
    assert "short_factors" not in default_schedule(product(), BYTES).trace.as_python()


@pytest.mark.parametrize("form", [form for form in FORMS if form not in LONGER])
def test_processors_with_products_of_bytes_use_them_in_any_order(form: str) -> None:
    func = FORMS[form]
    sch = default_schedule(func, BYTES, numerics="bitwise")
    assert "i8.dot_16x4" in sch.trace.as_python()
    np.testing.assert_array_equal(build(sch, PAIRS)(*numbers(func)), wanted(form))


def windows_apart() -> PrimFunc:
    """A depthwise convolution, whose terms are in windows alone."""
    x, w = (te.placeholder(s, "int8", name=n) for s, n in (((9, 9, 16), "x"), ((3, 3, 16), "w")))
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")
    y = te.compute(
        (7, 7, 16),
        lambda i, j, c: te.sum(
            x[i + r, j + s, c].astype("int32") * w[r, s, c].astype("int32"), axis=[r, s]
        ),
        "y",
    )
    return te.create_prim_func([x, w, y])


def windows_in_both() -> PrimFunc:
    a, b = (te.placeholder((24, 8), "int8", name=n) for n in "ab")
    k, r = te.reduce_axis(8, "k"), te.reduce_axis(3, "r")

    def element(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum(a[i + r, k].astype("int32") * b[j + r, k].astype("int32"), axis=[k, r])

    return te.create_prim_func([a, b, te.compute((16, 16), element, "y")])


def of_two() -> PrimFunc:
    a, b = (te.placeholder((16, 16), "int8", name=n) for n in "ab")
    k = te.reduce_axis(16, "k")

    def element(i: te.Expr, j: te.Expr) -> te.Expr:
        both = a[i, k].astype("int32") + a[k, i].astype("int32")
        return te.sum(both * b[k, j].astype("int32"), axis=k)

    return te.create_prim_func([a, b, te.compute((16, 16), element, "y")])


STAY = {
    "short as they are": (product(("int16", "int16")), "are int16"),
    "long": (product(("int8", "uint16")), "more than 16 bits"),
    "too much taken off": (product(zero=40_000), "more than 16 bits"),
    "sums of 64 bits": (product(sums="int64"), "no products of int32"),
    "few rows": (product(rows=4), "no product of two matrices"),
    "a single column": (product(columns=1), "no product of two matrices"),
    "in order": (convolution("nyxc", "rscf", "nyxf", ("int16", "int16")), "are int16 in order"),
    "windows in both": (windows_in_both(), "read in windows"),
    "channel by channel": (windows_apart(), "no product of two matrices"),
    "factors of two elements": (of_two(), "no single integer"),
}


@pytest.mark.parametrize("name", STAY)
def test_others_stay_as_they_are(name: str) -> None:
    func, why = STAY[name]
    refused(Schedule(func).use_algorithm, "y", "short_factors", match=why)
    assert "short_factors" not in default_schedule(func, PAIRS).trace.as_python()
