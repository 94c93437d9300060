"""Calling kernels that take numbers: by place and by name, from Python, NumPy and C."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from backends import build
from tensorir import TensorIRError, specialize, te


def parts_func(order="A factor C"):
    """Sums of `factor` neighbours."""
    n, factor = te.var("n"), te.var("factor")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    c = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="C")
    table = {"A": a, "factor": factor, "C": c}
    return te.create_prim_func([table[name] for name in order.split()], name="parts")


@pytest.fixture(scope="module")
def parts(cache):
    return build(parts_func(), cache=cache)


@pytest.fixture(scope="module")
def window(cache):
    """C[n] = A moved by `shift`, times `scale`: plain dimensions, so calls go through C alone."""
    n, shift, scale = te.var("n"), te.var("shift"), te.var("scale")
    a = te.placeholder((n,), name="A")

    def moved(i):
        here = te.all(i + shift >= 0, i + shift < n)
        return te.if_then_else(here, a[i + shift], 0.0) * scale

    c = te.compute((n,), moved, name="C")
    return build(te.create_prim_func([shift, n, a, scale, c], name="window"), cache=cache)


def expected(a, shift, scale):
    there = [a[i + shift] if 0 <= i + shift < len(a) else 0 for i in range(len(a))]
    return [float(np.float32(x) * np.float32(scale)) for x in there]


A = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize("shift", [0, 2, -2, 6, -6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("scale", [1, -3, 0])
def test_numbers_of_either_sign_reach_the_kernel(window, shift, scale):
    wanted = expected(A, shift, scale)
    assert window(shift, 6, A, scale).tolist() == wanted
    assert window(np.int32(shift), np.uint8(6), A, np.int64(scale)).tolist() == wanted
    out = np.full(6, np.nan, np.float32)
    assert window(shift, 6, A, scale, out) is out
    assert out.tolist() == wanted
    named = window(scale=scale, A=A, n=6, shift=shift)
    assert named.tolist() == wanted
    assert window(shift, 6, A, C=out, scale=scale) is out
    assert window(6, A, scale, shift=shift).tolist() == wanted


def test_outputs_of_a_size_that_only_a_number_tells(cache):
    m = te.var("m")
    c = te.compute((m,), lambda i: i * i, name="C")
    squares = build(te.create_prim_func([m, c], name="squares"), cache=cache)
    assert squares(5).tolist() == [0, 1, 4, 9, 16]
    assert squares(0).tolist() == []
    assert squares(2, np.empty(2, np.int64)).tolist() == [0, 1]
    with pytest.raises(TensorIRError, match=r"'m' \(0\) is -1, and has to be 0 or more"):
        squares(-1)
    with pytest.raises(TensorIRError, match=r"shape \[3\], expected \[m\]: m is 2 from 'm'"):
        squares(2, np.empty(3, np.int64))


@pytest.mark.parametrize("order", ["A factor C", "factor A C", "A C factor"])
def test_shapes_that_divide_by_a_number(cache, order):
    kernel = build(parts_func(order), cache=cache)
    a = np.arange(13, dtype=np.float32)
    for factor in (1, 3, 4, 13, 14, 2**31 - 1):
        count = 13 // factor
        wanted = a[: count * factor].reshape(count, factor if count else 0).sum(axis=1)
        given = {"A": a, "factor": factor, "C": np.empty(count, np.float32)}
        inputs = [given[name] for name in order.split() if name != "C"]
        assert kernel(*inputs).tolist() == wanted.tolist()
        assert kernel(*(given[name] for name in order.split())).tolist() == wanted.tolist()
    wrong = {"A": a, "factor": 3, "C": np.empty(3, np.float32)}
    with pytest.raises(TensorIRError, match=r"dimension 0 is 3, and n // factor is 4"):
        kernel(*(wrong[name] for name in order.split()))


BAD = [
    (0, "is 0, and has to be 1 or more"),
    (-4, "is -4, and has to be 1 or more"),
    (2**31, "from -2147483648 to 2147483647"),
    (-(2**31) - 1, "has to be 1 or more"),
    (10**30, "from -2147483648 to 2147483647"),
    (2.0, "is 2.0 of type float, no integer; pass an int"),
    (np.float32(2), "no integer; pass an int"),
    (True, "is True of type bool, no integer"),
    (np.bool_(True), "of type bool"),
    (np.array([2]), "no integer; pass .item"),
    ("2", "is '2' of type str, no integer"),
    (None, "is None of type NoneType, no integer"),
]


@pytest.mark.parametrize(("value", "words"), BAD)
def test_what_is_no_such_number_is_refused_before_anything_is_touched(parts, value, words):
    out = np.full(3, 7, np.float32)
    for outputs in ((), (out,)):
        with pytest.raises(TensorIRError, match=r"parts: argument 'factor' \(1\) .*" + words):
            parts(A, value, *outputs)
    assert out.tolist() == [7, 7, 7]


@pytest.mark.parametrize(("value", "words"), BAD[2:])
def test_the_entry_in_c_refuses_the_same(window, value, words):
    wanted = words if "1 or more" not in words else "from -2147483648 to 2147483647"
    with pytest.raises(TensorIRError, match=r"argument 'scale' \(3\) .*" + wanted):
        window(0, 6, A, value, np.empty(6, np.float32))


def test_a_number_and_an_array_that_disagree_are_refused(window):
    for size in (5, 7, 0):
        with pytest.raises(TensorIRError, match=f"n is {size} from 'n' but 6 here"):
            window(0, size, A, 1, np.empty(6, np.float32))
    with pytest.raises(TensorIRError, match=r"'n' \(1\) is -1, and has to be 0 or more"):
        window(0, -1, A, 1, np.empty(6, np.float32))


def test_arguments_that_are_missing_or_too_many_are_named(parts):
    with pytest.raises(TensorIRError, match=r"1 arguments given; expected 2 \(A, factor\)"):
        parts(A)
    with pytest.raises(TensorIRError, match=r"has no argument 'fac'; it has A, factor, C"):
        parts(A, fac=2)
    with pytest.raises(TensorIRError, match=r"0 arguments given beside factor; expected 1 \(A\)"):
        parts(factor=2)
    with pytest.raises(TensorIRError, match=r"3 arguments given beside factor"):
        parts(A, 2, np.empty(3, np.float32), factor=2)
    with pytest.raises(TensorIRError, match=r"'A' \(0\) is a int, not an array"):
        parts(2, A)


def test_an_output_of_a_negative_size_is_refused(cache):
    n, gone = te.var("n"), te.var("gone")
    a = te.placeholder((n,), name="A")
    c = te.compute((n - gone,), lambda i: a[i + gone], name="C")
    kernel = build(te.create_prim_func([a, gone, c], name="tail"), cache=cache)
    assert kernel(A, 4).tolist() == [4, 5]
    assert kernel(A, 6).tolist() == []
    with pytest.raises(TensorIRError, match="'C' has the dimension n - gone, which is -1 for gone"):
        kernel(A, 7)


def test_a_size_that_divides_may_not_be_zero_whoever_tells_it(cache):
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((m,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((m // n,), lambda i: a[i * n] + 1, name="C")
    kernel = build(te.create_prim_func([a, b, c], name="every"), cache=cache)
    assert kernel(A, A[:2]).tolist() == [1, 3, 5]
    with pytest.raises(TensorIRError, match="size 'n' is 0, and has to be 1 or more"):
        kernel(A, A[:0])
    with pytest.raises(TensorIRError, match="size 'n' is 0, and has to be 1 or more"):
        kernel(A, A[:0], np.empty(0, np.float32))


def test_numbers_and_constants(cache):
    n, m = te.var("n"), te.var("m")
    w = te.placeholder((4,), name="W")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(4, name="k")
    s = te.compute((4,), lambda i: w[i] * 2.0, name="S")
    c = te.compute((n, m), lambda i, j: te.sum(a[i] * s[k] + m, axis=k), name="C")
    func = te.create_prim_func([w, m, a, c], name="scaled")
    weights = np.ones(4, np.float32)
    kernel = build(func, constants={"W": weights}, cache=cache)
    assert kernel(2, A[:2]).tolist() == [[8, 8], [16, 16]]
    assert kernel(A[:2], m=1).tolist() == [[4], [12]]
    assert build(func, cache=cache)(weights, 2, A[:2]).tolist() == [[8, 8], [16, 16]]


def test_times_take_numbers_with_the_arrays_or_in_sizes(parts):
    for timing in (
        parts.time(A, 2, repeats=1, min_ms=0.01),
        parts.time(A, repeats=1, min_ms=0.01, sizes={"factor": 2}),
        parts.time(repeats=1, min_ms=0.01, sizes={"n": 64, "factor": 2}),
    ):
        assert timing.median > 0
    with pytest.raises(TensorIRError, match="the sizes factor are not known"):
        parts.time(sizes={"n": 64})
    with pytest.raises(TensorIRError, match="size 'factor' is 0, and has to be 1 or more"):
        parts.time(sizes={"n": 64, "factor": 0})


def test_only_kernels_that_take_numbers_take_names(cache):
    fixed = build(specialize(parts_func(), {"factor": 2}), cache=cache)
    with pytest.raises(TypeError, match="unexpected keyword argument 'A'"):
        fixed(A=A)


MAIN = """
#include <stdio.h>
#include "parts.h"
int main(void) {
  float in[7] = {1, 2, 3, 4, 5, 6, 7}, out[3];
  parts(in, out, 7, 2);
  printf("%g %g %g\\n", out[0], out[1], out[2]);
  return 0;
}
"""


def test_an_exported_kernel_takes_plain_numbers(parts, tmp_path):
    source, header = parts.export(tmp_path)
    text = header.read_text()
    assert "(const float *A, float *C, int64_t n, int64_t factor);" in text
    assert "factor: int64 number, 1 or more" in text
    (tmp_path / "main.c").write_text(MAIN)
    compiler = shutil.which("gcc") or "cc"
    files = [tmp_path / "main.c", source, "-o", tmp_path / "main", "-lm"]
    subprocess.run([compiler, "-fopenmp", "-fwrapv", *files], check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["3", "7", "11"]


def test_a_number_that_is_put_in_its_place_is_no_argument(cache):
    fixed = build(specialize(parts_func(), {"factor": 2}), cache=cache)
    assert "factor" not in fixed.source
    assert fixed(A).tolist() == [1, 5, 9]
