"""Reading programs back: exactly the same objects, and errors that say what was expected where."""

from __future__ import annotations

import functools
import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import ParseError
from tensorir.expr import BINARY_OPS, BinOp, Call, Cast, Const, Load, Not, Select, Var
from tensorir.func import PrimFunc
from tensorir.numbers.intrin import MATH
from tensorir.stmt import (
    Alloc,
    Block,
    For,
    ForKind,
    If,
    IterKind,
    IterVar,
    Let,
    Seq,
    Store,
    seq,
)
from tensorir.structural import structural_equal
from tensorir.text.parser import parse, parse_expr
from tensorir.text.printer import format_expr, format_func
from tensorir.vector_expr import Broadcast, Ramp

GOLDEN = Path(__file__).parents[1] / "golden" / "printer"

SETTINGS = settings(max_examples=120, derandomize=True, deadline=None)

i, j, n = Var("i"), Var("j"), Var("n")
A = Buffer("A", (8, n), "float32")
B = Buffer("B", (n + 1,), "int32")
S = Buffer("S", (), "float32")
ENV = {"i": i, "j": j, "n": n, "x": Var("x", "float32"), "A": A, "B": B, "S": S}


def constants():
    ints = st.sampled_from(dt.SIGNED + dt.UNSIGNED).flatmap(
        lambda t: st.builds(Const, st.integers(*dt.int_limits(t)), st.just(t))
    )
    kinds = st.sampled_from((*dt.FLOATS, "float32x8", "float32", "float32"))
    floats = st.builds(Const, st.floats(), kinds)
    return st.one_of(ints, floats, st.builds(Const, st.booleans(), st.just("bool")))


def expressions(leaves, size=12):
    """Any expression at all, well typed or not: the text must not depend on types."""

    def larger(inner):
        call = st.sampled_from(sorted(MATH)).flatmap(
            lambda name: st.builds(
                Call,
                st.just(name),
                st.tuples(*[inner] * MATH[name].arity),
                st.sampled_from(("float32", "float64", "bool")),
            )
        )
        return st.one_of(
            st.builds(BinOp, st.sampled_from(BINARY_OPS), inner, inner),
            st.builds(BinOp, st.sampled_from(BINARY_OPS), inner, inner),
            st.builds(Not, inner),
            st.builds(Cast, st.sampled_from((*dt.SCALARS, "int64x4")), inner),
            st.builds(Select, inner, inner, inner),
            st.builds(Load, st.just(A), st.tuples(inner, inner)),
            st.builds(Load, st.just(B), st.tuples(inner)),
            st.just(Load(S, ())),
            st.builds(Ramp, inner, inner, st.sampled_from((4, 16))),
            st.builds(Broadcast, inner, st.just(4)),
            call,
        )

    return st.recursive(leaves, larger, max_leaves=size)


CONSTANTS = constants()
LEAVES = st.one_of(st.sampled_from([v for v in ENV.values() if isinstance(v, Var)]), CONSTANTS)


@SETTINGS
@given(expressions(LEAVES))
def test_expressions_come_back_as_the_same_object(e):
    assert parse_expr(format_expr(e), ENV) is e


@functools.cache
def values_in(scope):
    return expressions(st.one_of(st.sampled_from(scope), CONSTANTS), size=3)


@st.composite
def statements(draw, scope, depth=2):
    """A statement whose expressions speak of the variables in `scope`."""
    values = values_in(scope)

    def child(*new):
        return draw(statements((*scope, *new), depth - 1))

    kind = draw(st.sampled_from(("store", "for", "seq", "block", "let", "if", "alloc")))
    fresh = f"v{depth}{len(scope)}"
    if depth == 0 or kind == "store":
        return Store(A, (draw(values), draw(values)), draw(values))
    if kind == "for":
        notes = draw(st.sampled_from(({}, {"k": 1}, {"text": "'\"\n", "list": [1.5, None, True]})))
        loop = draw(st.sampled_from(ForKind))
        thread = "blockIdx.y" if loop is ForKind.THREAD else None
        extent = draw(values)
        var = Var(fresh, extent.dtype)
        return For(var, extent, child(var), loop, notes, thread)
    if kind == "seq":
        return seq(child(), child())
    if kind == "let":
        value = draw(values)
        var = Var(fresh, value.dtype)
        return Let(var, value, child(var))
    if kind == "if":
        return If(draw(values), child(), draw(st.sampled_from((None, Seq(())))) or child())
    if kind == "alloc":
        shape = (draw(st.integers(1, 9)), Const(draw(st.integers(1, 9)), "int64"))
        return Alloc(
            Buffer(fresh, shape, "float32x4", draw(st.sampled_from(("local", "shared")))), child()
        )
    iters = []
    for number in range(draw(st.integers(0, 3))):
        extent = draw(values)
        var = Var(f"{fresh}_{number}", extent.dtype)
        iters.append(IterVar(var, extent, draw(st.sampled_from(IterKind)), draw(values)))
    new = [it.var for it in iters]
    init = draw(st.sampled_from((None, True))) and child(*new)
    notes = draw(st.sampled_from(({}, {"nested": {"a": []}})))
    return Block(fresh, tuple(iters), child(*new), init, draw(values), notes)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(statements((i, j, n)))
