"""The stages of build, the compiler, and what goes wrong there."""

from __future__ import annotations

import copy
import os
import shutil
import stat
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from fake_compilers import wait_dead

from backends import (
    BuildError,
    ObjectCache,
    build,
    build_source,
    compiler_info,
    have_compiler,
    resolve,
)
from backends.build import BACKENDS, backend_of
from backends.c import compiler as cc
from tensorir import (
    Block,
    Buffer,
    For,
    ForKind,
    IterKind,
    IterVar,
    PrimFunc,
    Store,
    Target,
    TensorIRError,
    Var,
    VerifyError,
    const,
    parse,
)

AXIS = Var("i")
A, C = Buffer("A", (64,), "float32"), Buffer("C", (64,), "float32")
BODY = Store(C, (AXIS,), A[AXIS] * 2.0)
FUNC = PrimFunc("twice", (A, C), (), For(AXIS, const(64), BODY))
TEXT = """\
int twice(const float *a, float *c) {
  for (int i = 0; i < 64; i++) c[i] = 2 * a[i];
  return 0;
}
"""
ONES = np.ones(64, np.float32)


@pytest.fixture(autouse=True)
def plain_gcc(monkeypatch):
    monkeypatch.delenv("CC", raising=False)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_build_and_look_at_every_stage(cache):
    kernel = build(FUNC, cache=cache)
    assert (kernel(ONES) == 2).all()
    assert kernel.func is FUNC
    assert isinstance(kernel.ir, PrimFunc)
    assert "twice(" in kernel.source
    assert "twice:" in kernel.asm
    assert repr(kernel) == "<kernel twice(A: f32[64], C: f32[64]) for c>"


