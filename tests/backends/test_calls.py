"""Calling kernels: what is accepted, what is refused and how, on hand-written C."""

from __future__ import annotations

import array
import threading

import numpy as np
import pytest

from backends import build
from tensorir import Buffer, For, PrimFunc, Store, TensorIRError, Var, const, seq, te
from tensorir import dtype as dt

N, M = Var("n"), Var("m")


def func_of(name, params, outputs):
    """A function over `params` that writes `outputs`; only its signature matters here."""
    zero = {"float32": 0.0, "float64": 0.0}
    stores = []
    for p in outputs:
        axes = tuple(Var(f"{p.name}_{d}") for d in range(p.ndim))
        nest = Store(p, axes, const(zero.get(p.dtype, 0), p.dtype))
        for axis, extent in zip(axes[::-1], p.shape[::-1], strict=True):
            nest = For(axis, extent, nest)
        stores.append(nest)
    return PrimFunc(name, tuple(params), (), seq(*stores))


@pytest.fixture(scope="module")
def scale(compile_text):
    """C[n, 4] = 2 * A[n, 4]"""
    a, c = Buffer("A", (N, 4), "float32"), Buffer("C", (N, 4), "float32")
    return compile_text(
        func_of("scale", (a, c), (c,)),
        "int scale(const float *a, float *c, long long n) {\n"
        "  for (long long i = 0; i < 4 * n; i++) c[i] = 2 * a[i];\n  return 0;\n}\n",
    )


@pytest.fixture(scope="module")
def outer(compile_text):
    """S[n, m] = A[n] + B[m], P[2] = (n, m)"""
    a, b = Buffer("A", (N,), "float64"), Buffer("B", (M,), "float64")
    s, p = Buffer("S", (N, M), "float64"), Buffer("P", (2,), "int64")
    return compile_text(
        func_of("outer", (a, b, s, p), (s, p)),
        "int outer(const double *a, const double *b, double *s, long long *p,\n"
        "           long long n, long long m) {\n"
        "  for (long long i = 0; i < n * m; i++) s[i] = a[i / m] + b[i % m];\n"
        "  p[0] = n; p[1] = m;\n  return 0;\n}\n",
    )


def test_outputs_are_allocated_or_written_in_place(scale):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = scale(a)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, 2 * a)
    c = np.empty_like(a)
    assert scale(a, c) is c
    np.testing.assert_array_equal(c, 2 * a)


def test_arguments_by_name(scale, outer):
    """In any order, with those in front that have none, outputs among them."""
    a, b = np.arange(3.0), np.arange(5.0)
    x, y = (p.name for p in outer.func.given)
    total, _ = outer.named(**{y: b, x: a})
    np.testing.assert_array_equal(total, a[:, None] + b)
    np.testing.assert_array_equal(outer.named(a, **{y: b})[0], total)
    given = np.empty((3, 5)), np.empty(2, np.int64)
    names = [p.name for p in outer.func.outputs]
    assert outer.named(a, b, **dict(zip(names, given)))[0] is given[0]
    with pytest.raises(TensorIRError, match=r"has no argument 'self'; it has"):
        outer.named(a, self=b)
    with pytest.raises(TensorIRError, match=rf"0 arguments given beside {y}; expected 1 \({x}\)"):
        outer.named(**{y: b})
    with pytest.raises(TensorIRError, match="has shape"):
        outer.named(**{x: a[None], y: b})


def test_a_call_without_names_says_where_they_go(outer):
    name = outer.func.given[1].name
    with pytest.raises(TypeError, match=rf"kernel\.named by name.* unexpected .*'{name}'"):
        outer(np.arange(3.0), **{name: np.arange(5.0)})


def test_several_outputs_and_sizes(outer):
    a, b = np.arange(3.0), np.arange(5.0)
    total, sizes = outer(a, b)
    np.testing.assert_array_equal(total, a[:, None] + b)
    assert sizes.tolist() == [3, 5]
    given = np.empty((3, 5)), np.empty(2, np.int64)
    assert all(x is y for x, y in zip(outer(a, b, *given), given, strict=True))


def test_zero_size_arrays(scale, outer):
    assert scale(np.empty((0, 4), np.float32)).shape == (0, 4)
    total, sizes = outer(np.empty(0), np.ones(5))
    assert total.shape == (0, 5)
    assert sizes.tolist() == [0, 5]


