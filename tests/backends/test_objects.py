"""How often the compiler is run, and with which flags."""

from __future__ import annotations

import platform
import shutil
import threading

import numpy as np
import pytest
from fake_compilers import GCC, script

from backends import BuildError, ObjectCache, build, build_source, source_text
from backends.c import compiler as cc
from backends.c.flags import GCC_BITS_FLAGS, GLIBC_LIBRARIES, kernel_flags, libraries
from backends.c.objects import SUPPORT, Background
from backends.c.support import split_support
from tensorir import parse, te

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def add_one():
    a = te.placeholder((4,), "float32", name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    return te.create_prim_func([a, b], name="add_one")


@pytest.fixture()
def logged(monkeypatch, tmp_path):
    """A compiler that was never used before and notes its calls; gives the calls."""
    log, path = tmp_path / "log", tmp_path / "cc"
    monkeypatch.setenv("CC", script(path, f'echo "$*" >> {log}\nexec {GCC} "$@"'))
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_a_first_build_runs_the_compiler_four_times(logged, tmp_path):
    store = ObjectCache(tmp_path / "cache")
    kernel = build(add_one(), cache=store)
    assert (kernel(np.ones(4, np.float32)) == 2).all()
    calls = logged()
    assert len(calls) == 4, calls
    assert calls[0] == "--version"
    assert calls[1].endswith("-dM -E -x c -")
    assert all("-shared" in call for call in calls[2:])
    build(add_one(), name="again", cache=store)
    assert len(logged()) == 5


def test_an_object_in_the_cache_needs_no_compilation(logged, tmp_path):
    store = ObjectCache(tmp_path / "cache")
    build(add_one(), cache=store)
    before = len(logged())
    build(add_one(), cache=ObjectCache(tmp_path / "cache"))
    assert len(logged()) == before


def test_a_text_that_does_not_compile_is_tried_once(logged, tmp_path):
    with pytest.raises(BuildError, match="could not compile the kernel"):
        build_source(add_one(), "int add_one(", cache=ObjectCache(tmp_path / "cache"))
    assert len([c for c in logged() if "-march=native" in c and "-O2" in c]) == 1


def test_the_runtime_that_does_not_compile_is_an_error(logged, tmp_path, monkeypatch):
    broken = tmp_path / "broken.c"
    broken.write_text("int (")
    monkeypatch.setattr("backends.c.backend.RUNTIME_SOURCE", broken)
    with pytest.raises(BuildError, match="runtime.c"):
        build(add_one(), cache=ObjectCache(tmp_path / "cache"))


def test_work_in_the_background_returns_or_raises():
    assert Background(threading.get_ident).wait() != threading.get_ident()

    def fail():
        raise ValueError("no")

    work = Background(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            work.wait()


KEPT = """
@prim_func
def kept(A: f32[64], B: f32[64]):
    with alloc(T, f32[64], scope="local"):
        for i in unrolled(4):
            for j in vectorized(16):
                T[i * 16 + j] = A[i * 16 + j] * 2.0
        for i in KIND(64):
            B[i] = T[63 - i]
"""
"""What is kept in registers as vectors is stored as vectors, or element by element."""


@pytest.mark.parametrize(
    ("kind", "value", "searched", "moved"),
    [
        ("vectorized", "T[63 - i]", False, False), ("range", "T[63 - i]", True, True),
        ("range", "A[999 - i] * 2.0", False, False), ("unrolled", "2.0", False, True),
    ],
)  # fmt: skip
def test_gcc_makes_vectors_of_scalars_only_where_some_are_side_by_side(
    kind, value, searched, moved, logged, tmp_path
):
    size = "1000" if "999" in value else "64"  # loops as short are written out
    text = KEPT.replace("KIND", kind).replace("T[63 - i]", value).replace("64", size)
    kernel = build(parse(text), cache=ObjectCache(tmp_path / "cache"))
    given = np.arange(int(size), dtype=np.float32)
    assert (kernel(given) == (2 if value == "2.0" else 2 * given[::-1])).all()
    (call,) = (c for c in logged() if "-march=native" in c and "-shared" in c)
    assert ("-fno-tree-slp-vectorize" not in call) == searched
    assert ("-fno-tree-loop-distribute-patterns" not in call) == moved, "fills memory, or copies it"


@pytest.mark.parametrize("march", ["native", "haswell", "x86-64", "skylake-avx512"])
def test_bits_that_gcc_need_not_know_change_no_instruction(march):
    """But for the names of moves that are aligned, on processors where they take as long."""
    gcc = cc.named_compiler(("gcc",))
    if not cc.knows(gcc, march):
        pytest.skip(f"gcc makes no code for {march}")
    text = source_text(parse(KEPT.replace("KIND", "range")), f"c -march={march}")
    own, _ = split_support(text, SUPPORT)
    flags = kernel_flags(gcc, march, True, own)
    without = tuple(f for f in flags if f not in GCC_BITS_FLAGS)
    made, before = (cc.assembly(gcc, own, each, "kept") for each in (flags, without))
    assert made.replace("vmova", "vmovu") == before.replace("vmova", "vmovu")
    known = cc.macros(gcc, march)
    assert (flags != without) == ("__AVX__" in known or "__SSE__" not in known)


CALLED = """
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
static int less(const void *a, const void *b) { return *(float *)a < *(float *)b ? -1 : 1; }
static void forked(void) {}
int add_one(const float *A, float *B) {
    volatile __int128 whole = (__int128)1 << 100, part = (__int128)1 << 98;
    volatile double one = 1.0;
    struct stat found;
    if (pthread_atfork(0, 0, forked) || stat("/", &found) || !S_ISDIR(found.st_mode)) return 1;
    memcpy(B, A, 4 * (size_t)(whole / part));
    qsort(B, 4, 4, less);
    for (int i = 0; i < 4; i++) B[i] += (float)exp(one - 1.0);
    return 0;
}
"""
"""Of glibc and the part of it that is in no shared object, of libm and of libgcc."""


def test_kernels_call_what_libraries_have_that_the_process_loaded(logged, tmp_path):
    kernel = build_source(add_one(), CALLED, cache=ObjectCache(tmp_path / "cache"))
    linked = [call for call in logged() if "-march=native" in call and "-shared" in call]
    expected = libraries(cc.find_compiler(), "native")
    assert len(linked) == 1 and linked[0].endswith(" ".join(expected))
    if platform.libc_ver()[0] == "glibc":
        assert expected == GLIBC_LIBRARIES
    assert kernel(np.array([3, 1, 2, 0], np.float32)).tolist() == [1, 2, 3, 4]


def test_compilers_for_other_libraries_link_with_all_of_theirs(monkeypatch):
    gcc = cc.named_compiler((GCC,))
    own = frozenset({"__GNUC__", "__x86_64__"})
    for known in (own, own | {"__gnu_linux__", "__clang__"}):
        monkeypatch.setattr("backends.c.flags.macros", lambda *_, known=known: known)
        assert libraries(gcc, "native") == cc.LIBRARIES
    assert libraries(gcc, None) == cc.LIBRARIES
