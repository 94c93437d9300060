"""Calling kernels that take values: every type, from Python, NumPy and C, on every target."""

from __future__ import annotations

import math
import shutil
import subprocess

import numpy as np
import pytest

from backends import build
from backends.opencl.device import why_no_device
from tensorir import TensorIRError, interpret, number_of, te
from tensorir import dtype as dt
from tensorir.arrays import decode, encode

VALUES = [kind for kind in dt.SCALARS if kind != dt.INDEX]


def held_func(kinds=VALUES, name="held"):
    """C = A + 1, and one output for each value that holds the value itself."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + 1, name="C")
    values = [te.var(f"v_{kind}", kind) for kind in kinds]
    outs = [te.compute((2,), lambda i, v=v: v, name=f"o_{v.dtype}") for v in values]
    return te.create_prim_func([*values[::2], a, *values[1::2], c, *outs], name=name)


def in_order(func, a, values):
    given = {"A": a, **{f"v_{kind}": value for kind, value in values.items()}}
    return [given[each.name] for each in func.arguments if each.name in given]


ORDINARY = {"bool": True, **dict.fromkeys(dt.FLOATS, 0.1)}
EXTREME = {
    "bool": False, "float16": 65504.0, "bfloat16": -math.inf, "float32": 1e-45, "float64": 5e-324,
    **{kind: dt.int_limits(kind)[0] for kind in dt.SIGNED if kind != dt.INDEX},
    **{kind: dt.int_limits(kind)[1] for kind in dt.UNSIGNED},
}  # fmt: skip
NOTHING = dict.fromkeys(dt.FLOATS, math.nan)
A = np.arange(5, dtype="float32")
TARGETS = ["c", "cuda-emulator", "opencl"]


@pytest.fixture(scope="module")
def kernels(cache):
    return {target: build(held_func(), target, cache=cache) for target in TARGETS}


@pytest.mark.parametrize("chosen", [ORDINARY, EXTREME, NOTHING])
@pytest.mark.parametrize("target", TARGETS)
def test_values_of_every_type_arrive(kernels, target, chosen):
    if target == "opencl" and why_no_device() is not None:
        pytest.skip(why_no_device())
    values = {kind: chosen.get(kind, 3) if kind != "bool" else chosen.get(kind, True)
              for kind in VALUES}  # fmt: skip
    func = held_func()
    found = kernels[target](*in_order(func, A, values))
    np.testing.assert_array_equal(found[0], A + 1)
    for param, out in zip(func.outputs[1:], found[1:], strict=True):
        wanted = encode([number_of(values[param.dtype], param.dtype, "x")] * 2, param.dtype)
        np.testing.assert_array_equal(decode(out, param.dtype), decode(wanted, param.dtype))
    meant = interpret(func, *in_order(func, A, values))
    for out, wanted, param in zip(found, meant, func.outputs, strict=True):
        np.testing.assert_array_equal(decode(out, param.dtype), decode(wanted, param.dtype))
    named = {f"v_{kind}": value for kind, value in values.items()}
    again = kernels[target](A=A, **named)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again, strict=True))


def test_floats_are_rounded_in_c_as_in_python(cache, monkeypatch):
    """Plain floats go through the entry in C alone, NumPy's through the checks in Python."""
    kinds = list(dt.FLOATS)
    func = held_func(kinds, "rounded")
    kernel = build(func, cache=cache)
    slow = 0

    def counted(args):
        nonlocal slow
        slow += 1
        return type(kernel)._call_checked(kernel, args)

    monkeypatch.setattr(kernel, "_call_checked", counted)
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=60) * 10.0 ** rng.integers(-9, 4, 60)
    ties = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8 + 2.0**-40, 65519.9, 2.0**-25, 3 * 2.0**-26,
            1 + 2.0**-8, 2.0**-134 * 1.01, 1e-45, 1e-320, 0.0, -0.0]  # fmt: skip
    for value in [*drawn.tolist(), *ties, *(-x for x in ties), math.inf, -math.inf, math.nan]:
        values = dict.fromkeys(kinds, value)
        fast = kernel(*in_order(func, A, values))
        assert slow == 0
        for kind, out in zip(kinds, fast[1:], strict=True):
            wanted = encode([number_of(value, kind, "x")] * 2, kind)
            assert out.tobytes() == wanted.tobytes() or value != value, (kind, value)
        careful = kernel(*in_order(func, A, dict.fromkeys(kinds, np.float64(value))))
        assert slow == 1
        slow = 0
        assert all(x.tobytes() == y.tobytes() for x, y in zip(fast, careful)) or value != value


