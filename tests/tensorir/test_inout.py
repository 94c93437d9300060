"""Which parameters a program needs as the caller gives them, though it writes them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import TensorIRError, VerifyError, interpret, lower, parse, reference, verify
from tensorir.reference import tolerance
from tensorir.targets.target import Target


def program(body, attrs=""):
    return parse(f"@prim_func\ndef f(A: f32[8], C: f32[8]):\n{attrs}{body}")


def block(body, extent=8, loop=None, binding="i", where=None, inner=None):
    guard = f"            where({where})\n" if where else ""
    loops = f"i in range({loop or extent})"
    if inner is not None:
        loops = f"i, i2 in grid({loop or extent}, {inner})"
    return (
        f"    for {loops}:\n        with block('C'):\n"
        f"            vi = spatial({extent}, {binding})\n{guard}            {body}\n"
    )


def plain(*lines, extent=8):
    return "\n".join([f"    for i in range({extent}):", *(f"        {line}" for line in lines), ""])


NEEDED = {
    "read and written": block("C[vi] = C[vi] + A[vi]"),
    "the first half": block("C[vi] = A[vi]", 4),
    "the second half": block("C[vi + 4] = A[vi]", 4),
    "half of its points": block("C[vi] = A[vi]", 8, 4),
    "the other half": block("C[vi] = A[vi]", 8, 4, "i + 4"),
    "points where": block("C[vi] = A[vi]", where="i < 5"),
    "digits where": block("C[vi] = A[vi]", 8, 4, "i * 2 + i2", "i * 2 + i2 < 5", inner=2),
    "digits where the first says": block("C[vi] = A[vi]", 8, 4, "i * 2 + i2", "i < 3", inner=2),
    "every other element": block("C[vi * 2] = A[vi]", 4),
    "from the one before": block("C[vi + 1] = C[vi] + A[vi]", 7),
    "mirrored": block("C[vi] = C[7 - vi] + A[vi]"),
    "kept where not positive": block("C[vi] = select(A[vi] > f32(0.0), A[vi], C[vi])"),
    "half of a plain loop": plain("C[i] = A[i]", extent=4),
    "under a condition": plain("if i < 4:", "    C[i] = A[i]"),
    "where data say": plain("if A[i] > f32(0.0):", "    C[i] = A[i]"),
    "with a hole": plain("C[i] = A[i]", extent=3) + plain("C[i + 5] = A[i]", extent=3),
    "the rest onto itself": plain("C[i] = A[i]", extent=4)
    + plain("C[i + 4] = C[i + 4] + A[i]", extent=4),
    "a sum onto it": """\
    for i, k in grid(8, 8):
        with block("C"):
            vi = spatial(8, i)
            vk = reduce(8, k)
            C[vi] = C[vi] + A[vk]
""",
}
MADE = {
    "digits that go beyond": block("C[vi] = A[vi]", 8, 3, "i * 3 + i2", "i * 3 + i2 < 8", inner=3),
    "whole": block("C[vi] = A[vi]"),
    "backwards": block("C[7 - vi] = A[vi]"),
    "from the one before, but the first": block(
        "C[vi] = select(vi > 0, C[vi - 1], f32(0.0)) + A[vi]"
    ),
    "a plain loop": plain("C[i] = A[i]"),
    "two halves": plain("C[i] = A[i]", extent=4) + plain("C[i + 4] = C[i] + A[i]", extent=4),
    "even and odd": plain("C[i * 2] = A[i]", "C[i * 2 + 1] = A[i]", extent=4),
    "either way": plain("if i < 4:", "    C[i] = A[i]", "else:", "    C[i] = f32(0.0)"),
    "split loops": """\
    for i_0, i_1 in grid(3, 3):
        with block("C"):
            vi = spatial(8, i_0 * 3 + i_1)
            where(i_0 * 3 + i_1 < 8)
            C[vi] = A[vi]
""",
    "a sum": """\
    for i, k in grid(8, 8):
        with block("C"):
            vi = spatial(8, i)
            vk = reduce(8, k)
            with init():
                C[vi] = f32(0.0)
            C[vi] = C[vi] + A[vk]
""",
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_read_or_left_is_needed(name):
    func = program(NEEDED[name])
    assert [p.name for p in func.in_outs] == ["C"]
    assert [p.name for p in func.given] == ["A", "C"] and [p.name for p in func.inputs] == ["A"]
    with pytest.raises(VerifyError, match="never written"):
        interpret(func, np.full(8, -1, np.float32))


@pytest.mark.parametrize("name", MADE)
def test_what_is_written_first_is_made(name):
    func = program(MADE[name])
    assert func.in_outs == () and [p.name for p in func.given] == ["A"]
    interpret(func, np.ones(8, np.float32))


def test_symbolic_sizes():
    text = (
        "@prim_func\ndef f(A: f32[n], C: f32[n]):\n    for i in range({}):\n        C[i] = A[i]\n"
    )
    assert parse(text.format("n")).in_outs == ()
    for extent in ("n // 2", "n - 1", "n // 2 * 2"):
        assert [p.name for p in parse(text.format(extent)).in_outs] == ["C"]


def test_the_reference_begins_with_what_is_given():
    rng = np.random.default_rng(0)
    for name, body in NEEDED.items():
        func = program(body)
        a, c = (rng.integers(-4, 5, 8).astype(np.float32) for _ in range(2))
        before = c.copy()
        try:
            (found,) = reference(func, a, c)
        except TensorIRError as error:
            assert "use interpret" in str(error) or "interpret any" in str(error), name
            continue
        np.testing.assert_array_equal(found, interpret(func, a, c)[0], err_msg=name)
        assert np.isfinite(tolerance(func, a, c)[0]).all()
        assert (c == before).all(), "the caller's array is not written to"
        with pytest.raises(TensorIRError, match="needs what is in 'C' before"):
            reference(func, a)


def test_a_program_says_what_is_not_seen():
    body = plain("C[i] = A[i]")
    func = program(body, '    attrs({"inout": ["C"]})\n')
    verify(func)
    assert [p.name for p in func.in_outs] == ["C"]
    assert parse(str(func)).in_outs == func.in_outs
    assert [p.name for p in lower(func, Target("c")).in_outs] == ["C"]
    assert program(NEEDED["with a hole"], '    attrs({"inout": []})\n').in_outs == ()


@pytest.mark.parametrize(
    ("given", "message"), [('["A"]', "names 'A', and the parameters that 'f' writes are C"),
                           ('"C"', "is a list of names")],
)  # fmt: skip
def test_what_it_says_is_checked(given, message):
    func = program(plain("C[i] = A[i]"), f'    attrs({{"inout": {given}}})\n')
    with pytest.raises(VerifyError, match=message):
        verify(func)
