"""Tensor intrinsics in the vector extensions of gcc and clang, for every processor."""

from __future__ import annotations

from tensorir.tensor_intrins.meanings import axpy, copy, pack
from tensorir.tensorize.tensor_intrin import TensorIntrin

FMA_QUAD = TensorIntrin(
    "f32.fma_4",
    axpy("f32", 4),
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

_PACK_BYTES = """\
static inline void $NAME(const {kind} *a, {kind} *c, i64 a_step, i64 c_step) {{
    typedef char bytes __attribute__((vector_size(16)));
    typedef short pairs __attribute__((vector_size(16)));
    typedef char row __attribute__((vector_size(16), aligned(1), may_alias));
    typedef short out __attribute__((vector_size(16), aligned(1), may_alias));
    (void)c_step;
#define LOW(x, y) __builtin_shufflevector(x, y, {low})
#define HIGH(x, y) __builtin_shufflevector(x, y, {high})
    const bytes r0 = *(const row *)a, r1 = *(const row *)(a + a_step);
    const bytes r2 = *(const row *)(a + 2 * a_step), r3 = *(const row *)(a + 3 * a_step);
    const pairs p0 = (pairs)LOW(r0, r1), p1 = (pairs)HIGH(r0, r1);
    const pairs p2 = (pairs)LOW(r2, r3), p3 = (pairs)HIGH(r2, r3);
#undef LOW
#undef HIGH
    *(out *)c = __builtin_shufflevector(p0, p2, 0, 8, 1, 9, 2, 10, 3, 11);
    *(out *)(c + 16) = __builtin_shufflevector(p0, p2, 4, 12, 5, 13, 6, 14, 7, 15);
    *(out *)(c + 32) = __builtin_shufflevector(p1, p3, 0, 8, 1, 9, 2, 10, 3, 11);
    *(out *)(c + 48) = __builtin_shufflevector(p1, p3, 4, 12, 5, 13, 6, 14, 7, 15);
}}"""

_PACK_PAIRS = """\
static inline void $NAME(const {kind} *a, {kind} *c, i64 a_step, i64 c_step) {{
    typedef short pairs __attribute__((vector_size(16)));
    typedef short row __attribute__((vector_size(16), aligned(2), may_alias));
    (void)c_step;
    for (int h = 0; h < 2; h++) {{
        const pairs x = *(const row *)(a + 8 * h), y = *(const row *)(a + 8 * h + a_step);
        *(row *)(c + 16 * h) = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
        *(row *)(c + 16 * h + 8) = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
    }}
}}"""

_COPY_WORDS = """\
static inline void $NAME(const {kind} *a, {kind} *c, i64 a_step, i64 c_step) {{
    (void)c_step;
    for (int j = 0; j < 16; j++) __builtin_memcpy(c + {count} * j, a + j * a_step, 4);
}}"""


def _interleaved(start: int) -> str:
    """The lanes of a shuffle that takes 8 columns of two rows of 16 in turns."""
    return ", ".join(f"{lane}, {lane + 16}" for lane in range(start, start + 8))


def _pack_bytes(kind: str) -> TensorIntrin:
    source = _PACK_BYTES.format(kind=kind, low=_interleaved(0), high=_interleaved(8))
    return TensorIntrin(f"{kind}.pack_4x16", pack(kind, 4, 16), source, strides={"C": (4,)})


def _copy_words(kind: str, count: int) -> TensorIntrin:
    """16 pieces of four bytes; they come to lie densely."""
    name, source = f"{kind}.copy_16x{count}", _COPY_WORDS.format(kind=kind, count=count)
    return TensorIntrin(name, copy(kind, 16, count), source, strides={"C": (count,)})



def _pack_pairs(kind: str) -> TensorIntrin:
    source = _PACK_PAIRS.format(kind=kind)
    return TensorIntrin(f"{kind}.pack_2x16", pack(kind, 2, 16), source, strides={"C": (2,)})


INTRINSICS = (
    FMA_QUAD,
    COPY_QUAD,
    *map(_pack_bytes, ("i8", "u8")),
    *map(_pack_pairs, ("i16", "bf16")),
    *(_copy_words(kind, count) for kind, count in (("i8", 4), ("u8", 4), ("i16", 2), ("bf16", 2))),
)
