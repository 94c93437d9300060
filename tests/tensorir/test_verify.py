"""The verifier: every rule rejects what breaks it, by name, and good programs pass."""

from __future__ import annotations

import pytest

from tensorir import te
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import TRUE, BinOp, Call, Expr, Load, Not, Select, Var, const
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.stmt import (
    Alloc,
    Block,
    For,
    ForKind,
    IterKind,
    IterVar,
    Let,
    Seq,
    Store,
    replace,
    seq,
)
from tensorir.text.parser import parse
from tensorir.vector_expr import Ramp
from tensorir.verifier import ranges
from tensorir.verifier.program import verify
from tensorir.verifier.types import check_types
from tensorir.visit import walk

MATMUL = """
def matmul(A: f32[30, 16], B: f32[16, 32], C: f32[30, 32]):
    T = alloc(f32[30, 32])
    for i_0 in parallel(8):
        for i_1, j, k_0, k_1 in grid(4, 32, 4, 4):
            with block("T"):
                vi = spatial(30, i_0 * 4 + i_1)
                vj = spatial(32, j)
                vk = reduce(16, k_0 * 4 + k_1)
                where(i_0 * 4 + i_1 < 30)
                with init():
                    T[vi, vj] = 0.0
                T[vi, vj] = T[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in grid(30, 32):
        with block("C"):
            vi = spatial(30, i)
            vj = spatial(32, j)
            C[vi, vj] = max(T[vi, vj], 0.0)
"""

CONV = """
def conv(X: f32[3, n, 15], W: f32[8, 3, 3, 3], Y: f32[8, n, 15]):
    P = alloc(f32[3, n + 2, 17])
    for c, h, w in grid(3, n + 2, 17):
        with block("P"):
            vc = spatial(3, c)
            vh = spatial(n + 2, h)
            vw = spatial(17, w)
            P[vc, vh, vw] = select(
                1 <= vh and vh < n + 1 and 1 <= vw and vw < 16, X[vc, vh - 1, vw - 1], 0.0)
    for o, h, w, c, r, s in grid(8, n, 15, 3, 3, 3):
        with block("Y"):
            vo = spatial(8, o)
            vh = spatial(n, h)
            vw = spatial(15, w)
            vc = reduce(3, c)
            vr = reduce(3, r)
            vs = reduce(3, s)
            with init():
                Y[vo, vh, vw] = 0.0
            Y[vo, vh, vw] = Y[vo, vh, vw] + P[vc, vh + vr, vw + vs] * W[vo, vc, vr, vs]
"""

LOWERED = """
def matmul(A: f32[256], C: f32[256]):
    for i in parallel(5):
        with alloc(T, f32[64], scope="local"):
            for j in range(8):
                T[ramp(j * 8, 1, 8)] = broadcast(0.0, 8)
            if i < 4:
                with let(base, i * 64):
                    for j in unrolled(64):
                        C[base + j] = A[base + j] + T[j]
            else:
                pass
"""

