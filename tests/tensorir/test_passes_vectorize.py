"""Vectors, straight-line code, registers, and the final cleaning."""

from __future__ import annotations

from importlib import import_module

import pytest

from tensorir import Buffer, For, Load, PrimFunc, Store, Var, children, const
from tensorir.passes import simplify, unroll, vector_locals, vectorize
from tensorir.text.parser import parse


def func_of(body: str) -> PrimFunc:
    params = "A: f32[1000], B: f32[1000], C: f32[1000], H: f16[1000], D: f64[1000], I: i64[1000]"
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return parse(f"@prim_func\ndef f({params}):\n{lines}")


def body_of(func: PrimFunc) -> str:
    return "\n".join(line[4:] for line in str(func).splitlines()[2:])


def vectors(body: str, bits: int = 128) -> str:
    return body_of(simplify(vectorize(func_of(body), bits)))


def loop(statement: str, extent: int = 4) -> str:
    return f"for i in parallel(5):\n    for j in vectorized({extent}):\n        {statement}"


def one(statement: str) -> str:
    text = vectors(loop(statement))
    assert text.startswith("for i in parallel(5):\n    ")
    return text.removeprefix("for i in parallel(5):\n    ")


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("C[i * 4 + j] = A[i]", "C[ramp(i * 4, 1, 4)] = broadcast(A[i], 4)"),
        ("C[j * 5 + i] = A[3 - j]", "C[ramp(i, 5, 4)] = A[ramp(3, -1, 4)]"),
        ("C[i] = A[i]", "C[i] = A[i]"),
        ("C[j] = A[(i * 4 + j) // 8]", "C[ramp(0, 1, 4)] = broadcast(A[i // 2], 4)"),
        ("C[j] = A[(i * 4 + j) % 8]", "C[ramp(0, 1, 4)] = A[ramp(i % 2 * 4, 1, 4)]"),
        ("C[j] = A[I[j]]", "C[ramp(0, 1, 4)] = A[I[ramp(0, 1, 4)]]"),
        ("C[j] = exp(A[j])", "C[ramp(0, 1, 4)] = exp(A[ramp(0, 1, 4)])"),
        ("C[j] = f32(j)", "C[ramp(0, 1, 4)] = f32x4(ramp(i32(0), i32(1), 4))"),
        ("C[j] = f32(i32(j * 3 + i))", "C[ramp(0, 1, 4)] = f32x4(ramp(i32(i), i32(3), 4))"),
        ("C[j] = f32(i8(j * 99))", "C[ramp(0, 1, 4)] = f32x4(i8x4(ramp(0, 99, 4)))"),
        (
            "C[j] = select(A[j] < B[i], A[j], 0.0)",
            "C[ramp(0, 1, 4)] = select(A[ramp(0, 1, 4)] < broadcast(B[i], 4), "
            "A[ramp(0, 1, 4)], broadcast(0.0, 4))",
        ),
        (
            "C[j] = select(i < 2, A[j], 0.0)",
            "C[ramp(0, 1, 4)] = select(i < 2, A[ramp(0, 1, 4)], broadcast(0.0, 4))",
        ),
        (  # what data decide is guessed half of the time
            "C[j] = select(B[i] < 0.5, A[j], 0.0)",
            "C[ramp(0, 1, 4)] = select(broadcast(B[i] < 0.5, 4), A[ramp(0, 1, 4)], "
            "broadcast(0.0, 4))",
        ),
        (  # but a side may not exist,
            "C[j] = select(I[i] < 900, A[I[i] + j], 0.0)",
            "C[ramp(0, 1, 4)] = select(I[i] < 900, A[ramp(I[i], 1, 4)], broadcast(0.0, 4))",
        ),
        (
            "C[j] = f32(select(I[i] < 1, I[j], I[j] // I[i]))",
            "for j in unrolled(2):\n        C[ramp(j * 2, 1, 2)] = f32x2(select(I[i] < 1, "
            "I[ramp(j * 2, 1, 2)], I[ramp(j * 2, 1, 2)] // broadcast(I[i], 2)))",
        ),
        (  # or take long
            "C[j] = select(B[i] < 0.5, exp(A[j]), 0.0)",
            "C[ramp(0, 1, 4)] = select(B[i] < 0.5, exp(A[ramp(0, 1, 4)]), broadcast(0.0, 4))",
        ),
    ],
)
def test_statements(statement: str, expected: str) -> None:
    assert one(statement) == expected