def test_zero_rank(compile_text):
    a, c = Buffer("A", (), "int32"), Buffer("C", (), "int32")
    func = func_of("negate", (a, c), (c,))
    negate = compile_text(func, "int negate(const int *a, int *c) { *c = -*a; return 0; }\n")
    result = negate(np.array(5, np.int32))
    assert result.shape == ()
    assert result == -5


@pytest.mark.parametrize("dtype", dt.SCALARS)
def test_every_dtype_takes_the_fast_entry(compile_text, dtype):
    held = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    a, c = Buffer("A", (3,), dtype), Buffer("C", (3,), dtype)
    size = 3 * held.itemsize
    source = "int copy(const void *a, void *c) { __builtin_memcpy(c, a, SIZE); return 0; }\n"
    source = source.replace("SIZE", str(size))
    copy = compile_text(func_of("copy", (a, c), (c,)), source)
    given = np.array([1, 0, 1]).astype(held)
    np.testing.assert_array_equal(copy(given), given)
    assert copy._entry(given, np.empty_like(given)) == 0
    wrong = np.zeros(3, "complex64")
    assert copy._entry(wrong, np.empty_like(given)) == 1


def test_long_long_and_buffers_of_other_libraries(outer):
    a, b = array.array("d", [1, 2]), memoryview(np.ones(3))
    counts = np.empty(2, np.longlong)
    total, _ = outer(a, b, np.empty((2, 3)), counts)
    np.testing.assert_array_equal(total, [[2, 2, 2], [3, 3, 3]])
    assert counts.tolist() == [2, 3]


class Exporter:
    """An array that speaks DLPack only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OldExporter(Exporter):
    """DLPack before 1.0, which cannot say that memory is writable."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("kind", [Exporter, OldExporter])
def test_dlpack(scale, kind):
    a, c = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    wrapped = kind(c)
    assert scale(kind(a), wrapped) is wrapped
    assert (c == 2).all()
    np.testing.assert_array_equal(scale(kind(a)), c)


def test_arrays_behind_dlpack_are_checked_in_compiled_code(scale, monkeypatch):
    """The checks in Python take ten times as long, and are for arguments that do not fit."""
    monkeypatch.setattr("backends.kernel.prepare", lambda *given: pytest.fail("checked twice"))
    result = scale(Exporter(np.ones((2, 4), np.float32)))
    np.testing.assert_array_equal(result, np.full((2, 4), 2, np.float32))


def test_several_outputs_are_made_in_their_places():
    a = te.placeholder((2, 3), name="A")
    b = te.compute((3,), lambda j: a[0, j] + 1.0, name="B")
    c = te.compute((2, 3, 0), lambda i, j, k: a[i, j], name="C")
    d = te.compute((2, 3), lambda i, j: a[i, j].astype("bfloat16"), name="D")
    kernel = build(te.create_prim_func([a, b, d, c], name="three"))
    first, second, third = kernel(np.ones((2, 3), np.float32))
    assert first.tolist() == [2, 2, 2] and third.shape == (2, 3, 0)
    assert second.dtype == np.uint16 and second.shape == (2, 3)


