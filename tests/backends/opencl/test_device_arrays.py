"""Arrays that are on an OpenCL device already: no copies, and outputs of their kind."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from backends.opencl.device import find_device, why_no_device
from backends.opencl.program import OpenCLExecutable
from tensorir import TensorIRError, te

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=why_no_device() or "")


def scaled(shape=None, dtype="float32"):
    """B = 2 A + 1, of a symbolic shape or of this one."""
    given = (te.var("n"), te.var("m")) if shape is None else shape
    a = te.placeholder(given, dtype, name="A")
    b = te.compute(given, lambda *i: a[i] * 2 + 1, name="B")
    return te.create_prim_func([a, b], name="scaled")


@pytest.fixture(scope="module")
def kernel():
    return build(scaled(), "opencl")


@pytest.fixture(scope="module")
def fixed():
    return build(scaled((3, 4)), "opencl")


@pytest.fixture
def no_copies(monkeypatch):
    """Nothing is copied to the device or back by a call."""

    def refuse(self, *args):
        raise AssertionError("an array is copied")

    upload = OpenCLExecutable._upload
    monkeypatch.setattr(
        OpenCLExecutable,
        "_upload",
        lambda self, a: refuse(self) if isinstance(a, np.ndarray) and a.size else upload(self, a),
    )


def queue(context=None):
    return cl.CommandQueue(context or find_device().context)


def host(shape=(3, 4), dtype="float32"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def on_device(array, where=None):
    import pyopencl.array

    return pyopencl.array.to_device(where or queue(), array)


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (0, 4), (3, 0), (37, 11)])
def test_an_array_gives_an_array(kernel, no_copies, shape):
    import pyopencl.array

    a = on_device(host(shape))
    b = kernel(a)
    assert type(b) is pyopencl.array.Array and b.queue is a.queue and b.shape == shape
    np.testing.assert_array_equal(b.get(), host(shape) * 2 + 1)
    out = pyopencl.array.zeros_like(a)
    assert kernel(a, out) is out
    np.testing.assert_array_equal(out.get(), host(shape) * 2 + 1)


def test_numpy_arrays_are_copied_as_they_were(kernel):
    b = kernel(host())
    assert type(b) is np.ndarray
    np.testing.assert_array_equal(b, host() * 2 + 1)


def test_buffers_give_a_buffer(fixed, no_copies):
    context, flags = find_device().context, cl.mem_flags
    a = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=host())
    b = fixed(a)
    assert isinstance(b, cl.Buffer) and b.size == 48
    found = np.empty((3, 4), "float32")
    cl.enqueue_copy(queue(), found, b)
    np.testing.assert_array_equal(found, host() * 2 + 1)


def test_a_buffer_of_one_symbolic_dimension_tells_it(no_copies):
    kernel = build(scaled((te.var("n"),)), "opencl")
    a = cl.Buffer(find_device().context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host((7,)))
    found = np.empty(7, "float32")
    cl.enqueue_copy(queue(), found, kernel(a))
    np.testing.assert_array_equal(found, host((7,)) * 2 + 1)


def test_shared_virtual_memory_gives_the_same(kernel, no_copies):
    memory = cl.csvm_empty(find_device().context, (3, 4), "float32")
    with cl.SVM(memory).map_rw(queue()) as mapped:
        mapped[...] = host()
    b = kernel(cl.SVM(memory))
    assert isinstance(b, cl.SVM)
    with b.map_ro(queue()) as found:
        np.testing.assert_array_equal(found, host() * 2 + 1)


def test_memory_without_a_shape_of_svm(fixed, no_copies):
    flags = cl.svm_mem_flags.READ_WRITE
    a, b = (cl.SVMAllocation(find_device().context, 48, 0, flags) for _ in range(2))
    cl.enqueue_copy(queue(), a, host())
    assert fixed(a, b) is b
    found = np.empty((3, 4), "float32")
    cl.enqueue_copy(queue(), found, b)
    np.testing.assert_array_equal(found, host() * 2 + 1)


def test_both_kinds_in_one_call():
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((3, 4), name="B")
    c = te.compute((3, 4), lambda i, j: a[i, j] - b[i, j], name="C")
    kernel = build(te.create_prim_func([a, b, c], name="minus"), "opencl")
    for x, y in ((on_device(host()), host() * 3), (host(), on_device(host() * 3))):
        found = kernel(x, y)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, host() * -2)
    into = np.zeros((3, 4), "float32")
    kernel(on_device(host()), on_device(host()), into)
    assert not into.any()


def test_parts_of_an_array(kernel, no_copies):
    """A row far enough inside begins a buffer of its own; others are refused with the remedy."""
    align = find_device().queue.device.mem_base_addr_align // 8
    rows = on_device(host((2 * align, 4)))
    found = kernel(rows[align:])
    np.testing.assert_array_equal(found.get(), host((2 * align, 4))[align:] * 2 + 1)
    with pytest.raises(TensorIRError, match=r"'A' \(0\) begins 16 bytes into .*; pass .copy\(\)"):
        kernel(rows[1:])
    with pytest.raises(TensorIRError, match=r"'A' \(0\) is not C-contiguous .*; pass .copy\(\)"):
        kernel(rows.T)
    np.testing.assert_array_equal(kernel(rows[1:].copy()).get(), rows[1:].get() * 2 + 1)


def test_another_context_has_a_program_of_its_own(kernel, no_copies):
    device = find_device().context.devices[0]
    for _ in range(2):
        other = cl.Context([device])
        a = on_device(host(), queue(other))
        b = kernel(a)
        assert b.context == other
        np.testing.assert_array_equal(b.get(), host() * 2 + 1)
    with pytest.raises(
        TensorIRError, match="'B' .1. is in another OpenCL context than argument 'A'"
    ):
        kernel(a, on_device(host()))


def test_constants_and_numbers(no_copies, monkeypatch):
    monkeypatch.undo()  # constants are copied once
    n = te.var("n")
    a, w = te.placeholder((n, 3), name="A"), te.placeholder((3,), name="W")
    v = te.compute((3,), lambda i: w[i] * w[i], name="V")
    s = te.var("s")
    c = te.compute((n, 3), lambda i, j: a[i, j] * v[j] + te.cast(s, "float32"), name="C")
    func = te.create_prim_func([a, w, s, c], name="f")
    weights = np.arange(3, dtype="float32")
    kernel = build(func, "opencl", constants={"W": on_device(weights)})
    found = kernel(on_device(host((4, 3))), s=5)
    np.testing.assert_array_equal(found.get(), host((4, 3)) * weights**2 + 5)


@pytest.mark.parametrize("ordered", [True, False])
def test_queues_wait_for_each_other(ordered):
    """An array that is still written on another queue, several kernels on one out of order."""
    n = 1 << 16
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    k = te.reduce_axis(9, name="k")
    total = te.compute((1,), lambda _: te.max(b[k], axis=k), name="S")
    c = te.compute((n,), lambda i: b[n - 1 - i] + total[0], name="C")
    kernel = build(te.create_prim_func([a, c], name="several"), "opencl")
    kinds = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    work = cl.CommandQueue(find_device().context, properties=0 if ordered else kinds)
    x = on_device(np.zeros(n, "float32"), work)
    for _ in range(4):
        x = kernel(x)  # 2 more than twice the largest, from 0 on
    assert x.events and (x.get(queue()) == 30).all()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (lambda: (on_device(host(dtype="float64")),), r"has dtype float64, expected float32"),
        (lambda: (on_device(host((3, 4, 1))),), r"'A' \(0\) has shape \[3, 4, 1\]"),
        (lambda: (on_device(host()), on_device(host((3, 5)))), "m is 4 from 'A' but 5 here"),
        (lambda: 2 * (on_device(host()),), "'B' .1. shares memory with argument 'A'"),
        (lambda: (on_device(host()), host(), host()), "3 arguments given"),
        (lambda: (cl.Buffer(find_device().context, 1, 48),), "is a Buffer, which has no shape"),
    ],
)
def test_what_does_not_fit_is_refused(kernel, args, message):
    with pytest.raises(TensorIRError, match=message):
        kernel(*args())


def test_buffers_that_do_not_fit(fixed):
    context, flags = find_device().context, cl.mem_flags
    a = cl.Buffer(context, flags.READ_ONLY, 48)
    with pytest.raises(TensorIRError, match=r"'A' .* has 40 bytes, expected 48: float32 of shape"):
        fixed(cl.Buffer(context, flags.READ_WRITE, 40))
    with pytest.raises(TensorIRError, match="'B' .1. is read-only, and scaled writes it"):
        fixed(a, cl.Buffer(context, flags.READ_ONLY, 48))
    whole = cl.Buffer(context, flags.READ_WRITE, 48)
    with pytest.raises(TensorIRError, match="'B' .1. shares memory with argument 'A'"):
        fixed(whole, whole.get_sub_region(0, 48))
    with pytest.raises(TensorIRError, match="a constant is a Buffer, which has no shape"):
        build(scaled((3, 4)), "opencl", constants={"A": a})


def test_times_are_of_the_device(kernel):
    assert kernel.time(on_device(host()), repeats=2, min_ms=0.1).median > 0
