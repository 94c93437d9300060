"""reuse_outputs: intermediates in the memory of what is made of them, and where they may not be."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Target, interpret, lower, ops, parse, te
from tensorir.passes.storage.reuse_outputs import reuse_outputs

ROWS = """
@prim_func
def rows(A: f32[4, 40], C: f32[4, 40]):
    for i in range(4):
        with alloc(T, f32[40]):
            with alloc(S, f32[1]):
                for j in range(40):
                    T[j] = A[i, j] * 2.0
                S[0] = 0.0
                for k in range(40):
                    S[0] = S[0] + T[k]
                for j_0 in range(10):
                    for j_1 in range(4):
                        C[i, j_0 * 4 + j_1] = T[j_0 * 4 + j_1] / S[0]
"""

WHOLE = """
@prim_func
def whole(A: f32[4, 40], C: f32[4, 40]):
    with alloc(T, f32[4, 40]):
        with alloc(S, f32[1]):
            for i_T in range(4):
                for j_T in range(40):
                    T[i_T, j_T] = A[i_T, j_T] * 2.0
            for i in range(4):
                S[0] = 0.0
                for k in range(40):
                    S[0] = S[0] + T[i, k]
                for j in range(40):
                    C[i, j] = T[i, j] / S[0]
"""


def shares(text: str, *edits: tuple[str, str], least: int = 0) -> bool:
    """Whether T is gone after the pass; what is computed is the same in any case."""
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    func = parse(text)
    after = reuse_outputs(func, least)
    arrays = [np.arange(1, 1 + n).reshape(4, -1).astype("float32") for n in (160,)]
    for found, wanted in zip(interpret(after, *arrays), interpret(func, *arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert [p.name for p in after.in_outs] == [p.name for p in func.in_outs]
    return "alloc(T" not in str(after)


@pytest.mark.parametrize("text", [ROWS, WHOLE])
class TestShares:
    def test_output_is_where_it_was_made(self, text):
        assert shares(text)

    def test_threads(self, text):
        assert shares(text, ("for i in range(4)", "for i in parallel(4)"))

    def test_only_from_a_size_on(self, text):
        size = 160 if text is ROWS else 640
        assert shares(text, least=size - 1) and not shares(text, least=size)

    def test_stays_where_stores_pass_the_caches(self, text):
        head = "C: f32[4, 40]):\n"
        assert not shares(text, (head, head + '    attrs({"stream": ["C"]})\n'))

    def test_stays_of_another_type(self, text):
        assert not shares(
            text,
            ("C: f32[4, 40]", "C: f64[4, 40]"),
            ("= T[", "= f64(T["),
            ("] / S[0]", "]) / f64(S[0])"),
        )

    def test_stays_where_it_is_read_later(self, text):
        """Of another row or place, or after the output was made of it."""
        other = ("/ S[0]", "/ S[0] + T[0]") if text is ROWS else ("/ S[0]", "/ S[0] + T[0, 0]")
        assert not shares(text, other)


FILLED = ROWS.replace(
    "    for i in range(4):",
    """
    for row in range(4):
        for column in range(40):
            C[row, column] = 7.0
    for i in range(4):""",
)
LOOP, STORE, READ = "for j_0 in range(10):", "C[i, j_0 * 4 + j_1]", "T[j_0 * 4 + j_1]"


def under(condition: str) -> tuple[str, str]:
    """An edit: the output is stored where that holds."""
    return STORE, f"if {condition}:\n                            {STORE}"


def test_stays_where_an_output_is_no_copy_of_its_shape():
    """Turned, one place on, of another stage too, or made twice."""
    assert not shares(ROWS, (READ, "T[39 - j_0 * 4 - j_1]"))
    assert not shares(ROWS, (READ, "T[(j_0 * 4 + j_1 + 1) % 40]"))
    assert not shares(ROWS, ("S[0] = 0.0", "C[i, 0] = 1.0\n                S[0] = 0.0"))
    head = ROWS[: ROWS.index("                for j_0")]
    body = ("for t in range({}):", "    for j_0 in range(40):", "        C[i, j_0] = T[j_0] / S[0]")
    again = head + "".join(f"                {line}\n" for line in body)
    assert shares(again.format(1))
    assert not shares(again.format(2))


def test_stays_where_an_output_is_made_in_parts():
    """What is left out would be lost; conditions that leave nothing out do not matter."""
    assert shares(FILLED)
    assert not shares(FILLED, (LOOP, "for j_0 in range(9):"))
    assert not shares(FILLED, under("j_1 < 3"))
    assert not shares(FILLED, under("i < 3"))
    assert shares(FILLED, (LOOP, "for j_0 in range(11):"), under("j_0 * 4 + j_1 < 40"))


def test_stays_where_an_iteration_reads_what_others_made():
    """Rows before and after the one at hand, and rows that several iterations go over."""
    for row in ("max(i - 1, 0)", "min(i + 1, 3)", "3 - i", "0"):
        assert not shares(WHOLE, ("S[0] + T[i, k]", f"S[0] + T[{row}, k]"))
    made = ("for i in range(4):", "for t in range(2):\n              for i in range(4):")
    assert not shares(WHOLE, made)


def with_output(shape: str, index: str) -> str:
    """ROWS with an output of another shape, its element at j_0 * 4 + j_1 of row i at `index`."""
    return ROWS.replace("C: f32[4, 40]", f"C: f32[{shape}]").replace(
        "C[i, j_0 * 4 + j_1]", f"C[{index}]"
    )


def test_rows_of_other_dimensions_are_rows():
    """Their digits are indices of the output, or they follow each other in one dimension."""
    e = "(j_0 * 4 + j_1)"
    assert shares(with_output("4, 2, 20", f"i, {e} // 20, {e} % 20"))
    assert shares(with_output("4, 5, 4, 2", f"i, {e} // 8, {e} // 2 % 4, {e} % 2"))
    assert shares(with_output("160", f"i * 40 + {e}"))
    assert not shares(with_output("4, 20, 2", f"i, {e} % 20, {e} // 20"))
    assert not shares(with_output("4, 2, 20", f"i, {e} // 20, 19 - {e} % 20"))
    longer = (LOOP, "for j_0 in range(11):")
    split = with_output("4, 2, 20", f"i, {e} // 20, {e} % 20")
    store = f"C[i, {e} // 20, {e} % 20]"
    edit = (store, f"if j_0 * 4 + j_1 < 40:\n                            {store}")
    assert shares(split, longer, edit)
    flat = f"C[i * 40 + {e}]"
    edit = (flat, f"if j_0 * 4 + j_1 < 40:\n                            {flat}")
    assert shares(with_output("160", f"i * 40 + {e}"), longer, edit)


def test_rows_as_digits_of_one_dimension_are_rows():
    """What a condition bounds is its own digit: e // 40 is 0 then, and e % 40 is e."""
    e = "(j_0 * 4 + j_1)"
    text = with_output("160", f"i * 40 + {e}").replace("alloc(T, f32[40])", "alloc(T, f32[1, 40])")
    text = text.replace("T[j] =", "T[0, j] =").replace("T[k]", "T[0, k]")
    text = text.replace(READ, f"T[{e} // 40, {e} % 40]").replace(LOOP, "for j_0 in range(11):")
    store = f"C[i * 40 + {e}]"
    assert shares(text, (store, f"if {e} < 40:\n                            {store}"))
    for step in ("39", "20"):  # rows that share elements
        other = f"C[i * {step} + {e}]"
        edited = text.replace(store, f"if {e} < 40:\n                            {other}")
        assert "alloc(T" in str(reuse_outputs(parse(edited), 0))


