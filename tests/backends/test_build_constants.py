"""Kernels built with constants: values, refusals, ownership of the arrays, the exported C."""

from __future__ import annotations

import shutil
import subprocess
import threading
import weakref

import numpy as np
import pytest

from backends import build, build_source
from backends.c import constants
from backends.c.emit.codegen import emit
from backends.call import allocate
from schedule import Schedule
from tensorir import PrimFunc, Target, TensorIRError, Var, lower, split_constants, te


def linear(m=5, n=6, k=7, dtype="float32", name="linear"):
    a = te.placeholder((m, k), dtype, name="A")
    w = te.placeholder((k, n), dtype, name="W")
    b = te.placeholder((n,), dtype, name="B")
    r = te.reduce_axis(k, name="r")
    t = te.compute((m, n), lambda i, j: te.sum(a[i, r] * w[r, j], axis=r), name="T")
    c = te.compute((m, n), lambda i, j: t[i, j] + b[j], name="C")
    return te.create_prim_func([a, w, b, c], name=name)


def packed(func: PrimFunc) -> Schedule:
    """The weights copied to panels of 4 columns, by all threads; the last one is padded."""
    sch = Schedule(func)
    copy = sch.cache_read("T", "W", "global")
    sch.transform_layout(copy, "W_global", lambda k, j: (j // 4, k, j % 4), pad_value=0.0)
    sch.parallel(sch.get_loops(copy)[0])
    return sch


def arrays(m=5, n=6, k=7, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 8, shape).astype(np.float32) for shape in ((m, k), (k, n), (n,))]


@pytest.fixture(scope="module")
def made(cache):
    a, w, b = arrays()
    return build(packed(linear()), constants={"W": w}, cache=cache), a, w, b


def test_text_of_both_parts(golden):
    target = Target(threads=2, vector_bits=256)
    parts = split_constants(packed(linear()).func, ("W",))
    golden(emit(lower(parts.main, target), target, lower(parts.prepare, target)), "linear.c")


def test_a_call_takes_the_other_arguments(made):
    kernel, a, w, b = made
    np.testing.assert_array_equal(kernel(a, b), a @ w + b)
    out = np.empty((5, 6), np.float32)
    assert kernel(a, b, out) is out
    np.testing.assert_array_equal(out, a @ w + b)
    assert kernel.constants == ("W",)
    assert [p.name for p in kernel.signature.params] == ["A", "B", "C"]
    assert repr(kernel) == "<kernel linear(A: f32[5, 7], B: f32[6], C: f32[5, 6]) for c with W>"
    assert kernel.prepare is not None and kernel.prepare.name == "linear_prepare"
    assert kernel.time(repeats=1, min_ms=0.01).median > 0
    assert kernel.time(a, b, repeats=1, min_ms=0.01).median > 0


def test_the_packing_is_not_part_of_the_kernel(made):
    kernel = made[0]
    assert "int linear_prepare(const float *restrict W, float *restrict W_global)" in kernel.source
    main = kernel.source[kernel.source.index("int linear(") :]
    assert "W_global" in main
    assert "W[" not in main
    assert "linear_prepare:" in kernel.asm


def test_wrong_calls_name_the_arguments_of_a_call(made):
    kernel, a, w, b = made
    with pytest.raises(TensorIRError, match=r"expected 2 \(A, B\) to allocate"):
        kernel(a, w, b, a)
    with pytest.raises(TensorIRError, match="argument 'B' \\(1\\) has shape"):
        kernel(a, a)


@pytest.mark.parametrize("names", ["W", "B", "WB", "AWB"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (1, 1, 1), (3, 0, 2), (2, 13, 0)])
def test_every_choice_of_constants(cache, names, shape):
    m, n, k = shape
    given = dict(zip("AWB", arrays(m, n, k), strict=True))
    sch = packed(linear(m, n, k)) if min(shape) > 0 else linear(m, n, k)
    kernel = build(sch, constants={name: given[name] for name in names}, cache=cache)
    rest = [given[name] for name in "AWB" if name not in names]
    np.testing.assert_array_equal(kernel(*rest), given["A"] @ given["W"] + given["B"])


def test_all_results_of_constants_are_computed_in_a_call(cache):
    """An output belongs to the caller: it is written anew each time."""
    given = dict(zip("AWB", arrays(), strict=True))
    kernel = build(linear(), constants=given, cache=cache)
    first, second = kernel(), kernel()
    assert first is not second
    np.testing.assert_array_equal(first, second)


def test_several_outputs_and_a_constant_computed_in_two_steps(cache):
    x = te.placeholder((9,), "float32", name="X")
    w = te.placeholder((9,), "float32", name="W")
    t = te.compute((9,), lambda i: te.exp(w[i]), name="T")
    u = te.compute((9,), lambda i: t[8 - i] + w[i], name="U")
    y = te.compute((9,), lambda i: x[i] * u[i], name="Y")
    z = te.compute((9,), lambda i: x[i] - u[i], name="Z")
    func = te.create_prim_func([x, w, y, z], name="two")
    one = np.linspace(-1, 1, 9, dtype=np.float32)
    want = build(func, cache=cache)(one + 1, one)
    found = build(func, constants={"W": one}, cache=cache)(one + 1)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "int64"])