GOOD = {
    "matmul": MATMUL,
    "conv": CONV,
    "lowered": LOWERED,
    "argmax": """
        def argmax(A: f32[n], I: i64[()], V: f32[()]):
            for k in range(n):
                with block("argmax"):
                    vk = reduce(n, k)
                    with init():
                        I[()] = -1
                        V[()] = float("-inf")
                    with let(i, I[()]):
                        with let(v, V[()]):
                            I[()] = select(v < A[vk], vk, i)
                            V[()] = max(v, A[vk])
        """,
    "nested blocks": """
        def f(A: f32[8, 16], C: f32[8, 16]):
            for i, j_0 in grid(8, 4):
                with block("C_o"):
                    vi = spatial(8, i)
                    vj = spatial(4, j_0)
                    for j_1 in range(4):
                        with block("C"):
                            wj = spatial(16, vj * 4 + j_1)
                            C[vi, wj] = A[vi, wj]
        """,
    "gather, clamped": """
        def f(A: f32[8], I: i32[4], C: f32[4]):
            for i in range(4):
                with block("C"):
                    vi = spatial(4, i)
                    C[vi] = A[min(max(i64(I[vi]), 0), 7)]
        """,
    "gather, guarded": """
        def f(A: f32[n], I: i64[4], C: f32[4]):
            for i in range(4):
                with block("C"):
                    vi = spatial(4, i)
                    C[vi] = select(0 <= I[vi] and I[vi] < n, A[I[vi]], 0.0)
        """,
    "a clamp of a symbolic size": """
        def f(A: f32[n], C: f32[n]):
            for i in range(n):
                with block("C"):
                    vi = spatial(n, i)
                    C[vi] = A[min(max(vi - 1, 0), n - 1)] + A[n - 1 - vi]
        """,
    "no predicate on block variables, but on loops": """
        def f(A: f32[10], C: f32[10]):
            for i_0, i_1 in grid(3, 4):
                with block("C"):
                    vo = spatial(3, i_0)
                    vi = spatial(4, i_1)
                    where(i_0 * 4 + i_1 < 10)
                    C[vo * 4 + vi] = A[vo * 4 + vi]
        """,
    "a block without variables, and nothing at all": """
        def f(C: f32[()]):
            with block("C"):
                C[()] = 1.0
            pass
        """,
    "no iterations": """
        def f(C: f32[0]):
            for i in range(0):
                with block("C"):
                    vi = spatial(0, i)
                    C[vi] = 1.0
        """,
}


@pytest.mark.parametrize("name", GOOD)
def test_good_programs_pass(name):
    verify(parse(GOOD[name]))