class Elsewhere(Exporter):
    def __dlpack__(self, **options):
        raise BufferError("device is cuda")


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def misaligned(*shape):
    size = int(np.prod(shape)) * 4
    return np.zeros(size + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def read_only(*shape):
    result = ones(*shape)
    result.flags.writeable = False
    return result


SHARED = ones(5, 4)

REFUSED = {
    "no arguments": (lambda: (), "0 arguments given; expected 1 (A) to allocate the outputs, or 2"),
    "too many": (lambda: (ones(2, 4),) * 3, "3 arguments given"),
    "dtype": (
        lambda: (ones(3, 4, dtype="float64"),),
        "argument 'A' (0) has dtype float64, expected float32; convert with .astype('float32')",
    ),
    "dtype of output": (lambda: (ones(3, 4), ones(3, 4, dtype="int32")), "'C' (1) has dtype int32"),
    "list as output": (lambda: (ones(1, 4), [[1.0, 2, 3, 4]]), "'C' (1) is a list, not an array"),
    "misaligned output": (lambda: (ones(3, 4), misaligned(3, 4)), "'C' (1) is not aligned"),
    "byte order of output": (
        lambda: (ones(3, 4), ones(3, 4, dtype=">f4")),
        "'C' (1) has the byte order of another machine",
    ),
    "byte order": (
        lambda: (ones(3, 4, dtype=">f4"),),
        "argument 'A' (0) has the byte order of another machine (>f4)",
    ),
    "rank": (lambda: (ones(4),), "argument 'A' (0) has shape [4], expected [n, 4]"),
    "fixed dimension": (lambda: (ones(4, 3),), "[4, 3], expected [n, 4]: dimension 1 is not 4"),
    "symbolic dimension": (
        lambda: (ones(5, 4), ones(6, 4)),
        "argument 'C' (1) has shape [6, 4], expected [n, 4]: n is 5 from 'A' but 6 here",
    ),
    "strides": (
        lambda: (ones(4, 4).T,),
        "'A' (0) is not C-contiguous (strides (4, 16)); pass np.ascontiguousarray(...)",
    ),
    "negative strides": (lambda: (ones(3, 4)[::-1],), "'A' (0) is not C-contiguous"),
    "strided output": (lambda: (ones(2, 4), ones(4, 4)[::2]), "and copy the result back"),
    "misaligned": (lambda: (misaligned(3, 4),), "'A' (0) is not aligned to its 4-byte elements"),
    "read-only output": (lambda: (ones(3, 4), read_only(3, 4)), "'C' (1) is read-only, and scale"),
    "same array twice": (
        lambda: (SHARED, SHARED),
        "argument 'C' (1) shares memory with argument 'A' (0)",
    ),
    "overlap": (lambda: (SHARED[:4], SHARED[1:]), "'C' (1) shares memory with argument 'A' (0)"),
    "list": (
        lambda: ([[1.0, 2, 3, 4]],),
        "'A' (0) is a list, not an array; convert with np.asarray(..., dtype='float32')",
    ),
    "number": (lambda: (3.0,), "'A' (0) is a float, not an array"),
    "none": (lambda: (None,), "'A' (0) is a NoneType, not an array"),
    "other device": (
        lambda: (Elsewhere(ones(3, 4)),),
        "memory of this Elsewhere cannot be used: device is cuda",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named(scale, case):
    make, message = REFUSED[case]
    args = make()
    before = [np.copy(a) for a in args if isinstance(a, np.ndarray)]
    with pytest.raises(TensorIRError) as error:
        scale(*args)
    assert str(error.value).startswith("scale: ")
    assert message in str(error.value)
    makes_a_copy = any(word in str(error.value) for word in ("convert with", "pass "))
    written = "argument 'C'" in str(error.value)
    assert str(error.value).endswith("and copy the result back") is (makes_a_copy and written)
    after = [a for a in args if isinstance(a, np.ndarray)]
    assert all((x == y).all() for x, y in zip(before, after, strict=True)), "touched before checked"


def test_neighbours_do_not_overlap_and_inputs_may(scale, compile_text):
    both = ones(6, 4)
    scale(both[:3], both[3:])
    assert (both[3:] == 2).all()
    a, b, c = (Buffer(name, (4,), "float32") for name in "ABC")
    func = func_of("plus", (a, b, c), (c,))
    text = "int plus(const float *a, const float *b, float *c) { for (int i = 0; i < 4; i++) "
    plus = compile_text(func, text + "c[i] = a[i] + b[i]; return 0; }\n")
    assert (plus(SHARED[0], SHARED[0]) == 2).all()
    assert plus._entry(SHARED[0], SHARED[0], np.empty(4, np.float32)) == 0


def test_bfloat16_is_passed_as_bits(compile_text):
    a, c = Buffer("A", (2,), "bfloat16"), Buffer("C", (2,), "bfloat16")
    text = "int copy(const short *a, short *c) { c[0] = a[0]; c[1] = a[1]; return 0; }\n"
    copy = compile_text(func_of("copy", (a, c), (c,)), text)
    with pytest.raises(TensorIRError, match=r"expected uint16 \(the bits of bfloat16 in uint16\)"):
        copy(ones(2))
    with pytest.raises(TensorIRError, match=r"view\('uint16'\)"):
        copy(np.ones(2, np.int16))


def test_dimensions_that_are_expressions(compile_text):
    a, c = Buffer("A", (N,), "float32"), Buffer("C", (N // 2 + 1,), "float32")
    text = "int halve(const float *a, float *c, long long n) {\n"
    text += "  for (long long i = 0; i <= n / 2; i++) c[i] = 1;\n  return 0;\n}\n"
    halve = compile_text(func_of("halve", (a, c), (c,)), text)
    assert halve(ones(7)).tolist() == [1.0] * 4
    assert halve(ones(6), np.zeros(4, np.float32)).tolist() == [1.0] * 4
    with pytest.raises(TensorIRError, match=r"'C' \(1\) has shape \[3\].*dimension 0 is 3.* is 4"):
        halve(ones(6), ones(3))
    with pytest.raises(TensorIRError, match="has dtype float64"):
        halve(ones(6, dtype="float64"))


def test_a_size_that_no_dimension_tells_is_refused(compile_text):
    a = Buffer("A", (N * 2,), "float32")
    text = "int twice(float *a, long long n) { return 0; }\n"
    with pytest.raises(TensorIRError, match="twice: size 'n' occurs in the shape of argument 'A'"):
        compile_text(func_of("twice", (a,), (a,)), text)


def test_an_output_size_that_the_inputs_do_not_tell(compile_text):
    a, c = Buffer("A", (N,), "float32"), Buffer("C", (M,), "float32")
    text = "int fill(const float *a, float *c, long long n, long long m) {\n"
    text += "  c[m - 1] = n;\n  return 0;\n}\n"
    fill = compile_text(func_of("fill", (a, c), (c,)), text)
    with pytest.raises(TensorIRError, match="do not tell size 'm' of output 'C'; pass the output"):
        fill(ones(3))
    assert fill(ones(3), ones(2)).tolist() == [1, 3]


def test_threads_may_share_a_kernel(scale):
    wrong = []

    def work(value):
        a = np.full((64, 4), value, np.float32)
        for _ in range(200):
            if not (scale(a) == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(v),)) for v in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_released(compile_text):
    a = Buffer("A", (2,), "int64")
    text = (
        "int meet(volatile long long *a) {\n"
        "  a[0] = 1;\n  for (long long i = 0; i < 4000000000ll && !a[1]; i++);\n  return 0;\n}\n"
    )
    meet = compile_text(func_of("meet", (a,), (a,)), text)
    flags = np.zeros(2, np.int64)
    thread = threading.Thread(target=meet, args=(flags,))
    thread.start()
    while not flags[0]:
        pass
    flags[1] = 1  # only possible while the kernel waits for it
    thread.join(timeout=20)
    assert not thread.is_alive()


def test_large_outputs_start_at_a_cache_line(scale):
    assert scale(ones(4096, 4)).ctypes.data % 64 == 0


def test_workspace_is_released_with_the_last_kernel(compile_text, collect):
    a = Buffer("A", (1,), "int64")
    text = (
        "static long long *kept;\n"
        "int keep(long long *a) { kept = a; *a = 1; return 0; }\n"
        "void keep_release(void) { if (kept) *kept = 7; kept = 0; }\n"
    )
    func = func_of("keep", (a,), (a,))
    first, second = compile_text(func, text), compile_text(func, text)
    cell = np.zeros(1, np.int64)
    first(cell)
    del first
    collect()
    assert cell[0] == 1, "the second kernel lives in the same object"
    del second
    collect()
    assert cell[0] == 7


def test_a_kernel_without_memory_for_its_workspace(compile_text):
    a = Buffer("A", (1,), "int64")
    func = func_of("greedy", (a,), (a,))
    greedy = compile_text(func, "int greedy(long long *a) { return 1; }\n")
    with pytest.raises(TensorIRError, match="greedy: no memory for the workspace"):
        greedy(np.zeros(1, np.int64))
    with pytest.raises(TensorIRError, match="greedy: no memory for the workspace"):
        greedy.time(repeats=1)


def test_references_and_arguments_are_let_go(scale):
    import sys

    a, c = ones(2, 4), ones(2, 4)
    counts = sys.getrefcount(a), sys.getrefcount(c)
    for _ in range(10):
        scale(a, c)
        with pytest.raises(TensorIRError):
            scale(a, c[:1])
    assert (sys.getrefcount(a), sys.getrefcount(c)) == counts
    a.resize((1, 4), refcheck=True)  # impossible while a buffer is exported
