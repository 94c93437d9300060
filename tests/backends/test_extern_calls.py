"""Extern functions in C: the built-in ones, those that lie, dtypes, and stand-alone kernels."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from backends import BuildError, build, extern_runner, register_extern
from tensorir import (
    BUILT_IN_EXTERNS,
    EXTERNS,
    ExternFunc,
    TensorIRError,
    check_extern,
    interpret,
    te,
)
from tensorir.arrays import encode

FLIP = "static void $NAME(const $T0 *x, $T1 *y, i64 n) { for (i64 i = 0; i < n; i++) BODY }"


def flip(body="y[i] = x[n - 1 - i];", **changes):
    given = {
        "name": "test.flip",
        "signature": "(n)->(n)",
        "dtypes": [("float32", "float32")],
        "c": FLIP.replace("BODY", body),
        "numpy": lambda x: x[::-1],
    }
    return ExternFunc(**{**given, **changes})


@pytest.mark.parametrize("func", BUILT_IN_EXTERNS, ids=lambda f: f.name)
def test_built_in_functions_do_what_they_say(func):
    check_extern(func, extern_runner())


def sort_values(values, func="sort"):
    a = te.placeholder(values.shape, str(values.dtype), name="A")
    kernel = build(te.create_prim_func([a, te.extern(values.shape, a, func)], name="f"))
    return kernel(values)


@pytest.mark.parametrize("order", ["random", "sorted", "reversed", "organ", "equal", "killer"])
def test_large_rows_of_many_orders(order):
    n, rng = 5000, np.random.default_rng(0)
    values = {
        "random": rng.standard_normal(n),
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "organ": np.minimum(np.arange(n), np.arange(n)[::-1]),
        "equal": np.ones(n),
        "killer": np.concatenate([np.arange(n // 2) * 2, np.arange(n // 2) * 2 + 1]) % 97,
    }[order].astype("float32")
    np.testing.assert_array_equal(sort_values(values), np.sort(values))
    places = sort_values(values, "argsort")
    np.testing.assert_array_equal(places, np.argsort(values, kind="stable"))


def test_bits_of_nan_and_of_half_precision():
    x = np.array([3.5, np.nan, -1.0, np.inf, -0.0], "float16")
    np.testing.assert_array_equal(sort_values(x), np.sort(x))
    bits = encode([3.5, np.nan, -1.0, np.inf, 0.0], "bfloat16")
    a = te.placeholder((5,), "bfloat16", name="A")
    func = te.create_prim_func([a, te.extern((5,), a, "sort", name="S")], name="f")
    wanted = encode([-1.0, 0.0, 3.5, np.inf, np.nan], "bfloat16")
    np.testing.assert_array_equal(build(func)(bits), wanted)
    np.testing.assert_array_equal(interpret(func, bits)[0], wanted)


def test_golden(golden):
    a = te.placeholder((6, 8), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")
    s = te.extern(a.shape, b, "test.flip", name="S")
    t = te.extern(a.shape, s, "test.flip", name="T")
    golden(build(te.create_prim_func([a, t], name="twice"), "c -vector_bits=512").source, "twice.c")


@pytest.fixture(autouse=True)
def known(extern_cleanup, request):
    """test.flip, for the tests that use it by name."""
    extern_cleanup(flip() if request.node.name in USERS else None)


USERS = ("test_golden", "test_export", "test_sizes_of_zero", "test_outputs_that_nobody_reads")


def test_export(tmp_path):
    a = te.placeholder((3, 4), name="A")
    func = te.create_prim_func([a, te.extern((3, 4), a, "test.flip", name="S")], name="flip")
    build(func).export(tmp_path)
    (tmp_path / "main.c").write_text(
        '#include "flip.h"\n#include <stdio.h>\n'
        "int main(void) { float a[12], s[12];\n"
        "for (int i = 0; i < 12; i++) a[i] = i;\n"
        'flip(a, s); for (int i = 0; i < 12; i++) printf("%g ", s[i]); return 0; }\n'
    )
    command = ["gcc", "-O1", "-fopenmp", "-fwrapv", "main.c", "flip.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    assert found.stdout == "3 2 1 0 7 6 5 4 11 10 9 8 "


def test_sizes_of_zero():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    kernel = build(te.create_prim_func([a, te.extern((n, m), a, "test.flip")], name="f"))
    for shape in ((0, 3), (3, 0), (1, 1), (2, 7)):
        x = np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
        np.testing.assert_array_equal(kernel(x), x[:, ::-1])


def test_outputs_that_nobody_reads():
    a = te.placeholder((3, 7), name="A")
    values, places = te.extern([(3, 2), (3, 2)], a, "topk", name="top")
    func = te.create_prim_func([a, places], name="f")
    x = np.random.default_rng(0).standard_normal((3, 7)).astype("float32")
    np.testing.assert_array_equal(build(func)(x), np.argsort(-x, axis=1)[:, :2])
    assert values.name == "top_0"


class TestRegister:
    def test_then_it_is_known(self):
        func = flip()
        register_extern(func)
        x = np.arange(6, dtype="float32").reshape(2, 3)
        np.testing.assert_array_equal(sort_values(x, func), x[:, ::-1])
        with pytest.raises(TensorIRError, match="there is an extern function 'test.flip' already"):
            register_extern(flip())

    @pytest.mark.parametrize(
        ("func", "message"),
        [
            (flip("y[i] = x[i];"), r"element \[\d\] of output 0"),
            (flip("if (i != 5) y[i] = x[n - 1 - i];"), r"element \[5\] of output 0"),
            (flip("y[i] = x[n - 1 - i], y[n] = 0;"), "outside of an output"),
            (flip("y[i] = x[n - 1 - i], ((float *)x)[i] = 1;"), "writes into an input"),
            (flip("y[i] = x[n - 1 - i] * 1.001f;"), "does not do what it says"),
            (flip(where="n < 0"), "no sizes that were tried"),
            (flip(numpy=lambda x: x[:1]), "returns shapes"),
            (flip(sample=lambda rng, sizes: [np.ones(1)]), "its sample has"),
        ],
    )
    def test_what_lies_is_refused(self, func, message):
        before = dict(EXTERNS)
        with pytest.raises(TensorIRError, match=message):
            register_extern(func)
        assert before == EXTERNS

    def test_what_does_not_compile(self):
        with pytest.raises(BuildError, match="undeclared"):
            register_extern(flip("y[i] = z[i];"))
        with pytest.raises(BuildError, match="unknown word"):
            register_extern(flip("y[i] = $ADD(x[i]);"))

    def test_rounding_within_rtol(self):
        register_extern(flip("y[i] = x[n - 1 - i] * 1.001f;", rtol=0.01))

    def test_indices_in_range(self):
        """A scatter, whose indices come from a sample; two inputs and 16-bit floats."""
        text = """