def test_copies_are_left_out():
    """Of an intermediate that becomes the output as it is nothing is copied to its own place."""
    text = ROWS.replace("] / S[0]", "]").replace("f32[1]", "f32[4]")
    assert shares(text)
    after = str(reuse_outputs(parse(text), 0))
    assert "C[i, j]" in after and "j_0 * 4 + j_1] = C[" not in after


def test_it_may_be_read_by_others_alone():
    """What nothing is made of directly is in an output of its shape that comes after."""
    text = WHOLE.replace("T[i, j] / S[0]", "S[0]")
    assert shares(text)
    assert not shares(text, ("with alloc(T, f32[4, 40])", "with alloc(T, f32[4, 41])"))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("n", [1001, 5001, 20001])
def test_what_long_rows_wait_in_is_not_passed_by(n, flat):
    """A result that the last cache does not hold is written past it only where rows are short."""
    x = te.placeholder(((64 << 20) // n, n), name="x")
    y = ops.softmax(x)
    func = te.create_prim_func([x, ops.reshape(y, (-1,)) if flat else y])
    made = default_schedule(func, "c -threads=1 -vector_bits=512").func
    text = str(lower(made, Target(vector_bits=512)))
    assert ("stream" in made.attrs) is (n == 1001) is (f"f32[{n}]):" in text)


@pytest.mark.parametrize("n", [2100, 9000, 20001])
@pytest.mark.parametrize("threads", [1, 2])
def test_long_rows_of_a_softmax(n, threads):
    """They need no memory of their own, and are right in odd places."""
    x = te.placeholder((3, n), name="x")
    func = te.create_prim_func([x, ops.softmax(x)])
    kernel = build(default_schedule(func), f"c -threads={threads} -vector_bits=512")
    assert "workspace_take" not in kernel.source
    a = np.random.default_rng(n).standard_normal((3, n)).astype("float32")
    wanted = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(kernel(a), wanted / wanted.sum(1, keepdims=True), rtol=1e-4)


def test_sums_of_products_wait_in_what_is_made_of_them():
    """The result of a product that a norm reads is in the memory of the norm's."""
    a, b = te.placeholder((300, 8), name="a"), te.placeholder((8, 301), name="b")
    func = te.create_prim_func([a, b, ops.softmax(ops.matmul(a, b))])
    target = Target(vector_bits=512)
    text = str(lower(default_schedule(func, "c -threads=1 -vector_bits=512").func, target))
    assert f"f32[{300 * 301}]" not in text.split(":\n", 1)[1]
