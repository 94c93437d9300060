"""The emitter of GPUs: what it refuses, which shuffle an exchange is, and what lines are of."""

from __future__ import annotations

import pytest
from spmd_programs import PROGRAMS

from backends import BuildError
from backends.cuda.text import LineTable, cuda_text
from tensorir import Buffer, For, ForKind, PrimFunc, Store, Target, Var, const, seq
from tensorir.text.parser import parse

TARGET = Target("cuda", arch="sm_90a")


def body(code: str, threads: str = 't in thread("threadIdx.x", 32)', params: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    text = f"@prim_func\ndef f(A: f32[64], B: f32[64]{params}):\n    for {threads}:\n{lines}"
    source = cuda_text(parse(text), TARGET).source
    return source[source.index('extern "C"') :]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("with alloc(T, f32[64]):\n    T[t] = A[t]", "'global' cannot be in a kernel"),
        ("with alloc(T, f32[t], scope='local'):\n    T[0] = A[t]", "of constant size"),
        ("B[ramp(t, 1, 8)] = A[ramp(t, 1, 8)]", "is 32 bytes, and a thread accesses 16 at once"),
        ("if A[ramp(t, 1, 4)] < B[ramp(t, 1, 4)]:\n    B[t] = 0.0", "the condition .* is a vector"),
        ("with block('b'):\n    v = spatial(32, t)\n    B[v] = 0.0", "'v' is no number among the"),
    ],
)
def test_what_lowering_must_not_leave_is_refused(code, message):
    with pytest.raises(BuildError, match=message):
        body(code)


def test_buffers_of_two_dimensions_are_refused():
    with pytest.raises(BuildError, match="buffer 'C' has 2 indices; lower the program first"):
        body("C[t, 0] = 0.0", params=", C: f32[32, 2]")


@pytest.mark.parametrize(
    ("source", "threads", "call"),
    [
        ("t ^ 4", 32, "ti_shuffle_xor(A[t], 4)"),
        ("16 ^ t % 32", 64, "ti_shuffle_xor(A[t], 16)"),
        ("t ^ 4", 64, "ti_shuffle(A[t], t ^ 4)"),  # lanes of the second warp are not t
        ("(t & 31) ^ 2", 48, "ti_shuffle_xor(A[t], 2)"),
        ("select(t + 3 < 32, t + 3, t)", 32, "ti_shuffle_down(A[t], 3)"),
        ("select(t < 29, t + 3, t)", 32, "ti_shuffle_down(A[t], 3)"),
        ("select(t < 28, t + 3, t)", 32, "ti_shuffle(A[t], t < 28 ? t + 3 : t)"),
        ("t // 2", 32, "ti_shuffle(A[t], t >> 1)"),
        ("0", 32, "ti_shuffle(A[t], 0)"),
    ],
)
def test_an_exchange_is_the_shuffle_that_it_is(source, threads, call):
    code = f"with alloc(L, f32[1], scope='local'):\n    L[0] = exchange(A[t], {source})"
    text = body(code, f't in thread("threadIdx.x", {threads})')
    assert f"L[0] = {call};" in text


@pytest.mark.parametrize(
    ("width", "source", "call"),
    [
        (8, "(t + u * 8) % 32 ^ 1", "ti_shuffle_xor(A[t], 1)"),
        (32, "t ^ 1", "ti_shuffle_xor(A[t], 1)"),
        (8, "t ^ 1", "ti_shuffle(A[t], t ^ 1)"),
    ],
)
def test_lanes_are_counted_along_all_axes(width, source, call):
    text = f"""
@prim_func
def f(A: f32[64], B: f32[64]):
    for u in thread("threadIdx.y", 4):
        for t in thread("threadIdx.x", {width}):
            with alloc(L, f32[1], scope="local"):
                L[0] = exchange(A[t], {source})
                B[t] = L[0]
"""
    assert f"L[0] = {call};" in cuda_text(parse(text), TARGET).source


def test_each_line_knows_its_statement():
    text = cuda_text(parse(PROGRAMS["matmul"].text), TARGET)
    lines = text.source.splitlines()
    found = {lines[n - 1].strip(): str(origin) for n, origin in text.origins.items()}
    (product,) = (line for line in found if line.startswith("acc[i * 4 + j] +="))
    where = "kernel 'matmul_0', loops by, bx, ty, tx, k, kk, i, j"
    assert found[product].startswith(f"{where}: acc[i * 4 + j] = acc[i * 4 + j] + As[")
    first = next(n for n, line in enumerate(lines, 1) if line.startswith('extern "C"'))
    assert set(text.origins) == set(range(first, len(lines) + 1))
    assert found["ti_sync();"].endswith('loops by, bx, ty, tx, k: sync("block")')


def test_of_an_edited_text_no_line_is_known():
    func = parse(PROGRAMS["scale"].text)
    text = cuda_text(func, TARGET)
    assert len(LineTable(text.source, lambda: cuda_text(func, TARGET))) == len(text.origins)
    assert dict(LineTable(text.source + "\n", lambda: cuda_text(func, TARGET))) == {}


@pytest.mark.parametrize(
    "names",
    [
        ("int", "float", "threadIdx"),
        ("f32", "exp", "nullptr"),
        ("ti_arena", "dim3", "f_0"),
        ("A", "B", "A"),
        ("blockIdx", "float4", "and"),
    ],
)
def test_names_that_cuda_knows_are_changed(emulated_run, names):
    a, b, i = names
    x, y, v = Buffer(a, (4,), "float32"), Buffer(b, (4,), "float32"), Var(i)
    store = seq(Store(y, (v,), x[v]))
    loop = For(v, const(4), store, ForKind.THREAD, {}, "threadIdx.x")
    emulated_run(PrimFunc("f", (x, y), (), loop))


def test_data_wrap_and_indices_do_not_care():
    text = body(
        "with let(k, i32(t)):\n    C[t] = I[t] * I[t + 1] + i32(t)",
        params=", I: i32[64], C: i32[64]",
    )
    assert "(int)((u32)(int)((u32)I[t] * (u32)I[t + 1]) + (u32)(int)t)" in text
    assert "I[t + 1]" in text
