"""What texts have for clang in place of loops over lanes, and that it takes them."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from backends.c.emit.codegen import emit
from tensorir import (
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    For,
    Load,
    PrimFunc,
    Ramp,
    Select,
    Store,
    Target,
    Var,
    const,
    seq,
)
from tensorir import dtype as dt

COUNT = 64
FLOATS = [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), -float("inf"), 1e-40, 0.3, -88.0]
KINDS = ["float32", "float64", "int8", "uint16", "int32", "uint64"]


def choices(dtype: str, lanes: int) -> PrimFunc:
    """All that is chosen lane by lane, and operands of vectors that scalars make."""
    i = Var("i")
    at, a, b = (Ramp(i * lanes, const(1), lanes),), *(Buffer(n, (COUNT,), dtype) for n in "ab")
    x, y, two = Load(a, at), Load(b, at), Broadcast(Const(2, dtype), lanes)
    less = BinOp("<", x, y)
    values = [BinOp(op, *pair) for op in ("max", "min") for pair in ((x, y), (x, two), (two, y))]
    values += [Select(less, x, y), Select(less, two, y)]
    if dt.is_float(dtype):
        values += [Call(name, (x,), x.dtype) for name in ("erf", "exp", "tanh", "log", "fabs")]
    else:
        one, three = a[i], Const(3, dtype)
        scalars = [BinOp("&", one, three), BinOp("+", one, b[i]), Call("popcount", (one,), dtype)]
        scalars += [Select(BinOp("<", one, b[i]), one, three), Cast(dtype, BinOp("<", one, three))]
        scalars += [BinOp("max", one, BinOp("-", Const(0, dtype), one))]
        values += [BinOp("+", Broadcast(each, lanes), x) for each in scalars]
    outs = [Buffer(f"out{n}", (COUNT,), dtype) for n in range(len(values))]
    body = seq(*(Store(out, at, value) for out, value in zip(outs, values)))
    return PrimFunc("f", (a, b, *outs), (), For(i, const(COUNT // lanes), body))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bits", [128, 512])
def test_what_clang_has_for_loops_gives_the_same(run, dtype: str, bits: int) -> None:
    """gcc takes these texts too."""
    func = choices(dtype, bits // dt.bits(dtype))
    if dt.is_float(dtype):
        values = FLOATS
    else:
        low, high = dt.int_limits(dtype)
        values = [low, high, low + 1, high - 1, 0, 1, 2, 3, 100]
    given = [np.resize(np.array(values[n:] + values[:n], dtype), COUNT) for n in (0, 3)]
    results = [[np.zeros(COUNT, dtype) for _ in func.params[2:]] for _ in range(2)]
    for found, flags in zip(results, ((), ("-D__clang__", "-Wno-unknown-pragmas"))):
        run(func, *given, *found, flags=("-march=native", *flags))
    for one, other in zip(*results):
        np.testing.assert_array_equal(other.view(np.uint8), one.view(np.uint8))


@pytest.mark.parametrize("dtype", KINDS)
def test_clang_takes_them(dtype: str) -> None:
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("no clang; apt install clang")
    text = emit(choices(dtype, 512 // dt.bits(dtype)), Target(vector_bits=512))
    command = (clang, "-O1", "-std=gnu11", "-Wno-psabi", "-march=x86-64-v4", "-xc", "-c", "-")
    done = subprocess.run((*command, "-o", "/dev/null"), input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