static void $NAME(const $T0 *x, const i64 *at, $T2 *y, i64 n, i64 m) {
    for (i64 i = 0; i < m; i++) y[i] = $PUT2(0);
    for (i64 i = 0; i < n; i++) y[at[i]] = $PUT2($GET2(y[at[i]]) + $GET0(x[i]));
}"""

        def meaning(x, at, m):
            y = np.zeros(m, x.dtype)
            for value, place in zip(x, at):
                y[place] += value
            return y

        def sample(rng, sizes):
            places = rng.integers(0, max(sizes["m"], 1), sizes["n"])
            return rng.integers(-4, 5, sizes["n"]).astype("float16"), places

        func = ExternFunc(
            "test.scatter",
            "(n),(n)->(m)",
            [("float16", "int64", "float16")],
            text,
            meaning,
            where="1 <= m",
            sample=sample,
        )
        register_extern(func)
        x = te.placeholder((4, 3), "float16", name="X")
        at = te.placeholder((4, 3), "int64", name="at")
        y = te.extern((4, 2), [x, at], func, name="Y")
        kernel = build(te.create_prim_func([x, at, y], name="f"))
        found = kernel(np.ones((4, 3), "float16"), np.array([[0, 1, 1]] * 4))
        np.testing.assert_array_equal(found, np.array([[1, 2]] * 4, "float16"))