def test_types_of_constants(cache, dtype):
    x = te.placeholder((6,), "float32", name="X")
    w = te.placeholder((6,), dtype, name="W")
    c = te.compute((6,), lambda i: x[i] + w[i].astype("float32"), name="C")
    sch = Schedule(te.create_prim_func([x, w, c], name="typed"))
    sch.cache_read("C", "W", "global")
    ones = np.ones(6, np.float32)
    value = (ones.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else ones
    weights = value if dtype == "bfloat16" else ones.astype(dtype)
    assert (build(sch, constants={"W": weights}, cache=cache)(ones) == 2).all()


def test_symbolic_sizes_are_those_of_the_constants(cache):
    m, n, k = Var("m"), Var("n"), Var("k")
    func = linear(m, n, k)
    a, w, b = arrays()
    kernel = build(func, constants={"W": w}, cache=cache)
    assert [v.name for v in kernel.signature.sizes] == ["m"]
    np.testing.assert_array_equal(kernel(a, b), a @ w + b)
    np.testing.assert_array_equal(kernel(a[:2], b), a[:2] @ w + b)
    with pytest.raises(TensorIRError, match="argument 'A' \\(0\\).*dimension 1 is not 7"):
        kernel(a[:, :3].copy(), b)
    both = build(func, constants={"W": w, "B": b}, cache=cache)
    np.testing.assert_array_equal(both(a), a @ w + b)


def test_a_size_that_only_constants_have(cache):
    n = Var("n")
    x, w = te.placeholder((3,), "float32", name="X"), te.placeholder((n,), "float32", name="W")
    c = te.compute((n, 3), lambda i, j: w[i] * x[j], name="C")
    func = te.create_prim_func([x, w, c], name="outer")
    kernel = build(func, constants={"W": np.arange(4, dtype=np.float32)}, cache=cache)
    assert kernel(np.ones(3, np.float32)).shape == (4, 3)


def test_refused_constants(cache):
    func = linear()
    a, w, b = arrays()
    with pytest.raises(TensorIRError, match="linear: constant 'V' is not a parameter"):
        build(func, constants={"V": w}, cache=cache)
    with pytest.raises(TensorIRError, match="linear: 'C' is written, so it cannot be a constant"):
        build(func, constants={"C": w}, cache=cache)
    with pytest.raises(TensorIRError, match=r"argument 'W' \(1\) has dtype float64.*astype"):
        build(func, constants={"W": w.astype(np.float64)}, cache=cache)
    with pytest.raises(TensorIRError, match=r"argument 'W' \(1\) has shape \[6, 7\]"):
        build(func, constants={"W": w.T}, cache=cache)
    with pytest.raises(TensorIRError, match=r"argument 'W' \(1\) is a list"):
        build(func, constants={"W": w.tolist()}, cache=cache)


def test_a_size_that_stays_unknown_is_refused(cache):
    n = Var("n")
    x = te.placeholder((n,), "float32", name="X")
    w = te.placeholder((n * 2,), "float32", name="W")
    c = te.compute((n,), lambda i: w[i * 2] + x[i], name="C")
    func = te.create_prim_func([x, w, c], name="pairs")
    message = r"'W' \(1\) has the dimension n \* 2, and none of these arrays has n as a dimension"
    with pytest.raises(TensorIRError, match=message):
        build(func, constants={"W": np.zeros(6, np.float32)}, cache=cache)


def test_any_layout_in_memory_is_taken(cache):
    a, w, b = arrays()
    odd = np.empty((7, 12), np.float32)[:, ::2]
    odd[...] = w
    odd.flags.writeable = False
    for name, sch in (("packed", packed(linear())), ("read", linear())):
        kernel = build(sch, name=name, constants={"W": odd}, cache=cache)
        np.testing.assert_array_equal(kernel(a, b), a @ w + b)


@pytest.mark.parametrize("schedule", [packed, Schedule])
def test_a_later_change_of_the_array_changes_nothing(cache, schedule):
    a, w, b = arrays()
    mine = w.copy()
    kernel = build(schedule(linear()), constants={"W": mine}, cache=cache)
    mine[...] = 0
    np.testing.assert_array_equal(kernel(a, b), a @ w + b)


def test_kernels_of_one_program_keep_constants_of_their_own(cache, collect):
    a, w, b = arrays()
    one = build(packed(linear()), constants={"W": w}, cache=cache)
    two = build(packed(linear()), constants={"W": -w}, cache=cache)
    assert one.source == two.source
    np.testing.assert_array_equal(one(a, b), a @ w + b)
    np.testing.assert_array_equal(two(a, b), b - a @ w)
    del one
    collect()
    np.testing.assert_array_equal(two(a, b), b - a @ w)


def test_constants_go_with_the_kernel(cache, monkeypatch, collect):
    kept = []

    def watched(shape, dtype):
        array = allocate.lasting(shape, dtype)
        kept.append(weakref.ref(array))
        return array

    monkeypatch.setattr(constants, "lasting", watched)
    a, w, b = arrays()
    kernel = build(packed(linear()), constants={"W": w, "B": b}, cache=cache)
    kernel(a)
    collect()
    assert [ref() is not None for ref in kept] == [True, True]
    del kernel
    collect()
    assert [ref() is not None for ref in kept] == [False, False]


def test_the_array_of_the_caller_is_not_kept(cache, collect):
    a, w, b = arrays()
    mine = w.copy()
    gone = weakref.ref(mine)
    kernel = build(linear(), constants={"W": mine}, cache=cache)
    del mine
    collect()
    assert gone() is None
    np.testing.assert_array_equal(kernel(a, b), a @ w + b)


def test_threads_share_the_constants(made):
    kernel, a, w, b = made
    wrong = []

    def work(n):
        for _ in range(50):
            if not np.array_equal(kernel(a + n, b), (a + n) @ w + b):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_names_alone_make_a_kernel_to_read(cache, tmp_path):
    kernel = build(packed(linear()), constants=("W",), cache=cache)
    full = build(packed(linear()), constants={"W": arrays()[1]}, cache=cache)
    assert kernel.source == full.source
    assert kernel.export(tmp_path)[0].read_text().endswith(kernel.source)
    with pytest.raises(TensorIRError, match=r"names of its constants alone \('W'\).*\{name: array"):
        kernel(*arrays()[::2])
    with pytest.raises(TensorIRError, match=r"write constants=\('W',\)"):
        build(linear(), constants="W", cache=cache)


def test_the_source_of_another_build_is_taken(cache):
    a, w, b = arrays()
    source = build(packed(linear()), constants=("W",), cache=cache).source
    edited = source.replace("return 0;", "return 0; /* edited */")
    kernel = build_source(packed(linear()).func, edited, constants={"W": w}, cache=cache)
    assert kernel.source == edited
    np.testing.assert_array_equal(kernel(a, b), a @ w + b)


def test_memory_of_the_preparation_is_given_back(cache):
    """An intermediate of the part that runs once is in the workspace, which is freed."""
    n = 40000
    x = te.placeholder((n,), "float32", name="X")
    w = te.placeholder((n,), "float32", name="W")
    t = te.compute((n,), lambda i: w[i] + 1.0, name="T")
    u = te.compute((n,), lambda i: t[n - 1 - i] * 2.0, name="U")
    c = te.compute((n,), lambda i: x[i] + u[i], name="C")
    func = te.create_prim_func([x, w, c], name="reversed_")
    weights = np.arange(n, dtype=np.float32)
    kernel = build(func, constants={"W": weights}, cache=cache)
    assert "workspace_take" in kernel.source
    np.testing.assert_array_equal(kernel(weights), weights + (weights[::-1] + 1) * 2)


MAIN = """
#include <stdio.h>
#include "linear.h"
int main(void) {
  float a[4] = {1, 2, 3, 4}, w[4] = {1, 0, 2, 1}, b[2] = {5, 7}, packed[8], out[4];
  if (linear_prepare(w, packed) || linear(a, b, packed, out)) return 1;
  printf("%g %g %g %g\\n", out[0], out[1], out[2], out[3]);
  linear_release();
  return 0;
}
"""


def test_a_program_uses_the_export(cache, tmp_path):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    kernel = build(packed(linear(2, 2, 2)), constants=("W",), cache=cache)
    source, header = kernel.export(tmp_path)
    text = header.read_text()
    assert "int linear_prepare(const float *W, float *W_global);" in text
    assert "Call this once, before the first call of linear: it makes W_global" in text
    assert "(const float *A, const float *B, const float *W_global, float *C);" in text
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-O2", "-fopenmp", "-Wall", "-Werror", "-fwrapv"]
    program = tmp_path / "main"
    subprocess.run([compiler, *flags, tmp_path / "main.c", source, "-o", program], check=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    assert done.stdout == "10 9 16 11\n"


@pytest.mark.parametrize("bytes_", [0, 1, 4095, 1 << 21, (1 << 21) + 1])
def test_lasting_memory_is_aligned(bytes_):
    array = allocate.lasting((bytes_,), "uint8")
    assert array.shape == (bytes_,)
    array[...] = 7
    assert (array == 7).all()
    if bytes_:
        assert array.ctypes.data % 64 == 0
    if bytes_ >= allocate.HUGE_PAGE:
        assert array.ctypes.data % allocate.HUGE_PAGE == 0
