"""split_constants and specialize: what moves ahead, what stays, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import (
    PrimFunc,
    TensorIRError,
    interpret,
    parse,
    specialize,
    split_constants,
    te,
    verify,
)

PACKED = """\
@prim_func
def f(A: f32[4], W: f32[4], C: f32[4]):
    P = alloc(f32[4], scope="local")
    T = alloc(f32[4])
    for i in range(4):
        with block("T"):
            vi = spatial(4, i)
            T[vi] = W[vi] * 2.0
    for j in range(4):
        with block("P"):
            vj = spatial(4, j)
            P[vj] = T[vj] + 1.0
    for k in range(4):
        with block("C"):
            vk = spatial(4, k)
            C[vk] = A[vk] * P[3 - vk]
"""


def nest(line: str, n: int, extent: str = "4") -> str:
    """A nest of one block over vi that executes `line`."""
    return (
        f"    for i{n} in range({extent}):\n        with block(\"B{n}\"):\n"
        f"            vi = spatial({extent}, i{n})\n            {line}\n"
    )  # fmt: skip


def program(*lines: str, buffers: tuple[str, ...] = (), params: str = "A W C") -> PrimFunc:
    head = ", ".join(f"{p}: f32[4]" for p in params.split())
    text = f"@prim_func\ndef f({head}):\n"
    text += "".join(f"    {b} = alloc(f32[4])\n" for b in buffers)
    return parse(text + "".join(nest(line, n) for n, line in enumerate(lines)))


def run_split(func: PrimFunc, names: tuple[str, ...], arrays: dict[str, np.ndarray]) -> list:
    """The outputs of `func`, computed by its two parts one after the other."""
    parts = split_constants(func, names)
    verify(parts.main)
    known = dict(arrays)
    if parts.prepare is not None:
        verify(parts.prepare)
        made = interpret(parts.prepare, *[known[p.name] for p in parts.prepare.inputs])
        made = made if isinstance(made, tuple) else (made,)
        known.update(zip([p.name for p in parts.prepare.outputs], made, strict=True))
    found = interpret(parts.main, *[known[p.name] for p in parts.main.inputs])
    return list(found) if isinstance(found, tuple) else [found]


def check(func: PrimFunc, names: tuple[str, ...], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    arrays = {p.name: rng.integers(-8, 8, p.const_shape).astype(np.float32) for p in func.inputs}
    want = interpret(func, *[arrays[p.name] for p in func.inputs])
    want = want if isinstance(want, tuple) else (want,)
    for a, b in zip(run_split(func, names, arrays), want, strict=True):
        np.testing.assert_array_equal(a, b)


def params(func: PrimFunc | None) -> str:
    return "" if func is None else " ".join(p.name for p in func.params)


def test_a_chain_moves_and_its_result_becomes_a_parameter_before_the_output():
    func = parse(PACKED)
    parts = split_constants(func, ("W",))
    assert params(parts.main) == "A P C"
    assert params(parts.prepare) == "W P"
    assert parts.prepare is not None and parts.prepare.name == "f_prepare"
    assert [b.name for b in parts.prepare.buffers] == ["T"]
    assert parts.main.buffers == ()
    assert parts.packed[0].scope == "global", "memory that both functions see"
    check(func, ("W",))


def test_nothing_moves_without_names():
    func = parse(PACKED)
    parts = split_constants(func, ())
    assert parts.main is func
    assert parts.prepare is None


def test_a_constant_that_is_read_directly_stays_a_parameter():
    func = program("P[vi] = W[vi] + 1.0", "C[vi] = A[vi] * P[vi] + W[vi]", buffers=("P",))
    parts = split_constants(func, ("W",))
    assert (params(parts.main), params(parts.prepare)) == ("A W P C", "W P")
    check(func, ("W",))


def test_what_reads_an_argument_stays():
    func = program("P[vi] = W[vi] + A[vi]", "C[vi] = P[vi]", buffers=("P",))
    assert split_constants(func, ("W",)).main is func
    assert params(split_constants(func, ("W", "A")).prepare) == "A W P"
    check(func, ("W", "A"))


def test_what_writes_an_output_stays():
    func = program("C[vi] = W[vi]")
    assert split_constants(func, ("W",)).prepare is None
    check(func, ("W",))


def test_a_buffer_that_the_rest_changes_stays():
    """Its nests would find what the call before has left."""
    func = program("P[vi] = W[vi]", "P[vi] = P[vi] + A[vi]", "C[vi] = P[vi]", buffers=("P",))
    assert split_constants(func, ("W",)).prepare is None


def test_a_buffer_that_is_read_before_it_is_changed_stays():
    func = program(
        "P[vi] = W[vi]", "C[vi] = P[vi]", "P[vi] = W[vi] + 1.0", "D[vi] = P[vi] + A[vi]",
        buffers=("P",), params="A W C D",
    )  # fmt: skip
    assert split_constants(func, ("W",)).prepare is None
    check(func, ("W",))


def test_several_nests_may_write_one_buffer():
    func = program(
        "P[vi] = W[vi]", "P[vi] = P[vi] * 2.0", "C[vi] = P[vi]", "D[vi] = P[vi] + A[vi]",
        buffers=("P",), params="A W C D",
    )  # fmt: skip
    assert params(split_constants(func, ("W",)).main) == "A P C D"
    check(func, ("W",))


def test_what_reads_nothing_moves_too():
    func = program("P[vi] = 3.0", "C[vi] = P[vi] * A[vi] * W[vi]", buffers=("P",))
    assert params(split_constants(func, ("W",)).prepare) == "P"
    check(func, ("W",))


def test_a_part_of_a_nest_does_not_move():
    func = parse(
        "@prim_func\ndef f(A: f32[4], W: f32[4], C: f32[4]):\n    P = alloc(f32[4])\n"
        "    for i in range(4):\n"
        '        with block("P"):\n            vi = spatial(4, i)\n            P[vi] = W[vi]\n'
        '        with block("C"):\n            wi = spatial(4, i)\n'
        "            C[wi] = P[wi] * A[wi]\n"
    )
    assert split_constants(func, ("W",)).main is func


SYMBOLIC = """\
@prim_func
def f(A: f32[m, n], W: f32[n], C: f32[m, n]):
    P = alloc(f32[n])
    Q = alloc(f32[m])
    for i in range(n):
        with block("P"):
            vi = spatial(n, i)
            P[vi] = W[vi] * 2.0
    for l in range(m):
        with block("Q"):
            vl = spatial(m, l)
            Q[vl] = 1.0
    for j, k in grid(m, n):
        with block("C"):
            vj = spatial(m, j)
            vk = spatial(n, k)
            C[vj, vk] = A[vj, vk] * P[vk] + Q[vj]
