"""Passes that decide how much memory there is: circular buffers, versions; and prefetches."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import interpret, parse, structural_equal, structural_hash, verify
from tensorir.errors import ParseError, VerifyError
from tensorir.passes import double_buffers, fold_buffers, lower_prefetch
from tensorir.stmt import For, Prefetch
from tensorir.visit import child_stmts

ROLLED = """
@prim_func
def rolled(A: f32[40], C: f32[32]):
    with alloc(T, f32[40]):
        for y in range(2):
            T[y] = A[y]
        for y in range(32):
            T[y + 2] = A[y + 2]
            C[y] = T[y] + T[y + 2]
"""


def folded(text):
    """The size of T after the pass; the interpreter has compared what is computed."""
    func = parse(text)
    after = fold_buffers(func)
    a = np.arange(40, dtype="float32")
    for found, wanted in zip(interpret(after, a), interpret(func, a), strict=True):
        np.testing.assert_array_equal(found, wanted)
    if after is func:
        return None
    line = next(line for line in str(after).split("\n") if "alloc(T" in line)
    return int(line.split("[")[1].split("]")[0])


def changed(*edits):
    text = ROLLED
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


class TestFold:
    def test_sizes(self):
        assert folded(ROLLED) == 4
        assert folded(changed(("T[y + 2]", "T[y + 1]"), ("A[y + 2]", "A[y + 1]"))) == 2
        later = changed(("range(2)", "range(5)"), ("T[y + 2]", "T[y + 5]"))
        assert folded(later.replace("A[y + 2]", "A[y + 5]")) == 8

    def test_strides(self):
        text = changed(("T[y + 2]", "T[y * 2 + 2]"), ("range(32)", "range(16)"))
        text = text.replace("A[y + 2]", "A[y * 2 + 2]").replace("T[y] +", "T[y * 2] +")
        text = text.replace("C: f32[32]", "C: f32[16]")
        assert folded(text) == 4

    def test_what_a_condition_leaves_out_is_not_touched(self):
        """Ten values by three times four: the last two would begin another part."""
        line = "            T[y + 2] = A[y + 2]\n"
        part = """            for t in range(3):
                for u in range(4):
                    if t * 4 + u < 10:
                        T[y * 2 + (t * 4 + u) // 5 + 2] = A[y * 2 + (t * 4 + u) // 5 + 2]
"""
        text = changed((line, part), ("range(32)", "range(16)"), ("C: f32[32]", "C: f32[16]"))
        text = text.replace("T[y] + T[y + 2]", "T[y * 2] + T[y * 2 + 3]")
        assert folded(text) == 4
        assert folded(text.replace("< 10", "< 11")) == 8

    def test_what_is_used_later_stays(self):
        text = ROLLED + "        for y in range(32):\n            C[y] = C[y] + T[y]\n"
        assert folded(text) is None

    def test_old_elements_stay(self):
        """Iteration y reads what lies further and further behind."""
        assert folded(changed(("T[y] +", "T[y // 2] +"))) is None
        assert folded(changed(("T[y] +", "T[0] +"))) is None

    def test_what_lies_before_has_room(self):
        """Before the loop, more is written than its first iteration touches, or something else."""
        assert folded(changed(("range(2)", "range(6)"))) == 8
        later = (("T[y + 2]", "T[y + 5]"), ("A[y + 2]", "A[y + 5]"), ("T[y] +", "T[y + 3] +"))
        assert folded(changed(("range(2)", "range(5)"), *later)) == 8
        assert folded(changed(("range(2)", "range(30)"), ("T[y] =", "T[y + 0] ="))) == 32

    def test_what_lies_ahead_stays(self):
        """The element would be where an iteration puts another one before it is read."""
        text = changed(("for y in range(2):\n            T[y] = A[y]", "{before}"))
        text = text.replace("range(32)", "range(30)").replace("C: f32[32]", "C: f32[30]")
        ahead = "for y in range(2):\n            T[y + {0}] = A[y + {0}]"
        for start, size in ((0, 4), (1, 4), (3, None), (7, None)):
            lines = [ahead.format(0), ahead.format(start)] if start else [ahead.format(0)]
            body = "\n        ".join(lines)
            found = folded(text.replace("{before}", body))
            assert found == size or (size is None and found in (8, 16)), (start, found)

    def test_backwards(self):
        text = changed(("for y in range(2):\n            T[y] = A[y]", "T[39] = A[39]"))
        text = text.replace("T[y + 2] = A[y + 2]", "T[38 - y] = A[38 - y]")
        assert folded(text.replace("T[y] + T[y + 2]", "T[38 - y] + T[39 - y]")) is None

    @pytest.mark.parametrize("kind", ["parallel", "unrolled", "vectorized"])
    def test_only_serial_loops(self, kind):
        text = changed(("for y in range(32)", f"for y in {kind}(32)"))
        assert fold_buffers(parse(text)) is not None
        assert "%" not in str(fold_buffers(parse(text)))

    def test_shared_memory_stays(self):
        assert (
            folded(changed(("f32[40]):\n        for", 'f32[40], scope="shared"):\n        for')))
            is None
        )

    def test_nothing_is_carried(self):
        text = changed(("for y in range(2):\n            T[y] = A[y]\n        ", ""))
        text = text.replace("T[y + 2]", "T[y]").replace("T[y] + T[y]", "T[y]")
        assert folded(text) is None


DOUBLED = """
@prim_func
def doubled(A: f32[4, 3], C: f32[4, 3]):
    attrs({"double_buffer": ["T"], "align": {"T": [0, 8, 0]}})
    for i in range(4):
        with alloc(T, f32[3]):
            for j in range(3):
                T[j] = A[i, j]
            for j in range(3):
                C[i, j] = T[2 - j]
"""


def test_double_buffers():
    func = double_buffers(parse(DOUBLED))
    text = str(func)
    assert "with alloc(T, f32[2, 3]):\n        for i in range(4):" in text
    assert "T[i % 2, j] = A[i, j]" in text
    assert func.attrs["align"] == {"T": [1, 8, 0]}
    a = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(interpret(func, a)[0], a[:, ::-1])
    assert double_buffers(func) is not None
    parallel = parse(DOUBLED.replace("for i in range(4)", "for i in parallel(4)"))
    assert double_buffers(parallel) is parallel


HINTS = """
@prim_func
def hints(A: f32[64], C: f32[64]):
    for i in range(64):
        prefetch(A[i + 32])
        C[i] = A[i]
"""


class TestPrefetch:
    def test_statement(self):
        func = parse(HINTS)
        assert str(func) == HINTS.strip()
        verify(func)  # the element may lie outside
        a = np.arange(64, dtype="float32")
        np.testing.assert_array_equal(interpret(func, a)[0], a)
        assert structural_equal(func, parse(HINTS))
        other = parse(HINTS.replace("i + 32", "i + 16"))
        assert structural_hash(other) != structural_hash(func)

    def test_errors(self):
        with pytest.raises(ParseError, match="an element of a buffer"):
            parse(HINTS.replace("prefetch(A[i + 32])", "prefetch(A)"))
        with pytest.raises(VerifyError, match="prefetch of 'A' has 2 indices"):
            verify(parse(HINTS.replace("A[i + 32]", "A[i, 0]")))

    def test_stale_annotations_do_nothing(self):
        text = """
        @prim_func
        def f(A: f32[64], C: f32[64]):
            for i in range(64, annotations={"prefetch": [["gone", "A", 1], ["C", "gone", 1]]}):
                with block("C"):
                    vi = spatial(64, i)
                    C[vi] = A[vi]
        """
        func = parse(text)
        assert str(lower_prefetch(func)) == str(func)

    @pytest.mark.parametrize(
        ("shape", "lines"),
        [
            ((8, 64), 4), ((8, 64, 1), 4), ((8, 1, 64, 1, 1), 4), ((8, 16, 4), 4),
            ((8, 8, 4, 2), 4), ((8, 4, 16), 4), ((8, 3, 20), 6), ((8, 20, 3), 4), ((8, 24, 1), 2),
        ],
    )  # fmt: skip
    def test_each_line_is_asked_for_once_whatever_dimensions_it_is_in(self, shape, lines):
        sizes = ", ".join(map(str, shape))
        names = [f"v{n}" for n in range(len(shape))]
        axes = "".join(f"\n{24 * ' '}{v} = spatial({n}, i{v})" for v, n in zip(names, shape))
        at = ", ".join(names)
        text = f"""
        @prim_func
        def f(A: f32[{sizes}], C: f32[{sizes}]):
            for iv0 in range(8, annotations={{"prefetch": [["C", "A", 1]]}}):
                for {", ".join(f"i{v}" for v in names[1:])} in grid({sizes.partition(", ")[2]}):
                    with block("C"):{axes}
                        C[{at}] = A[{at}]
        """

        def asked(stmt):
            times = stmt.const_extent if isinstance(stmt, For) else 1
            return times * sum(map(asked, child_stmts(stmt))) + isinstance(stmt, Prefetch)

        assert asked(lower_prefetch(parse(text)).body) == 8 * lines
