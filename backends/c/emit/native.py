"""The few vector helpers that gcc 12 does not find by itself: builtins for x86.

Each row stands beside the loop over the lanes, under a test of the instruction set, and is used
where the vector has exactly the size of a register. clang needs none of them but masked moves and
functions of exponents, whose loops it leaves as calls, lane by lane.

Only AVX2's conversions between integers of 64 bits and floats go lane by lane, for want of an
instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    return Native("__AVX512F__" if widest else "__AVX512VL__", expression, True)


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


def product(dtype: str) -> Native | None:
    """a * b of int32, both of 16 bits: the product of their lower halves."""
    register = dt.itemsize(dtype) * 8
    if dt.element(dtype) != "int32" or register not in FEATURES:
        return None
    a, b = (f"{_vector(register // 8, 'int16')}{text}" for text in ("a", "(b & 0xffff)"))
    rest = f", {_vector(64, 'int32')}{{0}}, -1" if register == 512 else ""
    name = f"__builtin_ia32_pmaddwd{register if register < 512 else '512_mask'}"
    feature = {128: "__SSE2__", 256: "__AVX2__", 512: "__AVX512BW__"}[register]
    return Native(feature, f"(i32x{dt.lanes(dtype)}){name}({a}, {b}{rest})")


def added_product(dtype: str) -> Native | None:
    """s + a * b of the same."""
    if product(dtype) is None:
        return None
    lanes = dt.lanes(dtype)
    own = [f"{_vector(lanes * 4, 'int32')}{text}" for text in ("s", "a", "(b & 0xffff)")]
    feature = "__AVX512VNNI__"
    if lanes < 16:
        feature = f"{feature}) && defined(__AVX512VL__"
    return Native(feature, f"(i32x{lanes})__builtin_ia32_vpdpwssd_v{lanes}si({', '.join(own)})")


GATHERS = """\
/* AMD up to Zen 5 takes longer for an instruction that gathers few elements than for these. */
#if defined(__AVX512VL__) && !defined(__znver3__) && !defined(__znver4__) && !defined(__znver5__)
#define GATHERS
#endif"""
"""Where to load a few lanes from places of their own takes one instruction; MANY do everywhere."""

MANY = 8
"""Lanes from which on all processors with AVX-512 gather in less time: on a Zen 4, 16 of float32 in
0.6 of the time from the first cache and in half of it from the third, four in 1.1 and 0.8."""


def gathered(dtype: str, index: str) -> Native | None:
    """p[at], elements of 32 or 64 bits whose places `at` are of 32."""
    bits, lanes = dt.bits(dtype), dt.lanes(dtype)
    if dt.element(index) != "int32" or bits not in (32, 64) or bits * lanes not in FEATURES:
        return None
    if lanes < 4:
        return None
    wide = bits * lanes == 512
    kind = {"float32": "sf", "float64": "df"}.get(dt.element(dtype), "si" if bits == 32 else "di")
    stored = {"si": "int32", "di": "int64"}.get(kind, dt.element(dtype))
    none = f"{_vector(bits * lanes // 8, stored)}{{0}}"
    places = f"{_vector(lanes * 4, 'int32')}at"
    name = f"__builtin_ia32_gather{'' if wide else '3'}siv{lanes}{kind}"
    call = f"{name}({none}, p, {places}, -1, {bits // 8})"
    feature = "GATHERS" if lanes < MANY else "__AVX512VL__"
    return Native(feature, f"({dt.SHORT[dt.element(dtype)]}x{lanes}){call}")