def test_functions_come_back_as_the_same_program(body):
    loops = For(i, Const(4, "int64"), For(j, Const(4, "int64"), body))
    func = PrimFunc("f", (A, B, S), (), loops, {"key": [1, {"b": None}]})
    again = parse(format_func(func))
    assert structural_equal(func, again, names=True)
    assert format_func(again) == format_func(func)
    assert all(a is b for a, b in zip(func.params, again.params))


@pytest.mark.parametrize("name", ["matmul", "every_construct"])
def test_golden_text_comes_back_unchanged(name):
    text = (GOLDEN / f"{name}.txt").read_text()
    assert format_func(parse(text)) + "\n" == text


def test_nothing_is_folded():
    e = parse_expr("i * 1 + 0 - (2 + 3)", ENV)
    assert format_expr(e) == "i * 1 + 0 - (2 + 3)"


def test_what_people_write_by_hand():
    assert parse_expr("i > j", ENV) is BinOp("<", j, i)
    assert parse_expr("i >= j", ENV) is BinOp("<=", j, i)
    assert parse_expr("1e3", ENV) is Const(1000.0, "float32")
    assert parse_expr("f64(3)", ENV) is Const(3.0, "float64")
    text = """
        def f(A: f32[4]):
            for i, j in grid(2, 2):
                A[i * 2 + j] = 1.0
                pass
    """
    assert parse(text).name == "f"


def test_sizes_and_names_of_inner_scopes():
    func = parse("""
        def f(A: f32[n, n + m], C: f32[n]):
            for i in range(i32(4)):
                for j in range(m):
                    with let(y, A[0, j]):
                        C[0] = y
    """)
    assert func.size_vars == (Var("n"), Var("m"))
    assert func.body.var is Var("i", "int32")
    assert func.body.body.body.var is Var("y", "float32")


FUNC = "def f(A: f32[4]):\n    "
BLOCK = FUNC + 'with block("b"):\n        '
WITH = ":\n            pass"
SIGNATURES = {
    "A: f32[4], *rest": "not 'rest' beside a star",
    "A: f32[4], *, B: f32[4]": "not 'B' beside a star",
    "A: f32[4], **more": "not 'more' beside a star",
    "A: f32[4], /": "not 'A' beside a star or a slash",
    "A: f32[4] = 3": "without default values",
}
"""Parameters that Python has; B was no parameter of the program, in silence."""

