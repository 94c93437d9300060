"""Extern functions on a GPU: their C as code of the device, or a refusal that names them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from backends import BuildError, build, extern_runner, register_extern
from backends.gpu import externs
from backends.gpu.device_text import device_text
from tensorir import EXTERNS, ExternFunc, TensorIRError, check_extern, find_extern, ops, te

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


CHOSEN = """\
void $NAME(const $T0 *x, $T1 *y, i64 n) {
    for (i64 i = 0; i < n; i++)
#ifdef __GNUC__
        y[i] = $PUT1(2 * $GET0(x[n - 1 - i]));
#else
        { STATEMENT }
#endif
}"""
"""Right in C; what a GPU gets is another matter."""

EMULATOR = "cuda-emulator"
RIGHT = "y[i] = $PUT1(2 * $GET0(x[n - 1 - i]));"


@pytest.mark.parametrize(
    ("statement", "message", "target"),
    [
        ("y[i] = $PUT1($GET0(x[i]));", r"code for GPUs makes element \[\d\] of output 0", "cuda"),
        (f"if (i != 5) {RIGHT}", r"code for GPUs makes element \[5\] of output 0", EMULATOR),
        (f"{RIGHT} y[n] = 0;", "its code for GPUs writes outside of an output", EMULATOR),
        (f"{RIGHT} (($T0 *)x)[i] = 1;", "its code for GPUs writes into an input", EMULATOR),
        ("y[i] = no_such_thing;", "no_such_thing", EMULATOR),
    ],
)
def test_code_for_gpus_is_checked_before_a_gpu_runs_it(
    extern_cleanup, cache, statement, message, target
):
    wrong = func(CHOSEN.replace("STATEMENT", statement))
    register_extern(wrong)
    for _ in range(2):
        with pytest.raises(TensorIRError, match=f"(?s)extern function 'test.flip'.*{message}"):
            build(program(), target, cache=cache)
    np.testing.assert_array_equal(build(program(), cache=cache)(np.ones((3, 5), "f2")), 2)
    EXTERNS.pop("test.flip")
    with pytest.raises((TensorIRError, BuildError), match="test.flip|no_such_thing"):
        register_extern(wrong, "cuda-emulator")
    assert "test.flip" not in EXTERNS


def test_code_for_gpus_is_checked_once(extern_cleanup, monkeypatch, cache):
    looked = []
    monkeypatch.setattr(externs, "check_extern", lambda f, *_: looked.append(f.name))
    extern_cleanup(func(CHOSEN.replace("STATEMENT", RIGHT)))
    for name in ("one", "two"):
        build(program(), "cuda-emulator", name=name, cache=cache)
    build(ops.prim_func("sort", 1), "cuda-emulator", cache=cache)
    assert looked == ["test.flip"]  # those that come along are checked by tests


def test_what_registering_checked_for_gpus_is_not_checked_again(extern_cleanup, monkeypatch, cache):
    register_extern(func(CHOSEN.replace("STATEMENT", RIGHT)), "cuda-emulator")
    monkeypatch.setattr(externs, "check_extern", None)
    build(program(), "cuda-emulator", cache=cache)


def test_without_a_compiler_for_the_emulator_it_is_said(extern_cleanup, monkeypatch, cache):
    extern_cleanup(func(CHOSEN.replace("STATEMENT", RIGHT)))

    module = sys.modules["backends.build"]
    monkeypatch.setattr(module, "why_not_here", lambda target: "no C++ compiler found")
    with pytest.warns(externs.UncheckedExtern, match="of extern function 'test.flip' is not check"):
        build(program(), "cuda -arch=sm_80", cache=cache)


@pytest.mark.parametrize("name", ["sort", "argsort", "topk"])
def test_built_in_functions_do_on_gpus_what_they_say(name):
    called = find_extern(name)
    rows = [row for row in called.dtypes if row[0] in ("float16", "uint8")]
    check_extern(called, extern_runner("cuda-emulator"), rows[:2])


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
