"""Extern functions on a GPU: their C as code of the device, or a refusal that names them."""

from __future__ import annotations

import numpy as np
import pytest

from backends import BuildError, build
from backends.gpu.device_text import device_text
from tensorir import ExternFunc, te

C = """\
#if defined(__AVX2__) && !defined(__clang__)
#include <immintrin.h>
static int ${NAME}_step(void) { return 8; }
#elif 1 < 2
static const i64 ${NAME}_by[2] = {1, 1};
inline int ${NAME}_step(void) { return (int)${NAME}_by[1]; }
#else
#error never
#endif
void $NAME(const $T0 *x, $T1 *y, i64 n) {
    for (i64 i = 0; i < n; i += ${NAME}_step())
        y[i] = $PUT1(_Generic(($V0)0, float: 2, default: 0) * $GET0(x[n - 1 - i]));
}"""


def func(c: str = C, dtype: str = "float16") -> ExternFunc:
    return ExternFunc(
        name="test.flip",
        signature="(n)->(n)",
        dtypes=[(dtype, dtype)],
        c=c,
        numpy=lambda x: 2 * x[::-1],
    )


def program(n: int = 5):
    a = te.placeholder((3, n), "float16", name="A")
    return te.create_prim_func([a, te.extern((3, n), a, "test.flip")], name="flip")


@pytest.mark.parametrize("n", [1, 5])
def test_c_runs_as_code_of_the_device(cache, extern_cleanup, n):
    extern_cleanup(func())
    a = np.arange(3 * n, dtype="float16").reshape(3, n)
    kernel = build(program(n), "cuda-emulator", cache=cache)
    np.testing.assert_array_equal(kernel(a), 2 * a[:, ::-1])
    assert "static __device__ const i64 extern_f16_test_flip_by[2]" in kernel.source
    assert "immintrin" not in kernel.source


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("void *p = malloc(8);", "malloc"),
        ("__builtin_prefetch(x);", "__builtin_prefetch"),
        ('__asm__("nop");', "__asm__"),
        ("\n#pragma omp parallel\n", "#"),
        ('printf("%f", *x);', "printf"),
    ],
)
def test_what_a_device_lacks_is_named(extern_cleanup, statement, word):
    extern_cleanup(func(C.replace("    for", f"    {statement}\n    for")))
    with pytest.raises(BuildError) as error:
        build(program(), "cuda-emulator")
    assert f"cannot run the extern function 'test.flip': its C uses '{word}'" in str(error.value)


def test_words_in_comments_do_not_matter():
    text = "static int f(void) { /* not malloc, # */ return 0; } // nor free"
    assert device_text("f", text, "cuda").startswith("static __device__ int f(void)")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("#ifdef A\nx\n#else\ny\n#endif", "y"),
        ("#ifndef A\nx\n#else\ny\n#endif", "x"),
        ("#if A > 1 || !defined(B)\nx\n#if A\ny\n#endif\n#endif\nz", "x\nz"),
        ("#if 0\n#if 1\nx\n#else\ny\n#endif\n#elif 2 > 1\nz\n#elif 1\nw\n#else\nv\n#endif", "z"),
    ],
)
def test_the_preprocessor_chooses_for_compilers_without_macros(text, kept):
    assert device_text("f", text, "cuda") == kept
