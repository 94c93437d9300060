"""Tensor intrinsics of x86: fused multiply-adds, dot products of bytes, of int16 and of bfloat16.

Operands are read and written through pointers; gcc and clang keep a local array that is only used
so in registers, also across the loop around (looked up in the assembly, gcc 12 and clang 14).
"""

from __future__ import annotations

from tensorir import dtype
from tensorir.tensor_intrins.meanings import axpy, dot, outer, transpose
from tensorir.tensorize.tensor_intrin import TensorIntrin

VNNI_256 = "avx512vnni avx512vl | avxvnni"

_FMA = """\
static inline void $NAME(const float *a, const float *b, float *c) {{
    typedef float row __attribute__((vector_size({size}), aligned(4), may_alias));
    *(row *)c += *a * *(const row *)b;
}}"""

_FMA_TILE = """\
static inline void $NAME(const float *a, const float *b, float *c, i64 a_step, i64 c_step) {
    typedef float row __attribute__((vector_size(64), aligned(4), may_alias));
    const row x = *(const row *)b;
    for (i64 i = 0; i < 8; i++) *(row *)(c + i * c_step) += a[i * a_step] * x;
}"""

_VNNI = """\
#ifdef __clang__
#define ${{NAME}}_dp(c, a, b) __builtin_ia32_{code}{bits}(c, a, b)
#else
#define ${{NAME}}_dp(c, a, b) __builtin_ia32_{code}_v{lanes}si(c, a, b)
#endif
static inline void $NAME(const {a} *a, const {b} *b, i32 *c, i64 b_step) {{
    typedef int lanes __attribute__((vector_size({size})));
    typedef int unaligned __attribute__((vector_size({size}), aligned(1), may_alias));
    int word;
    (void)b_step;
    __builtin_memcpy(&word, a, 4);
    const lanes y = *(const unaligned *)b, z = *(const unaligned *)c;
{body}
}}"""

_AS_IT_IS = """\
    *(unaligned *)c = ${NAME}_dp(z, word - (lanes){0}, y);"""

_PAIRS = """\
    typedef short halves __attribute__((vector_size(32)));
    const lanes x = word - (lanes){0};
    *(unaligned *)c = z + (lanes)__builtin_ia32_pmaddwd256((halves)x, (halves)y);"""

_SIGNED = """\
    /* The instruction wants its first factor unsigned: (b + 128) * a - 128 * a. */
    const lanes by = (int)0x80808080 - (lanes){0}, x = word - (lanes){0};
    const lanes excess = ${NAME}_dp((lanes){0}, by, x);
    *(unaligned *)c = ${NAME}_dp(z - excess, y ^ by, x);"""

_BF16 = """\
static inline void $NAME(const bf16 *a, const bf16 *b, float *c, i64 b_step) {{
    typedef int lanes __attribute__((vector_size({size})));
    typedef int pairs __attribute__((vector_size({size}), aligned(2), may_alias));
    typedef float sums __attribute__((vector_size({size})));
    typedef float unaligned __attribute__((vector_size({size}), aligned(4), may_alias));
    int word;
    (void)b_step;
    __builtin_memcpy(&word, a, 4);
    const lanes x = word - (lanes){{0}}, y = *(const pairs *)b;
    sums z = *(const unaligned *)c;
    /* The type of the builtin changed with every major version of both compilers. */
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(z) : "v"(x), "v"(y));
    *(unaligned *)c = z;
}}"""

