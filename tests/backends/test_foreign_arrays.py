"""Arrays of other libraries: bfloat16, which NumPy lacks, and results in kind.

`Tensor` stands for torch's: it speaks DLPack only, and its library makes arrays by from_dlpack.
"""

from __future__ import annotations

import ctypes
import sys
import types
import weakref

import numpy as np
import pytest

from backends import build
from backends.call.foreign_arrays import _Tensor
from tensorir import TensorIRError, te


class Tensor:
    """Memory of NumPy, as an array of another library that calls its type `kind`."""

    def __init__(self, held, kind=None, device=1, negated=False):
        self.held, self.kind = held, kind or str(held.dtype)
        self.device, self.negated = device, negated

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, stream=None):
        if self.device != 1:
            raise BufferError("it is on another device")
        capsule = self.held.__dlpack__()
        if self.kind == "bfloat16":
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype = ctypes.c_void_p
            pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            _Tensor.from_address(pointer(capsule, b"dltensor")).code = 4
        return capsule

    def __array__(self, dtype=None, copy=None):
        if self.kind == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.held

    @property
    def shape(self):
        return self.held.shape

    def is_neg(self):
        return self.negated

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.held), self.kind)

    def to(self, kind):
        raise NotImplementedError

    def view(self, kind):
        return Tensor(self.held, kind)


Tensor.__module__ = "tensors.core"


@pytest.fixture(autouse=True)
def library(monkeypatch):
    tensors = types.SimpleNamespace(from_dlpack=Tensor, bfloat16="bfloat16")
    monkeypatch.setitem(sys.modules, "tensors", tensors)


@pytest.fixture(scope="module")
def doubles(cache):
    made = {}
    for dtype in ("float32", "bfloat16", "uint16"):
        x = te.placeholder((te.size_var("n"), 4), dtype, name="X")
        kind = "float32" if dtype == "bfloat16" else dtype
        y = te.compute(
            x.shape, lambda i, j: (x[i, j].astype(kind) + x[i, j].astype(kind)).astype(dtype), "Y"  # noqa: B023
        )
        made[dtype] = build(te.create_prim_func([x, y]), cache=cache)
    return made


def bfloat16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arrays_in_and_out(doubles, dtype):
    given, wanted = VALUES, 2 * VALUES
    if dtype == "bfloat16":
        given, wanted = bfloat16(given), bfloat16(wanted)
    made = doubles[dtype](Tensor(given, dtype))
    assert type(made) is Tensor and made.kind == dtype
    np.testing.assert_array_equal(made.held, wanted)
    out = Tensor(np.zeros_like(given), dtype)
    assert doubles[dtype](Tensor(given, dtype), out) is out
    np.testing.assert_array_equal(out.held, wanted)
    assert doubles[dtype](Tensor(given[:0], dtype)).shape == (0, 4)


def test_results_are_of_numpy_where_an_array_is(doubles):
    assert type(doubles["float32"](VALUES)) is np.ndarray
    out = np.empty_like(VALUES)
    assert doubles["float32"](Tensor(VALUES), out) is out


def test_the_memory_lives_as_long_as_it_is_used(doubles, collect):
    class Watched(np.ndarray):
        pass

    held = bfloat16(VALUES).view(Watched)
    gone = weakref.ref(held)
    kernel = build(doubles["bfloat16"].func, constants={"X": Tensor(held, "bfloat16")})
    del held
    collect()
    assert gone() is None, "constants are copied"
    np.testing.assert_array_equal(kernel(), bfloat16(2 * VALUES))


REFUSED = {
    "bfloat16 for floats": (
        "float32", lambda: Tensor(bfloat16(VALUES), "bfloat16"),
        r"has dtype bfloat16, expected float32; convert with \.to\(tensors\.float32\)",
    ),
    "bfloat16 for integers": (
        "uint16", lambda: Tensor(bfloat16(VALUES), "bfloat16"), "dtype bfloat16, expected uint16",
    ),
    "floats for bfloat16": (
        "bfloat16", lambda: Tensor(VALUES), r"expected uint16 .*\.to\(tensors\.bfloat16\)",
    ),
    "strided": (
        "float32", lambda: Tensor(VALUES.repeat(2, 0)[::2]),
        r"C-contiguous .*pass \.contiguous\(\)$",
    ),
    "strided bfloat16": (
        "bfloat16", lambda: Tensor(bfloat16(VALUES).repeat(2, 0)[::2], "bfloat16"),
        r"C-contiguous .*pass \.contiguous\(\)$",
    ),
    "elsewhere": ("float32", lambda: Tensor(VALUES, device=2), r"another device;.*\.cpu\(\)"),
    "bfloat16 elsewhere": (
        "bfloat16", lambda: Tensor(bfloat16(VALUES), "bfloat16", device=2), r"\.cpu\(\)",
    ),
    "negated": ("float32", lambda: Tensor(VALUES, negated=True), r"\.resolve_neg\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_told_in_words_of_the_library(doubles, case):
    dtype, make, message = REFUSED[case]
    with pytest.raises(TensorIRError, match=message):
        doubles[dtype](make())
