"""The few vector helpers that gcc 12 does not find by itself: builtins for x86.

Each row stands beside the loop over the lanes, under a test of the instruction set, and is used
where the vector has exactly the size of a register. clang needs none of them but masked moves.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorir import dtype as dt


class Native(NamedTuple):
    """Where the macro `feature` is defined, the helper is `expression`."""

    feature: str
    expression: str
    in_clang: bool = False


FEATURES = {128: "__SSE2__", 256: "__AVX__", 512: "__AVX512F__"}
"""By the bits of a register: what a target has that has such registers."""

_U64 = "unsigned long long"
_SUFFIX = {"float32": "ps", "float64": "pd"}
_WIDTH = {128: "", 256: "256", 512: "512_mask"}


def extremum(name: str, dtype: str) -> Native | None:
    """maxc or minc: the second operand where either is NaN, as maxps and minps do it.

    With a constant operand gcc 12 makes a comparison and a blend of the loop.
    """
    register, suffix = dt.itemsize(dtype) * 8, _SUFFIX.get(dt.element(dtype))
    if name not in ("maxc", "minc") or suffix is None or register not in FEATURES:
        return None
    arguments = "a, b, a, -1, 4" if register == 512 else "a, b"
    function = f"__builtin_ia32_{name[:3]}{suffix}{_WIDTH[register]}"
    return Native(FEATURES[register], f"{function}({arguments})")


def propagating(name: str, dtype: str) -> Native | None:
    """max or min that is NaN where a or b is, in two instructions: a stays where it is NaN."""
    register, suffix = dt.itemsize(dtype) * 8, _SUFFIX.get(dt.element(dtype))
    if suffix is None or register not in FEATURES:
        return None
    width, rest = f"{suffix}{register}_mask", ", 4" if register == 512 else ""
    if register == 128:
        width = f"{suffix}_mask"
    compared = f"__builtin_ia32_cmp{suffix}{register}_mask(a, a, 7, -1{rest})"
    feature = "__AVX512F__" if register == 512 else "__AVX512VL__"
    return Native(feature, f"__builtin_ia32_{name}{width}(a, b, a, {compared}{rest})")


_MANT = "__builtin_ia32_getmant{e}{w}_mask(x, 11, {v}{{0}}, -1{r})"  # [3/4, 3/2), NaN below 0
_EXPO = "__builtin_ia32_getexp{e}{w}_mask({x}, {v}{{0}}, -1{r})"
_LANE_FUNCTIONS = {
    "scale": "__builtin_ia32_scalef{e}{w}_mask(p, n, {v}{{0}}, -1{r})",
    "mant": _MANT,
    "expo": f"{_EXPO.replace('{x}', 'x')} - {_EXPO.replace('{x}', _MANT)}",
}


def lane_function(name: str, dtype: str) -> Native | None:
    """Functions of exponents, which AVX-512 has for whole vectors."""
    text, register = _LANE_FUNCTIONS.get(name), dt.itemsize(dtype) * 8
    suffix = _SUFFIX.get(dt.element(dtype))
    if text is None or suffix is None or register not in FEATURES:
        return None
    widest = register == 512
    vector = f"({dt.SHORT[dt.element(dtype)]}x{dt.lanes(dtype)})"
    expression = text.format(e=suffix, w=register, v=vector, r=", 4" if widest else "")
    return Native("__AVX512F__" if widest else "__AVX512VL__", expression)


def upper_half(name: str, dtype: str) -> Native | None:
    """mulhi of uint32: the products of the even lanes, and those of the odd ones."""
    register = dt.itemsize(dtype) * 8
    if name != "mulhi" or dt.element(dtype) != "uint32" or register not in FEATURES:
        return None
    own, wide = (f"(__attribute__((vector_size({register // 8}))) {t})" for t in ("int", _U64))
    function, rest = f"__builtin_ia32_pmuludq{register}", ""
    if register == 512:
        function, rest = f"{function}_mask", f", {wide.replace('unsigned ', '')}{{0}}, -1"
    even = f"{wide}{function}({own}a, {own}b{rest}) >> 32"
    odd = f"{wide}{function}({own}({wide}a >> 32), {own}({wide}b >> 32){rest})"
    feature = "__AVX2__" if register == 256 else FEATURES[register]
    return Native(feature, f"(u32x{dt.lanes(dtype)})(({even}) | ({odd} & -1ull << 32))")


def any_far(dtype: str) -> Native | None:
    """Whether a lane of x is beyond what is near, 6000 or (float64) 10^6, or NaN."""
    if dtype == "float64x8":
        whole = "(f64x8)((__attribute__((vector_size(64))) long long)x & 0x7fffffffffffffff)"
        mask = f"__builtin_ia32_cmppd512_mask({whole}, (f64x8){{0}} + 1e6, 6, -1, 4)"
        return Native("__AVX512F__", f"{mask} != 0")
    if dtype != "float32x16":
        return None
    large = "(f32x16)((__attribute__((vector_size(64))) int)x & 0x7fffffff)"
    mask = f"__builtin_ia32_cmpps512_mask({large}, (f32x16){{0}} + 6000.0f, 6, -1, 4)"
    return Native("__AVX512F__", f"{mask} != 0")


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


_WIDENED = {
    ("int8", "int32"): "pmovsxbd",
    ("uint8", "int32"): "pmovzxbd",
    ("uint8", "uint32"): "pmovzxbd",
    ("int16", "int32"): "pmovsxwd",
    ("uint16", "int32"): "pmovzxwd",
    ("uint16", "uint32"): "pmovzxwd",
    ("int32", "int64"): "pmovsxdq",
    ("uint32", "int64"): "pmovzxdq",
    ("uint32", "uint64"): "pmovzxdq",
    ("int32", "float64"): "cvtdq2pd",
    ("float32", "float64"): "cvtps2pd",
}
_VECTORS = {
    **{"int8": "char", "int16": "short", "int32": "int", "int64": "long long"},
    **{"float32": "float", "float64": "double"},
}


def widened(source: str, goal: str) -> Native | None:
    """Conversions of x to wider elements, for which gcc 12 converts and joins halves."""
    before, after = dt.element(source), dt.element(goal)
    name, size = _WIDENED.get((before, after)), dt.itemsize(goal)
    if name is None or not (size == 64 or (size == 32 and dt.itemsize(source) == 16)):
        return None
    own, zero = (
        f"(__attribute__((vector_size({dt.itemsize(vector)}))) {_VECTORS[element.lstrip('u')]})"
        for vector, element in ((source, before), (goal, after))
    )
    if size == 32:
        return Native("__AVX2__", f"__builtin_ia32_{name}256({own}x)")
    rounding = ", 4" if before == "float32" else ""
    call = f"__builtin_ia32_{name}512_mask({own}x, {zero}{{0}}, -1{rounding})"
    return Native("__AVX512F__", call)