_TRANSPOSE = """\
static inline void $NAME(
    const {kind} *a, {kind} *c, i64 a_step, i64 a_group, i64 c_step, i64 c_group
) {{
    typedef int lanes __attribute__((vector_size(64)));
    typedef int unaligned __attribute__((vector_size(64), aligned(1), may_alias));
    (void)a_group;
    (void)c_group;
#define LOW(x, y) __builtin_shufflevector(x, y, {first})
#define HIGH(x, y) __builtin_shufflevector(x, y, {second})
#define IN(i) const lanes r##i = *(const unaligned *)(a + 0x##i * a_step);
#define OUT(i) *(unaligned *)(c + 0x##i * c_step) = r##i;
#define ALL(z) z(0) z(1) z(2) z(3) z(4) z(5) z(6) z(7) z(8) z(9) z(a) z(b) z(c) z(d) z(e) z(f)
#define PAIR(x, y, i, j) const lanes t##i = LOW(r##x, r##y), t##j = HIGH(r##x, r##y);
    /* Four times the rows of both halves in turns, lane by lane: that is the transpose. */
#define TURN PAIR(0, 8, 0, 1) PAIR(1, 9, 2, 3) PAIR(2, a, 4, 5) PAIR(3, b, 6, 7) \\
    PAIR(4, c, 8, 9) PAIR(5, d, a, b) PAIR(6, e, c, d) PAIR(7, f, e, f)
#define BACK(i) const lanes r##i = t##i;
    ALL(IN) {{ TURN {{ ALL(BACK) {{ TURN {{ ALL(BACK) {{ TURN {{ ALL(BACK) {{ TURN {{ ALL(BACK)
    ALL(OUT)
    }} }} }} }} }} }} }} }}
#undef LOW
#undef HIGH
#undef IN
#undef OUT
#undef ALL
#undef PAIR
#undef TURN
#undef BACK
}}"""


def _fma(lanes: int, needs: str) -> TensorIntrin:
    source = _FMA.format(size=4 * lanes)
    return TensorIntrin(f"f32.fma_{lanes}", axpy("f32", lanes), source, needs)


def _vnni(a: str, b: str, lanes: int, needs: str) -> TensorIntrin:
    """Exact: vpdpbusd adds four products of 16 bits to a sum that wraps, as int32 does; vpdpwssd,
    or vpmaddwd and an addition, two of 32 bits: of these 2^30 + 2^30 alone is no int32, and wraps.
    """
    group, size = 32 // dtype.bits(dtype.LONG[b]), 4 * lanes
    code = "vpdpbusd" if group == 4 else "vpdpwssd"
    body = _PAIRS if needs == "avx2" else _SIGNED if (a, b) == ("i8", "i8") else _AS_IT_IS
    source = _VNNI.format(code=code, a=a, b=b, lanes=lanes, bits=32 * lanes, size=size, body=body)
    meaning, name = dot(a, b, "i32", lanes, group), f"{a}{b}.dot_{lanes}x{group}"
    return TensorIntrin(name, meaning, source, needs, {"B": (group,)})


def _bf16(lanes: int, needs: str) -> TensorIntrin:
    """Two fused multiply-adds to nearest, the second pair first; the products are exact in float32.

    Subnormal inputs and results count as zero (Intel SDM, VDPBF16PS), whatever they are multiplied
    with: numerics "mixed".
    """
    source, meaning = _BF16.format(size=4 * lanes), dot("bf16", "bf16", "f32", lanes, 2)
    name = f"bf16.dot_{lanes}x2"
    return TensorIntrin(name, meaning, source, needs, {"B": (2,)}, numerics="mixed")


def _transpose(kind: str, group: int) -> TensorIntrin:
    """16 rows of 16 groups of four bytes change places in registers."""
    turns = [", ".join(f"{n}, {n + 16}" for n in range(at, at + 8)) for at in (0, 8)]
    source = _TRANSPOSE.format(kind=kind, first=turns[0], second=turns[1])
    meaning, strides = transpose(kind, 16, 16, group), {"A": (None, group), "C": (None, group)}
    return TensorIntrin(f"{kind}.transpose_16x16x{group}", meaning, source, "avx512f", strides)


FMA_TILE = TensorIntrin("f32.fma_8x16", outer("f32", 8, 16, dense=False), _FMA_TILE, "avx512f")

INTRINSICS = (
    _fma(8, "fma"),
    _fma(16, "avx512f"),
    FMA_TILE,
    _vnni("u8", "i8", 8, VNNI_256),
    _vnni("u8", "i8", 16, "avx512vnni"),
    _vnni("i8", "i8", 8, VNNI_256),
    _vnni("i8", "i8", 16, "avx512vnni"),
    _vnni("i16", "i16", 8, "avx2"),
    _vnni("i16", "i16", 16, "avx512vnni"),
    _bf16(8, "avx512bf16 avx512vl"),
    _bf16(16, "avx512bf16"),
    *(_transpose(kind, group) for kind, group in (("i8", 4), ("u8", 4), ("i16", 2), ("bf16", 2))),
)