"""


def test_symbolic_sizes_move_where_a_constant_has_them():
    parts = split_constants(parse(SYMBOLIC), ("W",))
    assert (params(parts.main), params(parts.prepare)) == ("A P C", "W P")
    assert [b.name for b in parts.main.buffers] == ["Q"], "its size m is known in a call only"


def test_specialize_puts_numbers_for_sizes():
    func = parse(SYMBOLIC)
    special = specialize(func, {"n": 3})
    verify(special)
    assert [v.name for v in special.size_vars] == ["m"]
    assert special.params[1].const_shape == (3,)
    assert specialize(func, {}) is func
    a, w = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(interpret(special, a, w), interpret(func, a, w))
    check(specialize(func, {"n": 1, "m": 5}), ("W",))
    check(specialize(func, {"n": 0, "m": 2}), ("W",))


def test_specialize_refuses_other_names_and_negative_sizes():
    func = parse(SYMBOLIC)
    with pytest.raises(TensorIRError, match="'k' is not a symbolic size; it has 'm', 'n'"):
        specialize(func, {"k": 3})
    with pytest.raises(TensorIRError, match="size 'n' is -1, and has to be 0 or more"):
        specialize(func, {"n": -1})


def test_names_that_cannot_be_constants():
    func = parse(PACKED)
    with pytest.raises(TensorIRError, match="f: constant 'V' is not a parameter.*'A', 'W'"):
        split_constants(func, ("V",))
    with pytest.raises(TensorIRError, match="f: 'C' is written, so it cannot be a constant"):
        split_constants(func, ("C",))
    with pytest.raises(TensorIRError, match=r"write constants=\('W',\)"):
        split_constants(func, "W")


def test_a_tuple_reduction_of_a_constant_moves_whole():
    w = te.placeholder((5, 7), "float32", name="W")
    a = te.placeholder((5,), "float32", name="A")
    k = te.reduce_axis(7, name="k")
    where = te.compute((5,), lambda i: te.argmax(w[i, k], axis=k), name="where")
    out = te.compute((5,), lambda i: a[i] + where[i].astype("float32"), name="C")
    func = te.create_prim_func([a, w, out], name="pick")
    parts = split_constants(func, ("W",))
    assert parts.prepare is not None and params(parts.prepare).startswith("W where")
    check(func, ("W",))
