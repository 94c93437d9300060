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


def propagating(name: str, dtype: str) -> Native | None:
    """max or min that is NaN where a or b is, in two instructions: a stays where it is NaN."""
    register, suffix = dt.itemsize(dtype) * 8, _SUFFIX.get(dt.element(dtype))
    if suffix is None or register not in _FEATURES:
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
    if text is None or suffix is None or register not in _FEATURES:
        return None
    widest = register == 512
    vector = f"({dt.SHORT[dt.element(dtype)]}x{dt.lanes(dtype)})"
    expression = text.format(e=suffix, w=register, v=vector, r=", 4" if widest else "")
    return Native("__AVX512F__" if widest else "__AVX512VL__", expression)


def any_far(dtype: str) -> Native | None:
    """Whether a lane of x is beyond 6000, or NaN."""
    if dtype != "float32x16":
        return None
    large = "(f32x16)((__attribute__((vector_size(64))) int)x & 0x7fffffff)"
    mask = f"__builtin_ia32_cmpps512_mask({large}, (f32x16){{0}} + 6000.0f, 6, -1, 4)"
    return Native("__AVX512F__", f"{mask} != 0")


class _Moves(NamedTuple):
    """Endings of the builtins that move parts of vectors, and the C type of their lanes."""

    memory: str
    register: str
    lane: str


_MOVES = {
    "float32": _Moves("ups{w}_mask", "aps{w}_mask", "float"),
    "float64": _Moves("upd{w}_mask", "apd{w}_mask", "double"),
    8: _Moves("dquqi{w}_mask", "dquqi{w}_mask", "char"),
    16: _Moves("dquhi{w}_mask", "dquhi{w}_mask", "short"),
    32: _Moves("dqusi{w}_mask", "dqa32_{w}_mask", "int"),
    64: _Moves("dqudi{w}_mask", "dqa64_{w}_mask", "long long"),
}


def _masked(dtype: str, text: str, in_clang: bool = True) -> Native | None:
    """`text` with endings and types for `dtype`: {m}emory, {r}egister, {v}ector."""
    size, bits = dt.itemsize(dtype), dt.bits(dtype)
    moves = _MOVES.get(dt.element(dtype)) or _MOVES[bits]
    if size * 8 not in _FEATURES:
        return None
    feature = f"__AVX512{'F' if bits > 16 else 'BW'}__"
    if size < 64:
        feature = f"{feature}) && defined(__AVX512VL__"
    words = {"m": moves.memory.format(w=size * 8), "r": moves.register.format(w=size * 8)}
    vector = f"(__attribute__((vector_size({size}))) {moves.lane})"
    return Native(feature, text.format(**words, v=vector), in_clang)


def masked_load(dtype: str, vector: str) -> Native | None:
    """The lanes of the memory at p whose bit is set in m; 0 in others."""
    return _masked(dtype, f"({vector})__builtin_ia32_load{{m}}((const void *)p, {{v}}{{{{0}}}}, m)")


def masked_store(dtype: str) -> Native | None:
    """Writes the lanes of v to the memory at p whose bit is set in m."""
    return _masked(dtype, "__builtin_ia32_store{m}((void *)p, {v}v, m)")


def blended(dtype: str, vector: str) -> Native | None:
    """The lanes of a where the bit is set in m, and of b elsewhere."""
    return _masked(dtype, f"({vector})__builtin_ia32_mov{{r}}({{v}}a, {{v}}b, m)", False)


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