def test_lanes_of_padding_load_what_exists() -> None:
    assert one("C[i * 4 + j] = select(1 <= i * 4 + j, A[i * 4 + j - 1], 0.0)") == (
        "C[ramp(i * 4, 1, 4)] = select(broadcast(i32(max(1, i * 4 - 1) - i * 4), 4) "
        "<= ramp(i32(0), i32(1), 4), "
        "A[max(ramp(i * 4 - 1, 1, 4), broadcast(0, 4))], broadcast(0.0, 4))"
    )


def test_condition_is_decided_per_vector() -> None:
    text = vectors(loop("C[j] = select(j < 6, A[j], 0.0)", 12))
    assert text.count("select") == 1
    assert "C[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]" in text
    assert "C[ramp(8, 1, 4)] = broadcast(0.0, 4)" in text


def test_chunks_and_remainder() -> None:
    assert vectors("for j in vectorized(15):\n    C[j] = A[j]") == "\n".join(
        [
            "for j in unrolled(3):",
            "    C[ramp(j * 4, 1, 4)] = A[ramp(j * 4, 1, 4)]",
            "C[ramp(12, 1, 2)] = A[ramp(12, 1, 2)]",
            "C[14] = A[14]",
        ]
    )


def test_long_loops_stay_loops() -> None:
    assert vectors("for j in vectorized(400):\n    C[j] = 0.0").startswith("for j in range(100):")


@pytest.mark.parametrize(
    "statement, bits, lanes",
    [
        ("C[j] = A[j]", 512, 16),
        ("D[j] = f64(A[j])", 512, 8),
        ("H[j] = f16(A[j])", 256, 8),
        ("H[j] = H[j]", 128, 8),
        ("H[j] = f16(bf16(H[j]))", 256, 8),
        ("C[j] = D[i]", 128, 2),
    ],
)
def test_lanes_follow_the_widest_type(statement: str, bits: int, lanes: int) -> None:
    text = vectors(loop(statement.replace("D[i]", "f32(D[i])"), 16), bits)
    assert f", 1, {lanes})]" in text


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "kind, by, lanes",
    [
        ("unrolled", "u8(k)", 64), ("unrolled", "u8(k * 2 + 1) % u8(8)", 64),
        ("range", "u8(k)", 16), ("unrolled", "u8(k + j)", 16), ("unrolled", "S[j + k]", 16),
    ],
)  # fmt: skip
def test_shifts_by_what_is_written_out_are_by_numbers(inside, kind, by, lanes) -> None:
    """Bytes are shifted in their own lanes by a number, and by lanes in those of 32 bits."""
    loops = [f"for k in {kind}(3):", "for j in vectorized(64):"]
    first, second = loops[::-1] if inside else loops
    func = parse(
        f"@prim_func\ndef f(S: u8[67], T: u8[64, 3]):\n    {first}\n        {second}\n"
        f"            T[j, k] = S[j] << {by}"
    )
    assert f"S[ramp(0, 1, {lanes})]" in body_of(simplify(unroll(vectorize(func, 512))))


@pytest.mark.parametrize(
    "statement",
    [
        "C[i] = C[i] + A[j]",
        "C[i] = A[j]",
        "C[i] = C[i] + 1.0",
        "I[j] = select(0 < I[j], 7 // I[j], 1)",
    ],
)
def test_what_runs_lane_by_lane(statement: str) -> None:
    text = one(statement)
    assert "ramp" not in text
    assert text.startswith("for j_lane in range(4):" if statement[0] == "C" else "for j")


