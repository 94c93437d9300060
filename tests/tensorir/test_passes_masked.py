"""Masked tails: what becomes one masked vector, and what keeps narrower vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Target, VerifyError, interpret, lower
from tensorir.passes import simplify, vector_locals, vectorize
from tensorir.passes.vectors.masked_tails import masked_bits
from tensorir.passes.vectors.pad_rows import pad_rows
from tensorir.text.parser import parse

ALL = (8, 16, 32, 64)
WITH_MASKS = Target(vector_bits=512, features=("avx512bw", "avx512f", "avx512vl"))


def func_of(body: str, head: str = ""):
    params = "A: f32[1000], C: f32[1000], H: u8[1000], D: f64[1000], I: i64[1000], n: i64"
    params = params.replace(", n: i64", head)
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return parse(f"@prim_func\ndef f({params}):\n{lines}")


def masked(body: str) -> str:
    func = simplify(vectorize(func_of(body), 512, ALL))
    return "\n".join(line[4:] for line in str(func).splitlines()[2:])


def test_a_tail_is_one_masked_vector() -> None:
    assert masked("for j in vectorized(46):\n    C[j] = A[j + 1] * 2.0") == "\n".join(
        [
            "for j in unrolled(2):",
            "    C[ramp(j * 16, 1, 16)] = A[ramp(j * 16 + 1, 1, 16)] * broadcast(2.0, 16)",
            "if ramp(0, 1, 16) < broadcast(14, 16):",
            "    C[ramp(32, 1, 16)] = A[ramp(33, 1, 16)] * broadcast(2.0, 16)",
        ]
    )


@pytest.mark.parametrize(
    "extent, lanes", [(1, 1), (2, 2), (3, 4), (5, 8), (7, 8), (8, 8), (9, 16), (15, 16), (16, 16)]
)
def test_a_short_loop_is_one_vector_no_wider_than_needed(extent: int, lanes: int) -> None:
    text = masked(f"for j in vectorized({extent}):\n    C[j] = A[j]")
    assert text.count("A[") == 1
    assert ("if ramp" in text) == (extent not in (1, 2, 8, 16))
    assert f", 1, {lanes})] = A" in text or lanes == 1


@pytest.mark.parametrize(
    "statement",
    [
        "C[j] = A[I[j]]",  # a gather
        "C[j] = A[j * 2]",
        "C[j * 2] = A[j]",
        "C[0] = A[j]",
        "C[0] = C[0] + A[j]",
        "I[j] = 7 // I[j]",  # division may trap
        "I[j] = 7 % I[j]",
        "C[j] = select(A[j] < 0.0, A[j + 990], 0.0)",  # loads of what may not exist
    ],
)
def test_other_accesses_keep_narrow_vectors(statement: str) -> None:
    assert "if ramp" not in masked(f"for j in vectorized(13):\n    {statement}")


def test_values_that_all_lanes_share_are_loaded() -> None:
    text = masked("for j in vectorized(13):\n    C[j] = A[j] * A[999]")
    assert "if ramp(0, 1, 16) < broadcast(13, 16):" in text and "broadcast(A[999], 16)" in text


def test_without_masks_the_widths_are_halved() -> None:
    text = str(vectorize(func_of("for j in vectorized(13):\n    C[j] = A[j]"), 512))
    assert [f", 1, {n})" in text for n in (16, 8, 4)] == [False, True, True]


def test_what_threads_share_is_not_stored_in_whole() -> None:
    body = """
with alloc(T, f32[64]):
    for i in parallel(4):
        for j in vectorized(13):
            T[i * 13 + j] = A[j]
    C[0] = T[0]
"""
    assert "if ramp" not in masked(body)


def test_what_is_private_keeps_its_other_lanes() -> None:
    body = """
for i in parallel(4):
    with alloc(T, f32[16]):
        for j in vectorized(16):
            T[j] = 0.0
        for j in vectorized(13):
            T[j] = T[j] + A[i * 13 + j]
        for j in vectorized(16):
            C[i * 16 + j] = T[j]
