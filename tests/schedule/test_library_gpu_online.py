"""Sums weighted by a softmax in one kernel: the values of the definition, no scores in memory."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.rules import make_space
from backends import build
from schedule import Schedule, ScheduleError, library
from tensorir import device_of, ops, reference, te
from tensorir.targets.target import Target

CHECKED = "cuda-emulator -arch=sm_90a -check=alignment,bounds,counts,divergence,races"
SMALL = {"rows": 2, "threads": (4, 8)}


def attention(shape, keys, features=None, heads=None, dtype="float32", mask=None, **options):
    b, h, _, d = shape
    q = te.placeholder(shape, dtype, name="q")
    k = te.placeholder((b, heads or h, keys, d), dtype, name="k")
    v = te.placeholder((b, heads or h, keys, features or d), dtype, name="v")
    given = [] if mask is None else [te.placeholder(mask, "bool", name="mask")]
    options |= {"mask": given[0]} if given else {}
    return te.create_prim_func([q, k, v, *given, ops.attention(q, k, v, **options)])


def one_kernel(func, block="mixed", **options):
    sch = Schedule(func)
    library.gpu.online(sch, sch.use_algorithm(block, "online_32"), **(options or SMALL))
    return sch


def same(func, *inputs, block="mixed", close=1e-5):
    found = build(one_kernel(func, block).func, CHECKED)(*inputs)
    with np.errstate(all="ignore"):
        wanted = reference(func, *inputs)
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)


def arrays(func, seed=0):
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal(p.const_shape) for p in func.inputs]
    return [x > 0 if p.dtype == "bool" else x.astype(p.dtype) for p, x in zip(func.inputs, found)]


def test_grouped_heads_of_float16():
    func = attention((1, 2, 8, 40), 64, heads=1, dtype="float16")
    same(func, *arrays(func), close=2e-3)


def test_masked_rows_and_blocks():
    func = attention((1, 2, 9, 7), 45, features=5, mask=(9, 45), causal=True)
    inputs = arrays(func)
    inputs[3][3], inputs[3][8, :40] = False, False
    same(func, *inputs)


def test_another_sum_weighted_by_a_softmax():
    """Columns before rows, in the definition and in memory."""
    x, v = te.placeholder((12, 40), name="x"), te.placeholder((9, 40), name="v")
    soft, r = ops.softmax(x), te.reduce_axis(40, name="r")
    out = te.compute((9, 12), lambda e, i: te.sum(soft[i, r] * v[e, r], axis=r), name="out")
    func = te.create_prim_func([x, v, out])
    same(func, *arrays(func), block="out")


def test_nothing_but_arguments_moves():
    """Each tile of rows reads keys and values once, and nothing else is in memory."""
    sch = one_kernel(attention((1, 4, 256, 64), 256), rows=4, threads=(16, 8))
    target = Target.parse("cuda -arch=sm_90a")
    (work,) = works_of(sch.func, device_of(target))
    head = 256 * 64 * 4 // 32  # transactions of one operand of a head
    assert work.sectors == 4 * (2 * head + 256 // 64 * 2 * head)
    assert work.wavefronts == pytest.approx(work.free, rel=0.01)


def test_what_is_no_scan():
    func = attention((1, 2, 8, 4), 40)
    with pytest.raises(ScheduleError, match="'attention' reads no states of a scan"):
        library.gpu.online(Schedule(func), "attention")


def test_a_scan_of_one_row():
    """A recurrent network, of whose states a number is read."""
    s, w = te.state((3, 16), name="s"), te.placeholder((16, 16), name="w")
    first = te.compute((1, 16), lambda _, j: w[0, j], name="first")
    k = te.reduce_axis(16, name="k")
    mix = te.compute((3, 16), lambda t, j: te.sum(s[t - 1, k] * w[k, j], axis=k), name="mix")
    states = te.scan(first, te.compute((3, 16), lambda t, j: te.tanh(mix[t, j]), name="step"), s)
    read = te.compute((1, 7), lambda i, j: states[i, i] * w[i, j], name="read")
    func = te.create_prim_func([w, read])
    with pytest.raises(ScheduleError, match="has a single row"):
        library.gpu.online(Schedule(func), "read")
    assert make_space(func, device_of(Target.parse("cuda"))).sketches