BAD = [
    ("float32", "1", "no real number; pass a float"), ("float16", 65520.0, "beyond the largest"),
    ("float32", 1e39, "beyond the largest float32"), ("float32", 10**39, "beyond the largest"),
    ("float64", 1j, "of type complex, no real number"), ("float32", None, "of type NoneType"),
    ("float32", True, "of type bool, no real number"), ("bool", 1, "pass True or False"),
    ("bool", np.zeros(3, bool), "no truth value; pass .item"), ("int8", 128, "int8 holds -128 to"),
    ("uint8", -1, "uint8 holds 0 to 255"), ("int32", 1.0, "of type float, no integer; pass an int"),
    ("uint64", 2**64, "uint64 holds 0 to"), ("int32", True, "of type bool, no integer"),
    ("float32", np.array([1.0]), "pass .item"), ("int16", np.float64(1), "no integer"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["c", "cuda-emulator"])
@pytest.mark.parametrize(("kind", "value", "words"), BAD)
def test_what_is_no_such_number_is_refused_before_anything_is_touched(
    kernels, target, kind, value, words
):
    values = {k: True if k == "bool" else 1 for k in VALUES} | {kind: value}
    func = held_func()
    given = in_order(func, A, values)
    place = [a.name for a in func.arguments].index(f"v_{kind}")
    outs = [np.full(5, 7, "float32")]
    outs += [np.full(2, 1, dt.numpy_dtype(p.dtype)) for p in func.outputs[1:]]
    who = rf"held: argument 'v_{kind}' \({place}\) "
    for outputs in ((), outs):
        with pytest.raises(TensorIRError, match=f"{who}.*{words}"):
            kernels[target](*given, *outputs)
    assert outs[0].tolist() == [7] * 5 and all(o.tolist() == [1, 1] for o in outs[1:])


def test_numbers_of_all_kinds_are_taken(kernels):
    for value in (2, 2.0, np.float32(2), np.array(2.0), np.int8(2), np.array(2, "uint64")):
        values = {k: True if k == "bool" else 2 for k in VALUES}
        values |= dict.fromkeys(dt.FLOATS, value)
        found = kernels["c"](*in_order(held_func(), A, values))
        assert {float(decode(o, k)[0]) for o, k in zip(found[1:], VALUES) if k != "bool"} == {2.0}
    flags = {k: 1 for k in VALUES} | {"bool": np.bool_(True)}
    assert kernels["c"](*in_order(held_func(), A, flags))[1].tolist() == [True, True]


def test_times_draw_what_is_not_given(kernels):
    for sizes in ({"n": 9}, {"n": 9, "v_float32": 0.5, "v_bool": False}):
        assert kernels["c"].time(repeats=1, min_ms=0.01, sizes=sizes).median > 0
    func = held_func()
    given = in_order(func, A, {k: True if k == "bool" else 1 for k in VALUES})
    assert kernels["c"].time(*given, repeats=1, min_ms=0.01).median > 0
    with pytest.raises(TensorIRError, match="'v_float32'.* is '1' of type str"):
        kernels["c"].time(sizes={"n": 9, "v_float32": "1"})
    with pytest.raises(TensorIRError, match="has no sizes v_f; it has"):
        kernels["c"].time(sizes={"n": 9, "v_f": 1.0})


def test_values_stay_in_their_places_where_constants_go(cache):
    alpha, beta = te.var("alpha", "float32"), te.var("beta", "float64")
    w, x = te.placeholder((4,), name="W"), te.placeholder((4,), name="X")
    packed = te.compute((4,), lambda i: w[i] * 2.0, name="packed")
    c = te.compute((4,), lambda i: packed[i] * alpha + x[i] * te.cast(beta, "float32"), name="C")
    func = te.create_prim_func([alpha, w, x, beta, c], name="parts")
    ones = np.ones(4, np.float32)
    for target in ("c", "cuda-emulator"):
        kernel = build(func, target, constants={"W": ones}, cache=cache)
        assert kernel(0.5, ones, 2.0).tolist() == [3] * 4
        assert kernel(X=ones, beta=1, alpha=1).tolist() == [3] * 4


def test_a_vectorized_loop_reads_a_value_in_all_lanes(cache):
    from schedule import Schedule

    func = held_func(name="lanes")
    sch = Schedule(func)
    for block in func.outputs[1:]:
        sch.vectorize(sch.get_loops(block.name)[-1])
    values = {k: ORDINARY.get(k, 3) for k in VALUES}
    found = build(sch, cache=cache)(*in_order(func, A, values))
    plain = interpret(func, *in_order(func, A, values))
    for out, wanted in zip(found, plain, strict=True):
        np.testing.assert_array_equal(out, wanted)


MAIN = """
#include <stdio.h>
#include "held.h"
int main(void) {
  float in[2] = {1, 2}, c[2], f32[2];
  double f64[2];
  uint16_t f16[2], bf16[2], u16[2];
  uint8_t flag[2], u8[2];
  int8_t i8[2];
  int16_t i16[2];
  int32_t i32[2];
  uint32_t u32[2];
  uint64_t u64[2];
  held(in, c, flag, i8, i16, i32, u8, u16, u32, u64, f16, bf16, f32, f64, 2, CALL);
  printf("%g %d %d %d %d %d %d %u %llu %d %d %g %g\\n", c[1], flag[1], i8[1], i16[1], i32[1], u8[1],
         u16[1], u32[1], (unsigned long long)u64[1], f16[1], bf16[1], f32[1], f64[1]);
  return 0;
}
"""


def test_an_exported_kernel_takes_values_of_c(kernels, tmp_path):
    source, header = kernels["c"].export(tmp_path)
    text = header.read_text()
    assert ", int64_t n, uint8_t v_bool, " in text and "float v_float32" in text
    assert "uint16_t v_bfloat16" in text and "double v_float64" in text
    assert "v_bool: bool number (0 or 1)" in text
    assert "v_float16: float16 number (its bits)" in text
    given = {"bool": 1, "float16": 0x3C00, "bfloat16": 0x3F80, "float32": 0.5, "float64": -2.5}
    order = [p.name.removeprefix("v_") for p in kernels["c"].signature.params if p.is_scalar]
    values = ", ".join(str(given.get(kind, n + 1)) for n, kind in enumerate(order))
    (tmp_path / "main.c").write_text(MAIN.replace("CALL", values))
    compiler = shutil.which("gcc") or "cc"
    files = [tmp_path / "main.c", source, "-o", tmp_path / "main", "-lm"]
    subprocess.run([compiler, "-fopenmp", "-fwrapv", *files], check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    wanted = {kind: given.get(kind, n + 1) for n, kind in enumerate(order)}
    shown = [f"{wanted[kind]:g}" for kind in VALUES]
    assert done.stdout.split() == ["3", *shown]


@pytest.mark.parametrize("target", ["c", "cuda-emulator"])
def test_products_of_values_wrap_and_are_divided_as_what_they_are(cache, target):
    """Of indices a product of two that are not negative is not, of data it may be."""
    k, a = te.var("k", "int32"), te.placeholder((4,), "int32", name="A")
    square = te.max(k, 0) * te.max(k, 0)
    c = te.compute((4,), lambda i: te.floordiv(square, 7) + te.floormod(square, 7) + a[i], name="C")
    func = te.create_prim_func([a, k, c], name="squares")
    kernel, zeros = build(func, target, cache=cache), np.zeros(4, "int32")
    for value in (3, -5, 50000, 65535, 2**31 - 1):
        np.testing.assert_array_equal(kernel(zeros, value), interpret(func, zeros, value)[0])