NO_STATEMENTS = {
    "with where(True)" + WITH: "with block",
    "with annotate({})" + WITH: "with block",
    "x = init()": "an assignment to a buffer element",
    "x = where(True)": "an assignment to a buffer element",
    "x = annotate({})": "an assignment to a buffer element",
    "x = init(3, i)": "an assignment to a buffer element",
    "init()": "a loop, a block",
    "with init() as x" + WITH: "with init()",
    "with init(), init()" + WITH: "with init()",
    "with init(3)" + WITH: "init()",
}
"""What a block says of itself, in other kinds of statements."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 3", "line 1: expected one function"),
        ("def f(A: f32[4]:\n    pass", "line 1: expected Python syntax"),
        ("def f(A):\n    pass", "expected a type and shape for 'A'"),
        ("def f(A: f31[4]):\n    pass", "expected a type such as f32 or i64, not 'f31'"),
        ("def f(A: f32 >= 1):\n    pass", "expected a type and shape for 'A'"),
        ('def f(A: buffer(f32[4], scope="moon")):\n    pass', "not 'moon'"),
        (FUNC + "A[0] = B[0]", "line 2: expected a buffer, not 'B'; known here: A"),
        (FUNC + "A[i] = 0.0", "expected a known name, not 'i'"),
        (FUNC + "A[0] = A", "expected an index after the buffer 'A'"),
        (FUNC + "A = 3", "expected an assignment to a buffer element"),
        (FUNC + "while True:\n        pass", "line 2: expected a loop, a block"),
        (FUNC + "for i in list(4):\n        pass", "expected a loop over range, parallel"),
        (FUNC + "for i in range(1, 4):\n        pass", "expected range(size)"),
        (FUNC + "for i, j in grid(4):\n        pass", "one name for each size of grid"),
        (FUNC + "for i in range(4, step=1):\n        pass", "annotations"),
        (FUNC + "for i in range(4, annotations=3):\n        pass", "a dictionary of plain values"),
        (FUNC + 'with block("b"), init():\n        pass', "with block"),
        (FUNC + "with open(3):\n        pass", "with block"),
        (FUNC + "with block(b):\n        pass", "expected a string, not 'b'"),
        (FUNC + "with let(x):\n        pass", "let(name, value)"),
        (FUNC + "T = alloc(4)", "a type and shape for 'T'"),
        (FUNC + "T = alloc(f32[4], 3)", "alloc(f32[16, 16]"),
        (BLOCK + "vi = spatial(4)", "spatial(size, value)"),
        (BLOCK + "where(True, False)", "where(condition)"),
        (BLOCK + "annotate({1: 2})", "a dictionary of plain values"),
        (BLOCK + "A[0] = 0.0\n        where(True)", "line 4: expected a loop, a block"),
        (FUNC + "A[0] = -A[0]", "0 - x"),
        (FUNC + "A[0] = A[0] ** 2.0", "one of + - *"),
        (FUNC + "A[0] = select(0 < 1 < 2, 1.0, 2.0)", "one comparison at a time"),
        (FUNC + "A[0] = select(0 in 3, 1.0, 2.0)", "one of < <= >"),
        (FUNC + "A[0] = max(1.0)", "max(a, b)"),
        (FUNC + "A[0] = expp(1.0)", "a known function"),
        (FUNC + "A[0] = expp(1.0, dtype='float32')", "there is no math function 'expp'"),
        (FUNC + "A[0] = reinterpret(1.0, dtype='real')", "a type such as float32 or int64x8"),
        (FUNC + "A[0] = exp(1.0, 2.0)", "the arguments of exp"),
        (FUNC + "A[0] = exp(1.0, mode=3)", "and no other keyword"),
        (FUNC + "A[0] = math.exp(1.0)", "the name of a function"),
        (FUNC + "A[0] = f32('text')", "a number, True or False"),
        (FUNC + "A[0] = float('zero')", "not 'zero'"),
        (FUNC + "A[0] = u8(300)", "between 0 and 255 for uint8, not 300"),
        (FUNC + "A[0] = i32(1.5)", "a value of int32, not 1.5"),
        (FUNC + "A[0] = [1]", "an expression, not '[1]'"),
        (FUNC + "A[ramp(0, 1, i)] = 0.0", "expected an integer, not 'i'"),
        (FUNC + "attrs({})", "expected a loop, a block"),
        (FUNC + "x = alloc({})", "a type and shape for 'x'"),
        *((f"def f({args}):\n    A[0] = 1.0", said) for args, said in SIGNATURES.items()),
        (FUNC + "A[0] = '\ud800'", "halves of surrogate pairs"),
        *((BLOCK + f"{usage}\n        A[0] = 0.0", said) for usage, said in NO_STATEMENTS.items()),
    ],
)
def test_errors_name_the_line_and_what_was_expected(text, message):
    if "attrs" in text:
        text = FUNC + "pass\n    attrs({})"
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("line ")


EVERYTHING = """
def f(A: f32[8, 4], B: f32[8]):
    attrs({"inout": ["B"]})
    T = alloc(f32[8])
    for i in parallel(8):
        for j, k in grid(1, 4):
            with block("T"):
                vi = spatial(8, i)
                vk = reduce(4, k + j)
                where(k < 4)
                annotate({"key": 1})
                with init():
                    T[vi] = 0.0
                T[vi] = T[vi] + exp(A[vi, vk]) * max(f32(vi), 1.0)
    with alloc(L, f32[4], scope="local"):
        for i in vectorized(4):
            with let(x, select(i < 2, A[i, 0], 2.0)):
                prefetch(A[i, 0])
                L[i] = x
        sync("block")
        for i in thread("lane", 4):
            B[i] = exchange(L[i], 1)
"""


def test_words_in_the_places_of_others_are_told():
    """A `with where(...)` and an assignment of init() ended in AttributeErrors."""
    pieces = re.split(r"(\w+)(?=\()", EVERYTHING)
    words = sorted({*pieces[1::2], "with block", "x = init", "extern", "part", "ramp", "shuffle"})
    read = 0
    for place, word in product(range(1, len(pieces), 2), words):
        changed = "".join([*pieces[:place], word, *pieces[place + 1 :]])
        try:
            str(parse(changed))
            read += 1
        except ParseError as error:
            assert str(error).startswith("line ")
    assert len(pieces) // 2 < read < len(pieces) * len(words) // 8
