"""Our own single-precision functions keep the errors that docs/accuracy.md states."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import te

pytest.importorskip("scipy")
sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import generate_accuracy as accuracy  # noqa: E402
from emulator import ARM, emulated, needs_emulator  # noqa: E402

COUNT = (1 << 14) + 11
"""With a tail in vectors of any width."""

CASES = [(dtype, name) for dtype, table in accuracy.TABLES.items() for name in table]
ON_X86 = platform.machine() in ("x86_64", "AMD64")


def machines() -> dict[str, int]:
    """Processors that this machine can imitate, with the lanes of their vectors."""
    found = {"native": 16}
    if ON_X86:
        known = Path("/proc/cpuinfo")
        flags = known.read_text().split() if known.exists() else []
        found |= {"haswell": 8} if {"avx2", "fma"} <= set(flags) else {}
        found["x86-64"] = 4
    return found


def lanes_of(march: str, dtype: str) -> int:
    return machines()[march] * 4 // np.dtype(dtype).itemsize


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("dtype", "name"), CASES)
@pytest.mark.parametrize("march", machines())
def test_error(dtype, name, march):
    if dtype == "float64" and np.finfo("longdouble").nmant < 63:
        pytest.skip("nothing more precise to compare with")
    f = accuracy.TABLES[dtype][name]
    out = accuracy.results(COUNT, march, lanes_of(march, dtype), dtype)[name]
    found, at = accuracy.largest_error(name, accuracy.arguments(name, COUNT, dtype), out)
    assert found <= (f.plain if march == "x86-64" else f.limit), at


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("dtype", "name"), CASES)
@pytest.mark.parametrize("march", machines())
def test_vectors_and_tails_have_the_bits_of_scalars(dtype, name, march):
    one = accuracy.results(COUNT, march, 1, dtype)[name]
    many = accuracy.results(COUNT, march, lanes_of(march, dtype), dtype)[name]
    bits = accuracy.BITS[dtype]
    same = (one.view(bits) == many.view(bits)) | (np.isnan(one) & np.isnan(many))
    assert same.all(), [x[~same][:4] for x in accuracy.arguments(name, COUNT, dtype)]


@pytest.mark.parametrize(("dtype", "name"), CASES)
def test_the_page_states_the_limits(dtype, name):
    f = accuracy.TABLES[dtype][name]
    _, _, text = accuracy.PAGE.read_text(encoding="utf-8").partition(f"## {dtype}\n")
    row = re.search(rf"^\| {name} \|.*$", text, re.MULTILINE)
    assert row is not None, "docs/accuracy.md is stale: python docs/generate_accuracy.py"
    _, _, _, fused, plain, limits, _, _ = (cell.strip() for cell in row[0].split("|"))
    assert float(fused) <= f.limit and float(plain) <= f.plain
    assert [float(v) for v in limits.split("; ")] == list(dict.fromkeys((f.limit, f.plain)))


@needs_emulator
@pytest.mark.parametrize("dtype", accuracy.TABLES)
def test_errors_on_the_emulator_of_arm(dtype, cache, tmp_path):
    count = 3 * 1024 + 5
    sch, arrays = accuracy.program(count, 16 // np.dtype(dtype).itemsize, dtype)
    found = {name: np.zeros(count, dtype) for name in accuracy.TABLES[dtype]}
    with emulated(build(sch, ARM, cache=cache), tmp_path) as call:
        call(*arrays, *found.values())
    for name, f in accuracy.TABLES[dtype].items():
        error, at = accuracy.largest_error(
            name, accuracy.arguments(name, count, dtype), found[name]
        )
        assert error <= max(f.limit, f.plain), (name, at)


def test_one_far_argument_does_not_disturb_the_others():
    x = np.linspace(-3, 3, 64, dtype="float32")
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: te.sin(a[i]), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    sch.vectorize("i")
    kernel, near, far = build(sch), np.zeros(64, "float32"), np.zeros(64, "float32")
    kernel(x, near)
    x[17] = 1e30
    kernel(x, far)
    np.testing.assert_array_equal(np.delete(near, 17), np.delete(far, 17))
    assert far[17] == np.float32(np.sin(np.float64(x[17])))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("march", machines())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_propagate_nan(name, march, dtype):
    special = np.array([0, 1, -1, np.inf, -np.inf, np.nan], dtype)
    x, y = (v.ravel().repeat(4) for v in np.meshgrid(special, special))
    n = len(x)
    a, b = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    function = {"max": te.maximum, "min": te.minimum}[name]
    c = te.compute((n,), lambda i: function(a[i], b[i]), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    sch.split("i", [None, 48])
    sch.vectorize("i_1")
    out = np.zeros(n, dtype)
    build(sch, f"c -march={march}")(x, y, out)
    np.testing.assert_array_equal(out, {"max": np.maximum, "min": np.minimum}[name](x, y))