def merged(dtype: str, lanes: Sequence[int]) -> Native | None:
    """Lanes of a that stay in place beside some of b, in one operation: to choose single bytes or
    pairs of them from two vectors is three on processors by Intel (vpermt2b, vpermt2w)."""
    bits, count = dt.bits(dtype), dt.lanes(dtype)
    if bits not in (8, 16) or bits * count != 512 or len(lanes) != count:
        return None
    taken = [n for n, lane in enumerate(lanes) if lane != n]
    words = all((lanes[n] - n) % (32 // bits) == 0 for n in taken)
    if words or any(lanes[n] < count for n in taken):
        return None
    a, b, places = (f"{_vector(64, dtype)}{text}" for text in ("a", "b", "{$}"))
    places = places.replace("$", ", ".join(str(lane % count) for lane in lanes))
    mask = f"{sum(1 << n for n in taken):#x}ull"
    call = f"__builtin_ia32_permvar{'q' if bits == 8 else 'h'}i512_mask({b}, {places}, {a}, {mask})"
    return Native("__AVX512VBMI__" if bits == 8 else "__AVX512BW__", call)


def chooses(dtype: str, index: str) -> str | None:
    """What has one instruction for lanes that a vector of `index` names, of one vector or two."""
    bits, register = dt.bits(dtype), dt.itemsize(dtype) * 8
    kinds = {8: ("uint8", "VBMI"), 16: ("uint16", "BW"), 32: ("int32", "F")}
    places, feature = kinds.get(bits, ("", ""))
    if dt.element(index) != places or dt.is_bool(dtype) or register not in FEATURES:
        return None
    return f"__AVX512{feature}__{') && defined(__AVX512VL__' if register < 512 else ''}"


_COMPARED = {"==": (0, 0), "<": (1, 1), "<=": (2, 2), "!=": (4, 4), ">=": (5, 13), ">": (6, 14)}
"""How instructions call comparisons of integers, and of floats, where NaN is unequal alone."""
_LANES = {8: "b", 16: "w", 32: "d", 64: "q"}


def chosen_by_bits(dtype: str, compared: str, op: str) -> Native | None:
    """Lanes of a where `x op y` holds for those of `compared`, and of b elsewhere; without an
    operator where the mask x says so."""
    sizes = [8 * dt.itemsize(each) for each in (dtype, compared)]
    if not FEATURES.keys() >= {*sizes} or dt.element(dtype) in dt.STORAGE_ONLY:
        return None
    kinds = [_SUFFIX.get(dt.element(d)) or _LANES[dt.bits(d)] for d in (dtype, compared)]
    a, b = (f"{_vector(sizes[0] // 8, dtype)}{text}" for text in "ab")
    x, y = (f"{_vector(sizes[1] // 8, compared)}{text}" for text in "xy")
    sign = "u" if dt.element(compared).startswith("uint") else ""
    if op:
        real = dt.is_float(dt.element(compared))
        last = ", -1, 4" if real and sizes[1] == 512 else ", -1"
        name = f"__builtin_ia32_{sign}cmp{kinds[1]}{sizes[1]}_mask"
        bits = f"{name}({x}, {y}, {_COMPARED[op][real]}{last})"
    else:
        bits = f"__builtin_ia32_cvt{kinds[1]}2mask{sizes[1]}({x})"
    features = "__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__"
    vector = f"({dt.SHORT[dt.element(dtype)]}x{dt.lanes(dtype)})"
    call = f"__builtin_ia32_blendm{kinds[0]}_{sizes[0]}_mask({b}, {a}, {bits})"
    return Native(features, f"{vector}{call}")


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


def float16(source: str, goal: str) -> Native | None:
    """Conversions between half and single precision, which gcc 12 does lane by lane."""
    lanes, reads = dt.lanes(goal), dt.element(goal) == "float32"
    if {dt.element(source), dt.element(goal)} != {"float16", "float32"} or lanes not in (4, 8, 16):
        return None
    half = _register(source) if reads else f"{_vector(32, 'int16')}{{0}}"
    if lanes == 16:
        read, written = f"({half}, (f32x16){{0}}, -1, 4)", f"(x, 0, {half}, -1)"
        feature, width = "__AVX512F__", "512_mask"
    else:
        read, written, feature, width = f"({half})", "(x, 0)", "__F16C__", "256" * (lanes == 8)
    if reads:
        return Native(feature, f"__builtin_ia32_vcvtph2ps{width}{read}")
    text = f"__builtin_ia32_vcvtps2ph{width}{written}"
    return Native(feature, f"(f16x{lanes}){text if lanes > 4 else _shuffled(text, range(lanes))}")


_TO_FLOAT64 = {"int32": "cvtdq2pd", "float32": "cvtps2pd"}
_LETTER = {1: "b", 2: "w", 4: "d", 8: "q"}
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long long"}


def widened(source: str, goal: str) -> Native | None:
    """Conversions of x to wider elements that gcc 12 takes apart: into halves that it joins, or,
    where x is less than a register, into lanes."""
    size, lanes = dt.itemsize(goal), dt.lanes(goal)
    before, after = dt.itemsize(source) // lanes, size // lanes
    if dt.is_int(source) and dt.is_int(goal) and before < after:
        sign = "z" if dt.is_unsigned(source) else "s"
        name = f"pmov{sign}x{_LETTER[before]}{_LETTER[after]}"
        feature = {16: "__SSE4_1__", 32: "__AVX2__", 64: "__AVX512F__"}.get(size)
        if size == 64 and after == 2:
            feature = "__AVX512BW__"
    else:
        name = _TO_FLOAT64.get(dt.element(source), "") if dt.element(goal) == "float64" else ""
        feature = {32: "__AVX2__", 64: "__AVX512F__"}.get(size)
    if not name or feature is None or size < 16:
        return None
    function = f"__builtin_ia32_{name}{size * 8}"
    if size < 64:
        return Native(feature, f"{function}({_register(source)})")
    rounding = ", 4" if name == "cvtps2pd" else ""
    zero = f"{_vector(64, goal)}{{0}}"
    return Native(feature, f"{function}_mask({_register(source)}, {zero}, -1{rounding})")


def _vector(size: int, dtype: str) -> str:
    """A conversion to the type that builtins take; those of integers have no sign."""
    element = dt.element(dtype)
    lane = {"float32": "float", "float64": "double"}.get(element) or _INTEGERS[dt.itemsize(element)]
    return f"(__attribute__((vector_size({size}))) {lane})"


def _register(dtype: str) -> str:
    """The vector x of `dtype` as a register, in whose first lanes it is."""
    size, lanes = dt.itemsize(dtype), dt.lanes(dtype)
    if size >= 16:
        return f"{_vector(size, dtype)}x"
    places = [*range(lanes), *[-1] * (lanes * (16 // size - 1))]
    return f"{_vector(16, dtype)}{_shuffled('x', places)}"


def narrowed(source: str, goal: str) -> Native | None:
    """Integers x of registers to narrower ones, which gcc 12 takes apart into lanes."""
    before, after, size = (dt.itemsize(d) for d in (dt.element(source), dt.element(goal), source))
    if size * 8 not in FEATURES:
        return None
    name = f"pmov{_LETTER[before]}{_LETTER[after]}{size * 8}_mask"
    none = f"{_vector(max(16, dt.itemsize(goal)), goal)}{{0}}"
    text = f"__builtin_ia32_{name}({_vector(size, source)}x, {none}, -1)"
    feature = f"__AVX512{'BW' if before == 2 else 'F'}__"
    if size < 64:
        feature = f"{feature}) && defined(__AVX512VL__"
    return Native(
        feature, _shuffled(text, range(dt.lanes(goal))) if dt.itemsize(goal) < 16 else text
    )


def picked(source: str, goal: str) -> Native:
    """The same as a shuffle of bytes: the lower part of each lane."""
    step = dt.itemsize(dt.element(source)) // dt.itemsize(dt.element(goal))
    parts = f"{_vector(dt.itemsize(source), goal)}x"
    return Native("__SSSE3__", _shuffled(parts, range(0, dt.lanes(goal) * step, step)))


def joined(low: str, high: str, lanes: int) -> str:
    """A vector of so many lanes from both of its halves."""
    return f"__builtin_shufflevector({low}, {high}, {', '.join(map(str, range(lanes)))})"


def _shuffled(text: str, places: Iterable[int]) -> str:
    """Lanes of a vector in another order; -1 is any."""
    return f"__builtin_shufflevector({text}, {text}, {', '.join(map(str, places))})"
