"""Sync and Exchange: printed, read back, hashed, typed; never a part of what is built."""

import pytest

from tensorir import (
    Exchange,
    Sync,
    VerifyError,
    parse,
    prove,
    structural_equal,
    structural_hash,
    verify,
    walk,
)
from tensorir.errors import TensorIRError

TEXT = """\
@prim_func
def swap(A: f32[32], B: f32[32]):
    R = alloc(f32[1], scope="local")
    S = alloc(f32[32], scope="shared")
    for t in thread("threadIdx.x", 32):
        with alloc(S):
            S[t] = A[t]
            sync("block")
            with alloc(R):
                R[0] = exchange(S[31 - t], t // 2 * 2)
                B[t] = R[0]"""


def test_they_are_read_back_as_they_were_printed():
    func = parse(TEXT)
    assert repr(func) == TEXT
    assert [type(s) for s in walk(func.body) if isinstance(s, (Sync, Exchange))] == [Sync, Exchange]
    assert structural_equal(func, parse(TEXT))
    verify(func)


@pytest.mark.parametrize(
    ("old", "new"),
    [('sync("block")', 'sync("warp")'), ("t // 2 * 2", "t // 2"), ("S[31 - t], t", "S[t], t")],
)
def test_every_part_of_them_is_in_the_hash(old, new):
    assert structural_hash(parse(TEXT)) != structural_hash(parse(TEXT.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('sync("block")', 'sync("grid")', "line 8: expected one of 'block', 'warp'"),
        ("t // 2 * 2)", "1.5)", "exchange reads the lane 1.5, which is float32"),
        ("exchange(S[31 - t], ", "exchange(31 - t, ", "convert the value"),
    ],
)
def test_what_is_wrong_is_named(old, new, message):
    assert old in TEXT
    with pytest.raises(TensorIRError) as error:
        verify(parse(TEXT.replace(old, new)))
    assert message in str(error.value)


def test_a_program_with_them_is_not_built():
    with pytest.raises(VerifyError, match="made by lowering"):
        prove(parse(TEXT))