def test_if_of_a_lane_runs_lane_by_lane_and_of_all_lanes_does_not() -> None:
    text = one("if I[j] < 3:\n            C[j] = 0.0")
    assert "ramp" not in text
    assert one("if I[i] < 3:\n            C[j] = 0.0").startswith("if I[i] < 3:\n")


def test_let_becomes_a_vector() -> None:
    text = one("with let(x, A[j]):\n            C[j] = x * x")
    assert text.splitlines()[0] == "with let(x, A[ramp(0, 1, 4)]):"
    assert text.splitlines()[1].strip() == "C[ramp(0, 1, 4)] = x * x"


def test_let_that_cannot_be_a_vector() -> None:
    text = one("with let(x, A[j]):\n            C[i] = C[i] + x")
    assert "j_lane" in text and "with let(x, A[j_lane]):" in text


def test_loop_inside_stays() -> None:
    text = one("for k in range(9):\n            C[j] = C[j] + A[k]")
    assert text.startswith("for k in range(9):")
    assert "C[ramp(0, 1, 4)] = C[ramp(0, 1, 4)] + broadcast(A[k], 4)" in text


def test_symbolic_or_triangular_extent_is_serial() -> None:
    body = "for i in range(5):\n    for j in vectorized(i + 1):\n        C[j] = 0.0"
    assert vectors(body) == "for i in range(5):\n    for j in range(i + 1):\n        C[j] = 0.0"
    body = "for j in vectorized(4):\n    for i in range(j):\n        C[i * 4 + j] = 0.0"
    assert "ramp" not in vectors(body)


@pytest.mark.parametrize("many, written", [(60, True), (61, False)])
def test_loops_that_stay_count_as_much_as_they_cost(many: int, written: bool) -> None:
    """Compilers take hundreds of times longer for a thousand loops than for one."""
    nest = f"for i in unrolled({many}):\n    for j in range(100):\n        C[i] = f32(j)"
    text = body_of(unroll(func_of(nest)))
    assert text.count("C[") == (many if written else 1)
    assert "unrolled" not in text


def test_what_users_want_written_out_counts_no_loops() -> None:
    """A longer one is left to the compiler, with a pragma."""
    head = 'for i in unrolled(61, annotations={"unroll_limit": %d}):'
    nest = head + "\n    for j in range(100):\n        C[i] = f32(j)"
    assert body_of(unroll(func_of(nest % 61))).count("C[") == 61
    func = func_of(nest % 60)
    assert unroll(func) is func


def test_unrolls_innermost_first_and_not_too_much() -> None:
    nest = "for i in unrolled(3):\n    for j in unrolled(2):\n        C[i * 2 + j] = 0.0"
    func = unroll(func_of(nest))
    assert body_of(func) == "\n".join(f"C[{n}] = 0.0" for n in range(6))
    text = body_of(
        unroll(func_of("for i in unrolled(200):\n    for j in unrolled(6):\n        C[i] = f32(j)"))
    )
    assert text.count("\n") == 6 and text.startswith("for i in range(200):")


def locals_of(body: str) -> str:
    return body_of(simplify(vector_locals(simplify(func_of(body)))))


def test_vector_type_where_all_accesses_are_aligned() -> None:
    text = locals_of(
        """
with alloc(T, f32[32], scope="local"):
    for i in range(8):
        T[ramp(i * 4, 1, 4)] = A[ramp(i * 4, 1, 4)]
    C[ramp(0, 1, 4)] = T[ramp(28, 1, 4)]
"""
    )
    assert 'with alloc(T, f32x4[8], scope="local"):' in text
    assert "T[i] = A[ramp(i * 4, 1, 4)]" in text and "= T[7]" in text


