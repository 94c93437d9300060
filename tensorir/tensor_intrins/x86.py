"""Tensor intrinsics of x86: fused multiply-adds, VNNI dot products, bfloat16 dot products.

Operands are read and written through pointers; gcc and clang keep a local array that is only used
so in registers, also across the loop around (looked up in the assembly, gcc 12 and clang 14).
"""

from __future__ import annotations

from tensorir.tensor_intrin import TensorIntrin
from tensorir.tensor_intrins.meanings import axpy, dot, outer

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
#define ${{NAME}}_dp(c, a, b) __builtin_ia32_vpdpbusd{bits}(c, a, b)
#else
#define ${{NAME}}_dp(c, a, b) __builtin_ia32_vpdpbusd_v{lanes}si(c, a, b)
#endif
static inline void $NAME(const {a} *a, const i8 *b, i32 *c, i64 b_step) {{
    typedef int lanes __attribute__((vector_size({size})));
    typedef int unaligned __attribute__((vector_size({size}), aligned(1), may_alias));
    int word;
    (void)b_step;
    __builtin_memcpy(&word, a, 4);
    const lanes y = *(const unaligned *)b, z = *(const unaligned *)c;
{body}
}}"""

_UNSIGNED = """\
    *(unaligned *)c = ${NAME}_dp(z, word - (lanes){0}, y);"""

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


def _fma(lanes: int, needs: str) -> TensorIntrin:
    source = _FMA.format(size=4 * lanes)
    return TensorIntrin(f"f32.fma_{lanes}", axpy("f32", lanes), source, needs)


def _vnni(a: str, lanes: int, needs: str) -> TensorIntrin:
    """Exact: vpdpbusd adds four products of 16 bits to a sum that wraps, as int32 does."""
    body = _UNSIGNED if a == "u8" else _SIGNED
    source = _VNNI.format(a=a, lanes=lanes, bits=32 * lanes, size=4 * lanes, body=body)
    meaning = dot(a, "i8", "i32", lanes, 4)
    return TensorIntrin(f"{a}i8.dot_{lanes}x4", meaning, source, needs, {"B": (4,)})


def _bf16(lanes: int, needs: str) -> TensorIntrin:
    """Two fused multiply-adds to nearest, the second pair first; the products are exact in float32.

    Subnormal inputs and results count as zero (Intel SDM, VDPBF16PS), whatever they are multiplied
    with: numerics "mixed".
    """
    source, meaning = _BF16.format(size=4 * lanes), dot("bf16", "bf16", "f32", lanes, 2)
    name = f"bf16.dot_{lanes}x2"
    return TensorIntrin(name, meaning, source, needs, {"B": (2,)}, numerics="mixed")


FMA_TILE = TensorIntrin("f32.fma_8x16", outer("f32", 8, 16, dense=False), _FMA_TILE, "avx512f")

INTRINSICS = (
    _fma(8, "fma"),
    _fma(16, "avx512f"),
    FMA_TILE,
    _vnni("u8", 8, VNNI_256),
    _vnni("u8", 16, "avx512vnni"),
    _vnni("i8", 8, VNNI_256),
    _vnni("i8", 16, "avx512vnni"),
    _bf16(8, "avx512bf16 avx512vl"),
    _bf16(16, "avx512bf16"),
)
