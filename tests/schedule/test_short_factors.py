"""Products of small integers as those of int16: which are, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import PrimFunc, Target, interpret, te

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


def convolution(last: bool) -> PrimFunc:
    """Of 3 x 3 pixels, with channels first, or last."""
    x = te.placeholder((9, 9, 8) if last else (8, 9, 9), "int8", name="x")
    w = te.placeholder((3, 3, 8, 16), "int8", name="w")
    r, s, c = (te.reduce_axis(n, name) for n, name in ((3, "r"), (3, "s"), (8, "c")))

    def element(*i: te.Expr) -> te.Expr:
        f, p, q = (i[2], i[0], i[1]) if last else i
        read = x[p + r, q + s, c] if last else x[c, p + r, q + s]
        return te.sum(read.astype("int32") * w[r, s, c, f].astype("int32"), axis=[r, s, c])

    y = te.compute((7, 7, 16) if last else (16, 7, 7), element, "y")
    return te.create_prim_func([x, w, y], name="convolution")


FORMS = {
    "plain": product(),
    "int8": product(("int8", "int8")),
    "no negative ones": product(("uint8", "uint8")),
    "one is short": product(("int8", "int16")),
    "less a number": product(zero=128),
    "turned": product(turned=True),
    "a unit axis": product(unit=True),
    "odd": product(rows=33, columns=37, terms=51),
    "channels last": convolution(last=True),
}


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
    arrays = numbers(func)
    np.testing.assert_array_equal(interpret(sch.func, *arrays), interpret(func, *arrays))


@pytest.mark.parametrize("form", FORMS)
def test_processors_without_products_of_bytes_multiply_pairs(form: str) -> None:
    func = FORMS[form]
    sch = default_schedule(func, PAIRS, numerics="bitwise")
    text = sch.trace.as_python()
    assert "short_factors" in text and "i16i16.dot_8x2" in text
    arrays = numbers(func)
    (wanted,) = interpret(func, *arrays)
    np.testing.assert_array_equal(build(sch)(*arrays), wanted)


def test_processors_with_products_of_bytes_keep_them() -> None:
    assert "short_factors" not in default_schedule(product(), BYTES).trace.as_python()


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
    "channels first": (convolution(last=False), "no product of two matrices"),
    "channel by channel": (windows_apart(), "no product of two matrices"),
    "factors of two elements": (of_two(), "no single integer"),
}


@pytest.mark.parametrize("name", STAY)
def test_others_stay_as_they_are(name: str) -> None:
    func, why = STAY[name]
    refused(Schedule(func).use_algorithm, "y", "short_factors", match=why)
    assert "short_factors" not in default_schedule(func, PAIRS).trace.as_python()
