"""Tensor intrinsics of AArch64: fused multiply-adds by a lane, and dot products of bytes."""

from __future__ import annotations

from tensorir.tensor_intrins.meanings import dot, outer
from tensorir.tensorize.tensor_intrin import TensorIntrin

_FMLA = """\
static inline void $NAME(const float *a, const float *b, float *c, i64 c_step) {
    typedef float lanes __attribute__((vector_size(16)));
    typedef float row __attribute__((vector_size(16), aligned(4), may_alias));
    const lanes x = *(const row *)a, y = *(const row *)b;
    *(row *)c += x[0] * y; /* fmla takes a lane as its factor */
    *(row *)(c + c_step) += x[1] * y;
    *(row *)(c + 2 * c_step) += x[2] * y;
    *(row *)(c + 3 * c_step) += x[3] * y;
}"""

_DOT = """\
static inline void $NAME(const {kind} *a, const {kind} *b, {total} *c, i64 b_step) {{
    typedef int lanes __attribute__((vector_size(16)));
    typedef int unaligned __attribute__((vector_size(16), aligned(1), may_alias));
    int word;
    (void)b_step;
    __builtin_memcpy(&word, a, 4);
    const lanes x = word - (lanes){{0}}, y = *(const unaligned *)b;
    lanes z = *(const unaligned *)c;
    /* With vdotq from arm_neon.h, gcc 12 copies sums from register to register in a loop. */
    __asm__("{name} %0.4s, %1.16b, %2.16b" : "+w"(z) : "w"(y), "w"(x));
    *(unaligned *)c = z;
}}"""


def _dot(name: str, kind: str, total: str) -> TensorIntrin:
    """Exact: the sum of four products is added to a sum that wraps."""
    source = _DOT.format(name=name, kind=kind, total=total)
    meaning = dot(kind, kind, total, 4, 4)
    needs = "arm_feature_dotprod"
    return TensorIntrin(f"{kind}{kind}.dot_4x4", meaning, source, needs, {"B": (4,)})


FMLA = TensorIntrin("f32.fmla_4x4", outer("f32", 4, 4, dense=True), _FMLA, "arm_neon")

INTRINSICS = (FMLA, _dot("sdot", "i8", "i32"), _dot("udot", "u8", "u32"))