def change(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


BAD_MATMUL = [
    # names
    (("i_1, j, k_0", "i_1, B, k_0"), ("(32, j)\n                vk", "(32, 0)\n                vk"),
     ("* B[vk, vj]", ""), "loop 'B' defines 'B', which is also a buffer"),
    (('"C"', '"T"'), "two blocks are named 'T'"),
    (("i_1, j, k_0, k_1", "i_1, j, k_0, k_0"), ("k_0 * 4 + k_1", "k_0"), "'k_0'"),
    (("vk = reduce(16, k_0", "vj = reduce(16, k_0"), ("vk", "vj"), "block 'T' defines 'vj', which"),
    (("vi", "i"), ("A[i,", "A[i,"), "'i', which is also a variable that is in scope here"),
    (("T = alloc", "C = alloc"), ("T[", "C["), "'C' names both a buffer and a buffer"),
    # variables
    (("A[vi, vk]", "A[vi, k_0]"), "block 'T' uses 'k_0' in T[vi, vj] + A[vi, k_0]"),
    (("A[vi, vk]", "A[vi, k_0]"), "a loop around the block; its body may use block variables only"),
    (("T[vi, vj] = 0.0", "T[vi, vj] = f32(vk)"), "a reduction variable; its init runs once"),
    # buffers and order
    (("max(T[vi, vj], 0.0)", "0.0"), ("T[vi, vj] = T[vi, vj] +", "C[vi, vj] = T[vi, vj] +"),
     ("init():\n                    T[vi, vj] = 0.0", "init():\n                    pass"),
     "block 'T' reads 'T' before anything writes it"),
    # types
    (("T[vi, vj] = 0.0", "T[vi, vj] = 0"), "T[vi, vj] is float32, but 0 is int64"),
    (("* B[vk, vj]", "* 2"), "A[vi, vk] * 2 have dtypes float32 and int64"),
    (("* B[vk, vj]", "* B[vk]"), "B[vk] has 1 indices, but B: f32[16, 32] has rank 2"),
    (("T[vi, vj] = 0.0", "T[vi] = 0.0"), "T[vi] has 1 indices"),
    (("A[vi, vk] *", "A[vi, i32(vk)] *"), "the index i32(vk) of type int32; convert it to int64"),
    (("A[vi, vk] *", "exp(f16(A[vi, vk])) *"), "applied to float16; convert it"),
    (("A[vi, vk] *", "f32(exp(A[vi, vk], dtype='float64')) *"), "float64, and exp gives float32"),
    (("A[vi, vk] *", "f32(isnan(A[vi, vk], dtype='int32')) *"), "int32, and isnan gives bool"),
    (("where(i_0 * 4 + i_1 < 30)", "where(i_0 * 4 + i_1)"), "condition of block 'T' is int64"),
    (("max(T[vi, vj], 0.0)", "select(T[vi, vj], 1.0, 0.0)"), "is float32, not bool"),
    (("max(T[vi, vj], 0.0)", "select(vi < 3, 1.0, 0)"), "float32 and int64; convert one"),
    (("max(T[vi, vj], 0.0)", "max(T[vi, vj], 0.0) // 2.0"), "'//' needs integers, not float32"),
    (("max(T[vi, vj], 0.0)", "f32(not vi)"), "not vi negates int64, not bool"),
    (("in parallel(8)", "in parallel(i32(8))"), "both are int64"),
    (("in parallel(8)", "in parallel(-8)"), "loop 'i_0' has the negative extent -8"),
    (("spatial(30, i)", "spatial(30, i32(i))"), "it is bound to i32(i), int32"),
    (("T = alloc(f32[30, 32])", "T = alloc(f32[-30, 32])"), "negative size"),
    # reductions
    (("vk = reduce", "vk = spatial"), "block 'T' has an init but no reduction variable"),
    (("T[vi, vj] = T[vi, vj] +", "T[vi, vk] = T[vi, vj] +"),
     "block 'T' writes T[vi, vk], whose place depends on the reduction variable 'vk'"),
    # ranges
    (("A[vi, vk]", "A[vi, vk + 1]"),
     "block 'T' reads A[vi, vk + 1] where index 1 can be 16, but A has shape (30, 16)"),
    (("A[vi, vk]", "A[vi - 1, vk]"),
     "block 'T' reads A[vi - 1, vk] where index 0 can be -1, but A has shape (30, 16)"),
    (("C[vi, vj] =", "C[vi * 2, vj] ="), "block 'C' writes C[vi * 2, vj] where index 0 can be 58"),
    (("                where(i_0 * 4 + i_1 < 30)\n", ""),
     "block 'T' binds 'vi' to i_0 * 4 + i_1, which can be 31, but 'vi' runs over [0, 30)"),
    (("k_0 * 4 + k_1)", "k_0 * 4 + k_1 - 1)"), "binds 'vk' to k_0 * 4 + k_1 - 1, which can be -1"),
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_MATMUL, ids=lambda row: row[-1][:60])
def test_a_broken_matmul_is_rejected(row):
    *pairs, message = row
    with pytest.raises(VerifyError) as caught:
        verify(parse(change(MATMUL, *pairs)))
    assert message in str(caught.value)


def test_calls_of_no_math_function_are_rejected():
    """Names of C's functions among them, and whatever is no name."""
    x = Buffer("x", (), "float32")
    for name in ("cbrt", "abs", "__builtin_trap", ""):
        store = Store(x, (), Call(name, (Load(x, ()),), "float32"))
        with pytest.raises(VerifyError, match=f"there is no math function '{name}'; there are exp"):
            verify(PrimFunc("f", (x,), (), store))
    for name in ("cbrt", "reinterpret", None, ["exp"]):
        with pytest.raises(TensorIRError, match="call: there is no math function"):
            te.call(name, te.const(1.0, "float32"))


BAD_CONV = [
    (("vh < n + 1", "vh < n + 2"), "block 'P' reads X[vc, vh - 1, vw - 1] where index 1 is not "
     "known to stay within [0, n), but X has shape (3, n, 15)"),
    (("1 <= vw and ", ""), "index 2 can be -1, but X has shape (3, n, 15)"),
    (("select(\n                1", "select(not(1"), ("vw < 16", "vw < 16)"), "index 1 can be -1"),
    (("f32[3, n + 2, 17]", "f32[3, n + 1, 17]"), "block 'P' writes P[vc, vh, vw]"),
    (("h, w in grid(3, n + 2", "h, w in grid(3, n + 3"), "which is not known to stay within"),
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_CONV, ids=lambda row: row[-1][:60])
def test_a_broken_convolution_is_rejected(row):
    *pairs, message = row
    with pytest.raises(VerifyError) as caught:
        verify(parse(change(CONV, *pairs)))
    assert message in str(caught.value)


BAD_LOWERED = [
    (("T[j]", "U[j]"), ("T, f32", "U, f32"), ("T[ramp", "A[ramp"),
     "loop 'j' reads 'U' before anything writes it"),
    (("ramp(j * 8, 1, 8)", "ramp(j * 8 + 200, 1, 8)"),
     "the function writes T[ramp(j * 8 + 200, 1, 8)] where index 0 can be"),
    (("broadcast(0.0, 8)", "0.0"), "is float32x8, but 0.0 is float32"),
    (("if i < 4", "if i"), "the condition of an if is int64"),
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_LOWERED, ids=lambda row: row[-1][:60])
def test_a_broken_lowered_program_is_rejected(row):
    *pairs, message = row
    with pytest.raises(VerifyError) as caught:
        verify(parse(change(LOWERED, *pairs)))
    assert message in str(caught.value)


i, x = Var("i"), Var("x", "float32")
A, B = (Buffer(name, (8,), "float32") for name in "AB")
ONE = const(1.0, "float32")
EIGHT = const(8)


class Leaf(Expr):
    __slots__ = ()

    def describe(self) -> str:
        return "<leaf>"

    def children(self):
        return ()


def leaf() -> Expr:
    made = object.__new__(Leaf)
    object.__setattr__(made, "dtype", "float32")
    return made


def store(index=i, value=ONE, buffer=A):
    return Store(buffer, (index,), value)


OTHER = Buffer("A", (8,), "float32", "shared")

BUILT = [
    (For(Var("i", "int32"), EIGHT, store(const(0))), "loop 'i' is int32 and its extent 8 is int64"),
    (For(Var("for"), EIGHT, store(const(0))), "'for' is not a name"),
    (For(Var("i.outer"), EIGHT, store(const(0))), "'i.outer' is not a name"),
    (store(), "the function uses 'i' in i, which no loop, block, let or parameter shape"),
    (Let(x, const(1), store(const(0))), "'x' is float32, but 1 is int64"),
    (Let(x, ONE, Let(x, ONE, store(const(0)))), "defines 'x', which is also a variable"),
    (store(const(0), buffer=OTHER),
     "uses buffer A: f32[8] in shared memory, but the function declares A: f32[8]"),
    (store(const(0), buffer=Buffer("Q", (8,), "float32")), "uses buffer Q: f32[8], which is not a"),
    (seq(Alloc(Buffer("Q", (8,), "float32"), Seq(())),
         store(const(0), buffer=Buffer("Q", (8,), "float32"))), "or allocated around it"),
    (store(const(8)), "the function writes A[8] where index 0 can be 8, but A has shape (8,)"),
    (store(const(0), leaf()), "<leaf> is a Leaf, which a function cannot contain"),
    (For(i, EIGHT, store(), ForKind.THREAD), "loops of kind thread have one"),
    (For(i, EIGHT, store(), thread="threadIdx.x"), "loops of kind thread have one"),
    (store(Ramp(const(0), const(1), 1)), "has 1 lanes; a vector has two or more"),
    (store(const(0), BinOp("+", x, ONE)), "uses 'x' in x + 1.0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"), BUILT, ids=lambda v: v[:50] if isinstance(v, str) else ""
)
def test_what_the_parser_cannot_spell_is_rejected_too(body, message):
    with pytest.raises(VerifyError) as caught:
        verify(PrimFunc("f", (A,), (), body))
    assert message in str(caught.value)


def test_an_extent_that_may_be_negative_or_empty_proves_nothing_else():
    n = Var("n")
    vi = IterVar(i, BinOp("-", n, const(2)), IterKind.SPATIAL, Var("l"))
    buffer = Buffer("A", (n,), "float32")
    block = Block("b", (vi,), Store(buffer, (i + 2,), ONE))
    verify(PrimFunc("f", (buffer,), (), For(Var("l"), vi.extent, block)))
    wrong = Block("b", (vi,), Store(buffer, (i + 3,), ONE))
    with pytest.raises(VerifyError, match="is not known to stay within"):
        verify(PrimFunc("f", (buffer,), (), For(Var("l"), vi.extent, wrong)))


@pytest.fixture
def asked(monkeypatch) -> list[Buffer]:
    """The buffers of which an access was looked at, each time."""
    found: list[Buffer] = []
    look = ranges._access

    def noted(verb, buffer, indices, scope):
        found.append(buffer)
        look(verb, buffer, indices, scope)

    monkeypatch.setattr(ranges, "_access", noted)
    return found


def test_a_program_that_was_proved_is_not_looked_through_again(asked):
    func = parse(CONV)
    verify(func)
    assert {buffer.name for buffer in asked} == {"X", "W", "P", "Y"}
    del asked[:]
    verify(with_body(func, func.body))
    assert not asked


CHOICES = {
    "then": lambda cond, a, b: Select(cond, a, b),
    "else": lambda cond, a, b: Select(Not(cond), b, a),
    "both": lambda cond, a, b: BinOp("+", Select(cond, a, ONE), Select(Not(cond), b, a)),
}


def chosen(choose, value: Expr) -> PrimFunc:
    """Five choices, each of which reads the one inside of it three times or more."""
    for n in range(5):
        value = choose(BinOp("<", value, const(float(n), "float32")), value + 1.0, value)
    vi = IterVar(i, EIGHT, IterKind.SPATIAL, Var("l"))
    return PrimFunc("f", (A, B), (), For(Var("l"), EIGHT, Block("b", (vi,), Store(B, (i,), value))))


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_in_range_is_not_asked_again_where_more_is_known(name, asked):
    verify(chosen(CHOICES[name], Load(A, (i,))))
    assert asked.count(A) == 1
    with pytest.raises(VerifyError, match="reads A"):
        verify(chosen(CHOICES[name], Load(A, (i + 1,))))


def test_a_block_that_was_proved_is_proved_again_in_other_surroundings():
    text = """
def f(A: f32[n], B: f32[n]):
    for i in range(8):
        with block("B"):
            vi = spatial(8, i)
            where(i < n)
            B[vi] = A[vi]
"""
    func = parse(text)
    for _ in range(2):
        verify(func)
    loop = func.body
    assert isinstance(loop, For)
    wider = with_body(func, replace(loop, extent=const(9)))
    for _ in range(2):
        with pytest.raises(VerifyError, match="'vi' to i, which can be 8"):
            verify(wider)
    block = loop.body
    assert isinstance(block, Block)
    for _ in range(2):
        with pytest.raises(VerifyError, match="writes B"):
            verify(with_body(func, replace(loop, body=replace(block, predicate=TRUE))))
    verify(func)


def test_a_body_that_is_well_typed_is_so_in_every_block_but_not_another():
    func = parse(MATMUL)
    verify(func)
    outer = func.body
    assert isinstance(outer, Seq)
    blocks = [s for s in walk(outer) if isinstance(s, Block)]
    bad = replace(blocks[1], body=store(index=const(0, "int32")))
    for _ in range(2):
        with pytest.raises(VerifyError, match="int32"):
            check_types(with_body(func, bad))
