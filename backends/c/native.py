"""The few vector helpers that gcc 12 does not find by itself: builtins for x86.

Each row stands beside the loop over the lanes, under a test of the instruction set, and is used
where the vector has exactly the size of a register. clang needs none of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorir import dtype as dt


class Native(NamedTuple):
    """Where the macro `feature` is defined, the helper is `expression`."""

    feature: str
    expression: str


_FEATURES = {128: "__SSE2__", 256: "__AVX__", 512: "__AVX512F__"}
_SUFFIX = {"float32": "ps", "float64": "pd"}
_WIDTH = {128: "", 256: "256", 512: "512_mask"}


def extremum(name: str, dtype: str) -> Native | None:
    """maxc or minc: the second operand where either is NaN, as maxps and minps do it.

    With a constant operand gcc 12 makes a comparison and a blend of the loop.
    """
    register, suffix = dt.itemsize(dtype) * 8, _SUFFIX.get(dt.element(dtype))
    if name not in ("maxc", "minc") or suffix is None or register not in _FEATURES:
        return None
    arguments = "a, b, a, -1, 4" if register == 512 else "a, b"
    function = f"__builtin_ia32_{name[:3]}{suffix}{_WIDTH[register]}"
    return Native(_FEATURES[register], f"{function}({arguments})")


_FLOAT16 = {
    ("float16x8", "float32x8"): Native(
        "__F16C__", "__builtin_ia32_vcvtph2ps256((__attribute__((vector_size(16))) short)x)"
    ),
    ("float16x16", "float32x16"): Native(
        "__AVX512F__",
        "__builtin_ia32_vcvtph2ps512_mask((__attribute__((vector_size(32))) short)x, "
        "(f32x16){0}, -1, 4)",
    ),
    ("float32x8", "float16x8"): Native("__F16C__", "(f16x8)__builtin_ia32_vcvtps2ph256(x, 0)"),
    ("float32x16", "float16x16"): Native(
        "__AVX512F__",
        "(f16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, "
        "(__attribute__((vector_size(32))) short){0}, -1)",
    ),
}


def float16(source: str, goal: str) -> Native | None:
    """Conversions of half precision, which gcc 12 does lane by lane."""
    return _FLOAT16.get((source, goal))
