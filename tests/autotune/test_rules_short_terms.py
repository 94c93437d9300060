"""Sums over a short axis beside others, whose terms follow those of the next result in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autotune.rules import default_candidate, make_space
from backends import ObjectCache, build
from tensorir import Cpu, PrimFunc, Target, reference, te

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)


def groups(
    rows: Sequence[int], terms: Sequence[int], count: int, each: int, dtype: str, form: str
) -> PrimFunc:
    """Sums over `terms` and over each of so many groups of channels."""
    split = (count, each) if form == "two axes" else (count * each,)
    x = te.placeholder((*rows, *terms, *split), dtype, name="x")
    far = [te.reduce_axis(n, name=f"t{at}") for at, n in enumerate(terms)]
    near = te.reduce_axis(each, name="near")

    def total(*at):
        *row, group = at[::-1] if form == "group first" else at
        row = row[::-1] if form == "group first" else row
        place = (group, near) if form == "two axes" else (group * each + near,)
        read = x[(*row, *far, *place)]
        return te.sum(read * read if form == "squares" else read, axis=[*far, near])

    shape = (*rows, count)
    return te.create_prim_func(
        [x, te.compute(shape[::-1] if form == "group first" else shape, total, name="out")]
    )


FORMS = ("plain", "squares", "two axes", "group first")
SIZES = {
    "channels": ((3,), (157,), 24, 8),
    "few groups": ((5,), (97,), 3, 8),
    "image": ((2,), (13, 29), 16, 12),
    "no rows": ((), (1003,), 8, 8),
}


@pytest.mark.parametrize(
    ("size", "form", "dtype"),
    [("channels", form, "float32") for form in FORMS]
    + [(size, "plain", "int32") for size in SIZES],
)
def test_the_terms_are_lanes(size: str, form: str, dtype: str, cache: ObjectCache) -> None:
    func = groups(*SIZES[size], dtype, form)
    space = make_space(func, CPU, "mixed")
    made = space.build(default_candidate(space))
    assert default_candidate(space).sketch == "out:lanes"
    x = np.random.default_rng(0).integers(-3, 4, func.inputs[0].const_shape).astype(dtype)
    np.testing.assert_array_equal(build(made, cache=cache)(x), reference(func, x)[0])


@pytest.mark.parametrize("each", [3, 4, 12, 16])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_whatever_terms_there_are(each: int, dtype: str, cache: ObjectCache) -> None:
    func = groups((3,), (67,), 9, each, dtype, "plain")
    space = make_space(func, CPU, "mixed")
    x = np.random.default_rng(0).integers(-3, 4, func.inputs[0].const_shape).astype(dtype)
    made = space.build(default_candidate(space))
    np.testing.assert_array_equal(build(made, cache=cache)(x), reference(func, x)[0])


def test_in_the_order_of_the_text_they_are_not() -> None:
    func = groups(*SIZES["channels"], "float32", "plain")
    assert default_candidate(make_space(func, CPU, "bitwise")).sketch != "out:lanes"
