"""The tensor intrinsics that come with the project. Tests check each as `register` would."""

from __future__ import annotations

from tensorir.tensor_intrin import INTRINS, TensorIntrin

FMA_QUAD = TensorIntrin(
    "f32.fma_4",
    """
@prim_func
def fma_4(A: f32[1], B: f32[4], C: f32[4]):
    for j in range(4):
        with block("C"):
            vj = spatial(4, j)
            C[vj] = C[vj] + A[0] * B[vj]
""",
    """\
static inline void $NAME(const float *a, const float *b, float *c) {
    typedef float row __attribute__((vector_size(16), aligned(4), may_alias));
    *(row *)c += *a * *(const row *)b;
}""",
)

COPY_QUAD = TensorIntrin(
    "f32.copy_4",
    """
@prim_func
def copy_4(A: f32[4], C: f32[4]):
    for j in range(4):
        with block("C"):
            vj = spatial(4, j)
            C[vj] = A[vj]
""",
    """\
static inline void $NAME(const float *a, float *c) {
    __builtin_memcpy(c, a, 16);
}""",
)

FMA_ROW = TensorIntrin(
    "f32.fma_16",
    """
@prim_func
def fma_16(A: f32[1], B: f32[16], C: f32[16]):
    for j in range(16):
        with block("C"):
            vj = spatial(16, j)
            C[vj] = C[vj] + A[0] * B[vj]
""",
    """\
static inline void $NAME(const float *a, const float *b, float *c) {
    typedef float row __attribute__((vector_size(64), aligned(4), may_alias));
    *(row *)c += *a * *(const row *)b;
}""",
)

FMA_TILE = TensorIntrin(
    "f32.fma_8x16",
    """
@prim_func
def fma_8x16(A: f32[8, 1], B: f32[16], C: f32[8, 16]):
    for i, j in grid(8, 16):
        with block("C"):
            vi = spatial(8, i)
            vj = spatial(16, j)
            C[vi, vj] = C[vi, vj] + A[vi, 0] * B[vj]
""",
    """\
static inline void $NAME(const float *a, const float *b, float *c, i64 a_step, i64 c_step) {
    typedef float row __attribute__((vector_size(64), aligned(4), may_alias));
    const row x = *(const row *)b;
    for (i64 i = 0; i < 8; i++) *(row *)(c + i * c_step) += a[i * a_step] * x;
}""",
)

DOT_U8I8 = TensorIntrin(
    "u8i8.dot_16x4",
    """
@prim_func
def dot_16x4(A: u8[4], B: i8[16, 4], C: i32[16]):
    for j, k in grid(16, 4):
        with block("C"):
            vj = spatial(16, j)
            vk = reduce(4, k)
            C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
""",
    """\
static inline void $NAME(const u8 *a, const i8 *b, i32 *c, i64 b_step) {
    typedef int lanes __attribute__((vector_size(64)));
    typedef int unaligned __attribute__((vector_size(64), aligned(1), may_alias));
    int word;
    (void)b_step;
    __builtin_memcpy(&word, a, 4);
    const lanes x = word - (lanes){0}, y = *(const unaligned *)b, z = *(const unaligned *)c;
#ifdef __clang__
    *(unaligned *)c = __builtin_ia32_vpdpbusd512(z, x, y);
#else
    *(unaligned *)c = __builtin_ia32_vpdpbusd_v16si(z, x, y);
#endif
}""",
    needs="avx512vnni",
    strides={"B": (4,)},
)

BUILT_IN = (FMA_QUAD, COPY_QUAD, FMA_ROW, FMA_TILE, DOT_U8I8)
INTRINS.update({intrin.name: intrin for intrin in BUILT_IN})