MATMUL = """\
@prim_func
def matmul(A: f32[n, 24], B: f32[24, m], C: f32[n, m]):
    for i, j, k in grid(n, m, 24):
        with block("C"):
            vi = spatial(n, i)
            vj = spatial(m, j)
            vk = reduce(24, k)
            with init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_a_program_of_blocks_with_symbolic_sizes(cache):
    kernel = build(parse(MATMUL), cache=cache)
    rng = np.random.default_rng(0)
    for n, m in ((5, 7), (1, 16), (0, 3)):
        a, b = (rng.random(s, np.float32) for s in ((n, 24), (24, m)))
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert len(kernel.time(repeats=2, min_ms=0.1, sizes={"n": 4, "m": 8}).times) == 2


def test_an_edited_source_takes_the_place_of_the_kernel(cache):
    func = parse(MATMUL)
    source = build(func, cache=cache).source.replace("= 0.0f", "= 1.0f")
    kernel = build_source(func, source, cache=cache)
    a, b = np.ones((2, 24), np.float32), np.ones((24, 3), np.float32)
    np.testing.assert_array_equal(kernel(a, b), np.full((2, 3), 25))


def test_schedules_are_built_by_their_func(cache):
    assert (build(types.SimpleNamespace(func=FUNC), cache=cache)(ONES) == 2).all()
    with pytest.raises(TensorIRError, match="cannot build 3 of type int; pass a PrimFunc"):
        build(3)


def test_arguments_are_those_of_the_program():
    with pytest.raises(TensorIRError, match=r"te.create_schedule\(ops, args=\[A, B, C\]\)"):
        build(FUNC, [A, C])


def test_a_program_that_leaves_its_buffer_is_not_built(cache):
    row = Var("vi")
    store = Store(C, (row,), A[row + 1])
    iters = (IterVar(row, const(64), IterKind.SPATIAL, AXIS),)
    bad = PrimFunc("bad", (A, C), (), For(AXIS, const(64), Block("C", iters, store)))
    with pytest.raises(VerifyError, match="A"):
        build(bad, cache=cache)


def test_a_kernel_may_have_another_name(cache):
    kernel = build(FUNC, name="renamed", cache=cache)
    assert kernel.name == "renamed"
    assert "renamed(" in kernel.source
    with pytest.raises(TensorIRError, match="^renamed: "):
        kernel(ONES, ONES, ONES)


def test_parallel_loops_run_with_a_number_of_threads(cache):
    func = PrimFunc("many", (A, C), (), For(AXIS, const(64), BODY, kind=ForKind.PARALLEL))
    kernel = build(func, "c -threads=2", cache=cache)
    assert kernel.target.threads == 2
    assert (kernel(ONES) == 2).all()


def test_resolve_asks_the_compiler():
    haswell = resolve("c -march=haswell")
    assert haswell.vector_bits == 256
    assert {"avx2", "fma"} <= set(haswell.features)
    assert "avx512f" not in haswell.features
    assert resolve("c -march=skylake-avx512").vector_bits == 512
    assert resolve("c -march=x86-64").vector_bits == 128
    assert resolve("c -march=haswell -vector_bits=128").vector_bits == 128
    assert resolve(haswell) == haswell
    assert Target.parse(str(haswell)) == haswell


def test_kernels_have_a_resolved_target(cache):
    kernel = build_source(FUNC, TEXT, "c", cache=cache)
    assert kernel.target.vector_bits in (128, 256, 512)


def test_an_unknown_processor_is_refused():
    with pytest.raises(BuildError) as error:
        resolve("c -march=z80")
    assert "gcc does not know the processor -march=z80" in str(error.value)
    assert "z80" in error.value.output


def test_a_kind_without_backend_is_refused(monkeypatch):
    monkeypatch.delitem(BACKENDS, "opencl")
    backend_of.cache_clear()
    with pytest.raises(BuildError, match="'opencl' has no backend here; build for one of c, "):
        build(FUNC, "opencl")


def test_a_kernel_for_another_processor_is_compiled_but_not_run(cache):
    here = set(resolve("c").features)
    candidates = ("sapphirerapids", "knl", "skylake-avx512")
    others = [m for m in candidates if set(resolve(f"c -march={m}").features) - here]
    if not others:
        pytest.skip("this processor has everything")
    kernel = build_source(FUNC, TEXT, f"c -march={others[0]}", cache=cache)
    assert "twice:" in kernel.asm
    for use in (lambda: kernel(ONES), lambda: kernel.time(repeats=1)):
        with pytest.raises(
            TensorIRError, match=f"built for .*{others[0]}.* and this processor lacks"
        ):
            use()


def test_what_the_compiler_says_is_in_the_error(cache):
    with pytest.raises(BuildError) as error:
        build_source(FUNC, TEXT.replace("2 * a", "2 * missing"), cache=cache)
    assert "twice: gcc could not compile the kernel" in str(error.value)
    assert "missing" in error.value.output
    assert "missing" in error.value.source
    assert "-O2" in error.value.command
    assert "-ffast-math" not in error.value.command


def test_a_long_message_is_shortened_only_in_print():
    error = BuildError("k: failed", ("gcc",), "\n".join(map(str, range(1000))), "a\nb\n")
    assert len(str(error).splitlines()) < 25
    assert "984 more lines in the error's .output" in str(error)
    assert error.output.endswith("999")


def test_a_second_build_does_not_compile(cache, monkeypatch):
    build_source(FUNC, TEXT, cache=cache)

    def compile_shared(*args, **options):
        raise AssertionError("compiled again")

    monkeypatch.setattr(cc, "compile_shared", compile_shared)
    assert (build_source(FUNC, TEXT, cache=cache)(ONES) == 2).all()
    with pytest.raises(AssertionError, match="compiled again"):
        build_source(FUNC, TEXT, "c -march=x86-64", cache=cache)


def test_a_damaged_object_is_compiled_again(tmp_path):
    store = ObjectCache(tmp_path)
    kernel = build_source(FUNC, TEXT, cache=store)
    for path in tmp_path.rglob("*.so"):
        os.unlink(path)  # not written over: it is mapped
        path.write_bytes(b"\x7fELF")
    assert (build_source(FUNC, TEXT, cache=store)(ONES) == 2).all()
    assert (kernel(ONES) == 2).all()


def test_an_intact_file_that_does_not_load_is_made_again(tmp_path):
    store = ObjectCache(tmp_path)
    build_source(FUNC, TEXT, cache=store)
    for path in list(tmp_path.rglob("*.so")):
        path.unlink()
        store.add(path.name.split(".")[0], lambda draft: draft.write_bytes(b"for another system"))
    assert (build_source(FUNC, TEXT, cache=store)(ONES) == 2).all()


def test_an_object_that_never_loads_is_an_error(tmp_path):
    text = "extern int nowhere(void);\n" + TEXT.replace("2 * a[i]", "nowhere()")
    with pytest.raises(BuildError, match="twice: the compiled object does not load: .*nowhere"):
        build_source(FUNC, text, cache=ObjectCache(tmp_path))


def test_the_compiler_in_cc_may_have_arguments(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "gcc -DFACTOR=3")
    text = TEXT.replace("2 *", "FACTOR *")
    assert (build_source(FUNC, text, cache=ObjectCache(tmp_path))(ONES) == 3).all()


def test_compiler_info():
    info = compiler_info("c -march=haswell")
    assert info["command"] == ["gcc"]
    assert "gcc" in info["version"]
    assert {"-O2", "-march=haswell", "-fopenmp"} <= set(info["flags"])
    assert "avx2" in info["features"]
    assert have_compiler()


def test_a_wrong_cc_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O3")
    with pytest.raises(BuildError, match="CC is 'no-such-compiler -O3', and there is no such"):
        resolve("c")
    assert not have_compiler()


def test_without_any_compiler_the_remedy_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="no C compiler found: install gcc or clang .*apt install"):
        resolve("c")


def test_gcc_is_taken_before_clang(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    more = tmp_path / "more"
    more.mkdir()
    script(tmp_path / "clang", "echo clang version 99")
    script(more / "gcc", "echo gcc 77")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cc.find_compiler().version == "clang version 99"
    monkeypatch.setenv("PATH", f"{tmp_path}:{more}")
    assert cc.find_compiler().name == "gcc"


def test_a_compiler_that_hangs_is_stopped_with_its_children(monkeypatch, tmp_path):
    gcc = shutil.which("gcc")
    sleep = f"sleep 30 & echo $! > {tmp_path}/child; wait"
    hanging = f'case "$*" in *-shared*) {sleep};; *) {gcc} "$@";; esac'
    monkeypatch.setenv("CC", script(tmp_path / "slow-cc", hanging))
    start = time.monotonic()
    with pytest.raises(BuildError, match=r"slow-cc took longer than 1 s; raise timeout="):
        cc.compile_shared(cc.find_compiler(), TEXT, tmp_path / "x.so", (), "twice", timeout=1.0)
    assert time.monotonic() - start < 25
    child = int((tmp_path / "child").read_text())
    assert wait_dead(child)


def test_a_compiler_without_openmp_makes_serial_kernels(monkeypatch, tmp_path):
    gcc = shutil.which("gcc")
    refuse = f'case "$*" in *-fopenmp*) echo unsupported >&2; exit 1;; *) {gcc} "$@";; esac'
    monkeypatch.setenv("CC", script(tmp_path / "plain-cc", refuse))
    store = ObjectCache(tmp_path / "cache")
    with pytest.warns(UserWarning, match="plain-cc has no OpenMP .* parallel loops run on one"):
        kernel = build_source(FUNC, TEXT, cache=store)
    assert (kernel(ONES) == 2).all()
    assert (build_source(FUNC, TEXT, cache=store)(ONES) == 2).all()  # and no second warning


def test_two_processes_share_a_cache(tmp_path):
    program = (
        "import numpy as np, sys; sys.path.insert(0, sys.argv[1]); from backends import *;"
        "from tensorir import *;"
        "A = te.placeholder((4,), name='A'); C = te.compute((4,), lambda i: A[i] + 1.0, name='C');"
        "f = te.create_prim_func([A, C], name='one');"
        "k = build_source(f, 'int one(const float *a, float *c) {"
        " for (int i = 0; i < 4; i++) c[i] = a[i] + 1; return 0; }');"
        "assert (k(np.zeros(4, np.float32)) == 1).all()"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = {**os.environ, "TENSORIR_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", program, root]
    running = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [p.wait() for p in running] == [0, 0]
    assert len(list(tmp_path.rglob("*.so"))) == 2  # the kernel and the runtime
    assert not list(tmp_path.rglob("*.tmp"))


def test_copies_of_what_holds_a_kernel_hold_it_too(cache):
    kernel = build_source(FUNC, TEXT, cache=cache)
    assert copy.deepcopy({"layer": [kernel]})["layer"][0] is copy.copy(kernel) is kernel


def test_kernels_are_not_pickled(cache):
    import pickle

    with pytest.raises(TensorIRError, match="'twice' cannot be pickled; send its func"):
        pickle.dumps(build_source(FUNC, TEXT, cache=cache))
