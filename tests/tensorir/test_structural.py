"""Structural equality and hashes: names do not count, everything else does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensorir.expr import BinOp, Var, const
from tensorir.stmt import Seq, Store
from tensorir.structural import structural_equal, structural_hash, structure_key, workload_key
from tensorir.text.parser import parse
from tensorir.visit import substitute_stmt

TEXT = """
@prim_func
def f(A: f32[16, n], C: f32[16]):
    T = alloc(f32[16, n], scope="local")
    for i, j in grid(16, n):
        with block("T"):
            vi = spatial(16, i)
            vj = spatial(n, j)
            T[vi, vj] = exp(A[vi, vj]) * 2.0
    for i in parallel(16):
        for j in range(n):
            with block("C"):
                vi = spatial(16, i)
                vj = reduce(n, j)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + T[vi, vj]
"""


def change(*pairs: tuple[str, str]) -> str:
    text = TEXT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


RENAMED = [
    [("def f", "def g")],
    [("i, j in", "a, b in"), ("16, i)", "16, a)"), ("n, j)", "n, b)"), ("for i in", "for a in"),
     ("for j in", "for b in")],
    [("vi", "x"), ("vj", "y")],
    [('"T"', '"first"'), ('"C"', '"second"')],
    [("T[", "tmp["), ("T =", "tmp ="), ("A[", "arg["), ("A:", "arg:")],
    [("n]", "m]"), ("n)", "m)"), ("(n,", "(m,")],
]  # fmt: skip

CHANGED = [
    [("exp(", "tanh(")],
    [("2.0", "2.5")],
    [("f32[16]", "f64[16]")],
    [('scope="local"', 'scope="shared"')],
    [("parallel(16)", "range(16)")],
    [("reduce(n, j)", "opaque(n, j)")],
    [("in range(n)", "in range(n, annotations={'k': 1})")],
    [("C[vi] = 0.0", "pass")],
    [("            T[vi, vj] =", "            where(i < 5)\n            T[vi, vj] =")],
    [("f32[16, n], C", "f32[16, n + 1], C")],
    [("C[vi] + T[vi, vj]", "T[vi, vj] + C[vi]")],
    [("exp(A[vi, vj])", "exp(A[vj, vi])")],
    [('    T = alloc(f32[16, n], scope="local")\n', '    T = alloc(f32[16, n], scope="local")\n'
      "    U = alloc(f32[16])\n")],
    [("    T = alloc", "    attrs({'k': 1})\n    T = alloc")],
]  # fmt: skip


@pytest.mark.parametrize("pairs", RENAMED, ids=lambda p: p[0][0])
def test_names_do_not_count(pairs):
    a, b = parse(TEXT), parse(change(*pairs))
    assert structural_equal(a, b)
    assert not structural_equal(a, b, names=True)
    assert structural_hash(a) == structural_hash(b)
    assert workload_key(a) == workload_key(b)


@pytest.mark.parametrize("pairs", CHANGED, ids=lambda p: p[0][0].strip())
def test_everything_else_counts(pairs):
    a, b = parse(TEXT), parse(change(*pairs))
    assert not structural_equal(a, b)
    assert structural_hash(a) != structural_hash(b)


def test_a_program_equals_itself_read_back():
    a, b = parse(TEXT), parse(TEXT)
    assert a is not b
    assert structural_equal(a, b, names=True)
    assert structural_hash(a) == structural_hash(b)


def test_nesting_of_sequences_does_not_count():
    store = parse("def f(A: f32[4]):\n    A[0] = 1.0").body
    assert isinstance(store, Store)
    assert structural_equal(Seq((store, Seq((store,)))), Seq((store, store)))
    assert structural_equal(Seq((store,)), store)
    assert not structural_equal(Seq((store, store)), store)


def test_variables_are_told_apart_where_one_shadows_another():
    same = "for {0} in range(4):\n        for {1} in range(4):\n            A[{2}] = 1.0"
    texts = ["def f(A: f32[4]):\n    " + same.format(*names) for names in ("iji", "ijj", "baa")]
    a, b, c = map(parse, texts)
    assert not structural_equal(a, b)
    assert structural_equal(b, c)
    assert not structural_equal(a, c)


def test_free_variables_of_a_statement_count_by_name():
    body = parse("def f(A: f32[4]):\n    for i in range(4):\n        A[i] = 1.0").body.body
    other = substitute_stmt(body, {Var("i"): Var("j")})
    assert not structural_equal(body, other)


def test_structure_is_the_same_for_other_constant_shapes():
    a = parse(TEXT)
    bigger = parse(change(("16", "1000")))
    assert structure_key(a) == structure_key(bigger)
    assert workload_key(a) != workload_key(bigger)
    assert structure_key(a) != structure_key(parse(change(("exp(", "tanh("))))
    assert structure_key(a) != structure_key(parse(change(("f32[16]", "f64[16]"))))


def test_coinciding_sizes_do_not_change_the_structure():
    text = """
        def f(A: f32[{0}, {1}]):
            for i, j in grid({0}, {1}):
                A[i + {0}, i + {1}] = 1.0
    """
    square, oblong = (parse(text.format(*sizes)) for sizes in ((4, 4), (4, 8)))
    assert structure_key(square) == structure_key(oblong)


def test_shared_expressions_take_linear_time():
    e = Var("i")
    for _ in range(60):
        e = BinOp("+", BinOp("*", e, e), const(1))
    func = parse("def f(A: i64[4]):\n    for i in range(4):\n        A[i] = i")
    deep = Store(func.params[0], (const(0),), e)
    assert structural_equal(deep, Store(func.params[0], (const(0),), e))


def test_keys_are_pinned():
    """A change of these orphans all tuning records: they are filed under such keys."""
    func = parse(TEXT)
    assert workload_key(func) == "13d4ec0db46ba1abcd4652fcf3bf2c8f"
    assert structure_key(func) == "0dbfda871c5051b53c2d834f0b28685d"


@pytest.mark.parametrize("seed", ["0", "1"])
def test_hashes_do_not_depend_on_the_process(seed):
    program = (
        "import sys; from tensorir.text.parser import parse; "
        "from tensorir.structural import structural_hash; "
        "print(structural_hash(parse(sys.stdin.read())))"
    )
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], input=TEXT, env=env, capture_output=True, text=True
    )
    assert done.stdout.strip() == structural_hash(parse(TEXT)), done.stderr