def test_one_buffer_for_each_number_of_lanes() -> None:
    text = locals_of(
        """
with alloc(T, f32[14], scope="local"):
    T[ramp(0, 1, 4)] = broadcast(0.0, 4)
    T[ramp(7, 1, 4)] = broadcast(1.0, 4)
    T[ramp(4, 1, 2)] = broadcast(2.0, 2)
    T[6] = 3.0
    C[ramp(0, 1, 4)] = T[ramp(7, 1, 4)] + T[ramp(0, 1, 4)]
    C[ramp(4, 1, 2)] = T[ramp(4, 1, 2)]
    C[6] = T[6]
"""
    )
    for line in ("T_x1, f32[1]", "T_x2, f32x2[1]", "T_x4, f32x4[2]", "= T_x4[1] + T_x4[0]"):
        assert line in text


@pytest.mark.parametrize(
    "statement",
    [
        "C[0] = T[3]",  # overlaps in part
        "for i in range(3):\n        C[i] = T[i]",  # no constant
        "C[ramp(0, 1, 4)] = T[ramp(2, 1, 4)]",  # not aligned, and overlaps
        "C[ramp(0, 1, 4)] = T[ramp(0, 2, 4)]",  # strided
    ],
)
def test_stays_scalar_memory(statement: str) -> None:
    body = f"with alloc(T, f32[8]):\n    T[ramp(0, 1, 4)] = broadcast(0.0, 4)\n    {statement}"
    func = func_of(body)
    assert vector_locals(func) is func


@pytest.mark.parametrize("dtype, size, stays", [("f32", 5000, True), ("f16", 8, False)])
def test_large_buffers_stay_those_of_any_type_do_not(dtype: str, size: int, stays: bool) -> None:
    func = func_of(
        f"with alloc(T, {dtype}[{size}]):\n"
        f"    T[ramp(0, 1, 4)] = broadcast({dtype}(0.0), 4)\n"
        f"    C[ramp(0, 1, 4)] = f32x4(T[ramp(0, 1, 4)])"
    )
    changed = vector_locals(func)
    assert changed is func if stays else f"alloc(T, {dtype}x4[2])" in str(changed)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("for i in range(1):\n    C[i + 3 - i] = A[i * 4 + 0]", "C[3] = A[0]"),
        ("for i in range(3):\n    for j in range(i - 7):\n        C[j] = 0.0", None),
        ("if 3 < 2:\n    C[0] = 0.0\nelse:\n    C[1] = 0.0", "C[1] = 0.0"),
        ("with alloc(T, f32[4]):\n    T[0] = A[0]\n    C[0] = A[1]", "C[0] = A[1]"),
        ("with let(x, A[0]):\n    C[0] = 1.0", "C[0] = 1.0"),
        ("for i in range(5):\n    for j in range(0):\n        C[j] = 0.0", "pass"),
        (
            'for i in thread("threadIdx.x", 1):\n    C[i] = 0.0',
            'for i in thread("threadIdx.x", 1):\n    C[0] = 0.0',
        ),
    ],
)
def test_simplify(body: str, expected: str | None) -> None:
    func = simplify(func_of(body))
    assert expected is None or body_of(func) == expected
    assert simplify(func) is func


def test_values_used_many_times_are_looked_at_once(monkeypatch):
    """A value that is doubled 40 times has 41 parts, and 2 ** 41 if each use is counted."""
    looked: list[int] = []
    module = import_module("tensorir.passes.vectors.lane_widths")
    monkeypatch.setattr(module, "children", lambda e: looked.append(1) or children(e))
    A = Load(Buffer("A", (const(4),), "float64"), (const(0),))
    value = A
    for _ in range(40):
        value = value + value
    store = Store(Buffer("B", (const(4),), "float32"), (const(0),), value)
    assert module.widest(For(Var("j"), const(4), store)) == 64
    assert len(looked) == 40