"""
    func = vectorize(func_of(body), 512, ALL)
    assert func.attrs["whole"] == ["T"] and func.attrs["loose"] == []
    assert "T[0] = T[0] + A[ramp(i * 13, 1, 16)]" in str(vector_locals(simplify(func)))


@pytest.mark.parametrize(
    ("after", "is_masked"), [("C[j] = T[j]", True), ("T[j] = T[j] + 1.0", False)]
)
def test_a_buffer_that_is_stored_in_other_widths_too_is_not_masked(
    after: str, is_masked: bool
) -> None:
    """A load of a part of what was stored does not wait, as that of several stores does."""
    body = f"""
with alloc(T, f32[16]):
    for j in vectorized(16):
        T[j] = 0.0
    for j in vectorized(13):
        T[j] = T[j] + A[j]
    for j in vectorized(8):
        {after}
    C[9] = T[9]
"""
    assert ("if ramp" in masked(body)) == is_masked


def test_rows_of_local_tiles_are_padded() -> None:
    body = """
with alloc(T, f32[3, 14], scope="local"):
    for i in unrolled(3):
        for j in vectorized(14):
            T[i, j] = 0.0
    C[0] = T[0, 0]
"""
    func = pad_rows(func_of(body), 512)
    assert func.attrs == {"align": {"T": [0, 16, 0]}, "rows": {"T": [14, 16]}}
    units = body.replace("14]", "14, 1, 1]").replace("T[i, j]", "T[i, j, 0, 0]")
    units = units.replace("T[0, 0]", "T[0, 0, 0, 0]")
    func = pad_rows(func_of(units), 512)
    assert func.attrs == {"align": {"T": [0, 16, 0]}, "rows": {"T": [14, 16]}}
    for other in (body.replace("14", "24"), body.replace(', scope="local"', "")):
        before = func_of(other)
        assert pad_rows(before, 512) is before


SYMBOLIC = """
@prim_func
def f(A: f32[n], C: f32[n]):
    for i in range((n + 15) // 16):
        for j in vectorized(16):
            if i * 16 + j < n:
                C[i * 16 + j] = A[i * 16 + j] + 1.0
"""


@pytest.mark.parametrize("n", [0, 1, 5, 15, 16, 17, 33])
def test_symbolic_sizes_have_a_masked_tail(n: int) -> None:
    lowered = lower(parse(SYMBOLIC), WITH_MASKS)
    assert str(lowered).count("A[ramp") == 2 and "A[i" not in str(lowered)
    a = np.arange(n, dtype="float32")
    (c,) = interpret(lowered, a)
    np.testing.assert_array_equal(c, a + 1)


def test_the_interpreter_runs_the_lanes_that_count_and_no_others() -> None:
    text = """
@prim_func
def f(A: f32[5], C: f32[5]):
    if ramp(0, 1, 8) < broadcast({n}, 8):
        C[ramp(0, 1, 8)] = A[ramp(0, 1, 8)]
"""
    a = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(interpret(parse(text.format(n=5)), a)[0], a)
    with pytest.raises(VerifyError, match=r"outside of the shape \(5,\)"):
        interpret(parse(text.format(n=6)), a)


def test_targets_with_masks() -> None:
    assert masked_bits(WITH_MASKS) == ALL
    assert masked_bits(Target(vector_bits=256, features=("avx", "avx2"))) == (32, 64)
    for other in (Target(vector_bits=512), Target(vector_bits=256, features=("avx",))):
        assert masked_bits(other) == ()
    assert masked_bits(Target("cuda")) == ()


AVX2 = Target(vector_bits=256, features=("avx2",))


@pytest.mark.parametrize(
    ("statement", "is_masked"),
    [
        ("C[j] = A[j]", True),
        ("D[j] = D[j] + D[j]", True),
        ("I[j] = I[j] + 1", True),
        ("H[j] = H[j]", False),  # no masks for bytes
        ("C[j] = A[j] + f32(H[j])", False),
    ],
)
def test_masks_are_for_elements_of_some_sizes(statement: str, is_masked: bool) -> None:
    func = func_of(f"for j in vectorized(15):\n    {statement}")
    text = str(simplify(vectorize(func, 256, masked_bits(AVX2))))
    assert ("if ramp" in text) == is_masked


def test_rows_of_elements_without_masks_are_not_padded() -> None:
    body = """
with alloc(T, {}[3, 13], scope="local"):
    for i in unrolled(3):
        for j in vectorized(13):
            T[i, j] = {}
"""
    for kind, zero, rows in (("f32", "0.0", {"T": [13, 16]}), ("i16", "i16(0)", None)):
        func = pad_rows(func_of(body.format(kind, zero)), 256, masked_bits(AVX2))
        assert func.attrs.get("rows") == rows


@pytest.mark.parametrize("size, is_masked", [(32, False), (512, False), (513, True), (3600, True)])
def test_what_no_register_holds_is_read_with_a_mask(size: int, is_masked: bool) -> None:
    """The last lanes of a tile that reads an image: whole vectors would end beyond it."""
    body = f"""
for i in parallel(4):
    with alloc(P, f32[{size}]):
        for k in range({size}):
            P[k] = A[k % 1000]
        for k in range({size - 12}):
            for j in vectorized(12):
                C[i * 12 + j] = C[i * 12 + j] + P[k + j]
"""
    assert ("if ramp(0, 1, 16) < broadcast(12, 16):" in masked(body)) == is_masked


@pytest.mark.parametrize("padding, within", [("0.0", "0"), ("3.0", "3"), ("0.5", ""), ("-0.0", "")])
def test_padding_of_converted_loads_is_a_mask_where_it_converts_back(
    padding: str, within: str
) -> None:
    """Zeros that were no zeros of the other type, and fractions, are chosen after the load."""
    text = masked(f"for j in vectorized(16):\n    C[j] = select(1 <= j, f32(H[j - 1]), {padding})")
    assert text.startswith("C[ramp(0, 1, 16)] = " + ("f32x16(select(" if within else "select("))
    assert f"broadcast(u8({within}), 16)" in text or not within


PARTS = {
    "first to last": "select({j} < 20, A[{j}], select({j} < 50, B[{j} - 20], D[{j} - 50]))",
    "last to first": "select(50 <= {j}, D[{j} - 50], select(20 <= {j}, B[{j} - 20], A[{j}]))",
    "the middle first": "select({j} < 50, select(20 <= {j}, B[{j} - 20], A[{j}]), D[{j} - 50])",
    "by a number": "select({j} < 20 and n < 9, A[{j}], select({j} < 50, B[max({j}, 20) - 20], "
    "D[max({j}, 50) - 50]))",
}


@pytest.mark.parametrize("n", [3, 9])
@pytest.mark.parametrize(("kind", "lanes"), [("float32", 16), ("float64", 8), ("uint8", 16)])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_row_are_loaded_where_they_are(name, kind, lanes, n) -> None:
    """What is put side by side of several buffers: lanes of the other part load nothing, in
    whatever order the conditions are, so that no vector is gathered."""
    value = PARTS[name].format(j=f"(i * {lanes} + j)")
    type_ = {"float32": "f32", "float64": "f64", "uint8": "u8"}[kind]
    head = ", ".join(f"{b}: {type_}[{size}]" for b, size in (("A", 20), ("B", 30), ("D", 46)))
    func = parse(
        f"@prim_func\ndef f({head}, n: i64, C: {type_}[96]):\n"
        f"    for i in range({96 // lanes}):\n        for j in vectorized({lanes}):\n"
        f"            C[i * {lanes} + j] = {value}"
    )
    made = vectorize(func, 8 * lanes * np.dtype(kind).itemsize, ALL)
    inputs = [np.arange(p.const_shape[0]).astype(kind) + 60 * k
              for k, p in enumerate(func.params[:3])]  # fmt: skip
    np.testing.assert_array_equal(interpret(made, *inputs, n), interpret(func, *inputs, n))
    assert name == "by a number" or "[max(" not in str(made) and "[min(" not in str(made)


@pytest.mark.parametrize("count", [2, 4, 8, 12, 16])
@pytest.mark.parametrize("read", [16, 4])
def test_last_terms_of_sums_are_as_wide_as_what_reads_them(count: int, read: int) -> None:
    """A load of what a wide and a narrower store made waits for both to reach the cache."""
    text = masked(f"""
with alloc(T, f32[16]):
    for j in vectorized(16):
        T[j] = 0.0
    for j in vectorized({count}):
        T[j] = T[j] + A[j]
    for i in range({16 // read}):
        for j in vectorized({read}):
            C[i * {read} + j] = T[i * {read} + j]
""")
    assert ("if ramp" in text) == (count < 16 and (count < read or count == 12))
