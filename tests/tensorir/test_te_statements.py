"""Stages that are programs of statements: te.extern with a PrimFunc, and PrimFuncs called."""

import numpy as np
import pytest

from autotune import default_schedule
from backends import ObjectCache, build
from schedule import Schedule
from tensorir import reference_with_tolerance, te, verify
from tensorir.errors import TensorIRError, VerifyError
from tensorir.interpreter.interpret import interpret
from tensorir.text.parser import parse
from tensorir.text.script import (
    alloc,
    block,
    f32,
    grid,
    i32,
    i64,
    init,
    let,
    opaque,
    reduce,
    spatial,
    where,
)

n, m = te.var("n"), te.var("m")


@te.prim_func
def solve(L: f32[n, n], b: f32[n], x: f32[n]):
    """L x = b by forward substitution."""
    for i in range(n):
        with block("x"):
            vi = opaque(n, i)
            x[vi] = b[vi]
        for k in range(i):
            with block("x_update"):
                vi = opaque(n, i)
                vk = opaque(n, k)
                x[vi] = x[vi] - L[vi, vk] * x[vk]
        with block("x_div"):
            vi = opaque(n, i)
            x[vi] = x[vi] / L[vi, vi]


@te.prim_func
def runs(A: f32[n], length: i32[n], longest: i32[1]):
    """How long each run of rising values is so far, and the longest one."""
    with block("longest"):
        v = spatial(1, 0)
        longest[v] = i32(0)
    for i in range(n):
        with block("length"):
            vi = opaque(n, i)
            length[vi] = i32(1)
        with block("goes_on"):
            vi = opaque(n, i)
            if vi > 0:
                if A[max(vi - 1, 0)] < A[vi]:  # noqa: F821
                    length[vi] = length[max(vi - 1, 0)] + i32(1)  # noqa: F821
        with block("keep"):
            vi = opaque(n, i)
            longest[0] = max(longest[0], length[vi])  # noqa: F821


@te.prim_func
def counts(bin: i32[n], found: i32[8], order: i32[n]):
    """How often each of 8 numbers occurs, and how often each element occurred before it."""
    for j in range(8):
        with block("found"):
            vj = spatial(8, j)
            found[vj] = i32(0)
    for i in range(n):
        with block("order"):
            vi = opaque(n, i)
            order[vi] = found[min(max(i64(bin[vi]), 0), 7)]  # noqa: F821
        with block("count"):
            vi = opaque(n, i)
            found[min(max(i64(bin[vi]), 0), 7)] = order[vi] + i32(1)  # noqa: F821


@te.prim_func
def eliminate(A: f32[n, n], U: f32[n, n]):
    """Gaussian elimination: a block for each step, with whole rows at once."""
    for i, j in grid(n, n):
        with block("U"):
            vi = spatial(n, i)
            vj = spatial(n, j)
            U[vi, vj] = A[vi, vj]
    for k in range(n):
        for i, j in grid(n, n):
            with block("step"):
                vk = opaque(n, k)
                vi = spatial(n, i)
                vj = spatial(n, n - 1 - j)
                where(k < i and k <= n - 1 - j)
                U[vi, vj] = U[vi, vj] - U[vi, vk] / U[vk, vk] * U[vk, vj]


@te.prim_func
def growing(A: f32[n, n], S: f32[n]):
    """Sums of which each reads the ones before, and all terms of it."""
    for i in range(n):
        for k in range(i + 1):
            with block("S"):
                vi = opaque(n, i)
                vk = reduce(n, k)
                with init():
                    S[vi] = A[vi, vi]
                S[vi] = S[vi] + A[vi, vk]
        with block("half"):
            vi = opaque(n, i)
            S[vi] = S[vi] * 0.5 + S[max(vi - 1, 0)]  # noqa: F821


def normal(*shape):
    return np.random.default_rng(7).normal(size=shape).astype("float32")


def lower_triangle(size):
    return np.tril(normal(size, size)).astype("float32") + 4 * np.eye(size, dtype="float32")


def whole(a):
    return np.random.default_rng(3).integers(-1, 9, size=a).astype("int32")


CASES = {
    solve: lambda k: (lower_triangle(k), normal(k)),
    runs: lambda k: (normal(k),),
    counts: lambda k: (whole(k),),
    eliminate: lambda k: (lower_triangle(k) + 0.1,),
    growing: lambda k: (normal(k, k),),
}


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("func", CASES, ids=lambda func: func.name)
def test_the_reference_and_its_bounds(func, size, tmp_path):
    arrays = CASES[func](size)
    found, bounds = reference_with_tolerance(func, *arrays)
    made = build(func, cache=ObjectCache(tmp_path))(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    for kernel, run, value, bound in zip(made, interpret(func, *arrays), found, bounds):
        for each in (kernel, run):
            assert (abs(each.astype(float) - value) <= bound).all()
        assert (bound <= 1e-4 * (1 + abs(value))).all()


def test_what_the_programs_compute():
    L, b = CASES[solve](9)
    np.testing.assert_allclose(interpret(solve, L, b)[0], np.linalg.solve(L, b), rtol=1e-5)
    lengths, longest = interpret(runs, np.array([1, 2, 3, 0, 5, 5], "float32"))
    assert lengths.tolist() == [1, 2, 3, 1, 2, 1] and longest.tolist() == [3]


def around():
    """Stages before, between and after, one program twice, and another of several outputs."""
    L, b = te.placeholder((m, m), name="L"), te.placeholder((m,), name="b")
    B = te.compute((m,), lambda i: b[i] * 2.0, name="B")
    x = solve(L, B)
    y = te.extern((m,), [L, x], solve, name="y")
    length, longest = runs(y)
    z = te.compute((m,), lambda vi: y[vi] + x[vi] * te.cast(length[vi], "float32"), name="z")
    return te.create_prim_func([L, b, z, longest]), (L, b, B, x, y, z, longest)


def test_stages_of_a_graph(tmp_path):
    func, _ = around()
    verify(func)
    assert [b.name for b in func.params] == ["L", "b", "z", "longest"]
    names = Schedule(func).get_blocks()
    assert names == [
        "B", "x", "x_update", "x_div", "y", "x_update_1", "x_div_1",
        "longest", "length", "goes_on", "keep", "z",
    ]  # fmt: skip
    assert repr(parse(repr(func))) == repr(func)
    cache = ObjectCache(tmp_path)
    for size in (1, 6):
        arrays = CASES[solve](size)
        x = np.linalg.solve(arrays[0], arrays[1] * 2)
        y = np.linalg.solve(arrays[0], x)
        lengths, longest = interpret(runs, y.astype("float32"))
        (value, top), (bound, _) = reference_with_tolerance(func, *arrays)
        np.testing.assert_allclose(value, y + x * lengths, rtol=1e-5)
        assert top == longest
        for each in (func, default_schedule(func, "c").func):
            made, found = build(each, cache=cache)(*arrays)
            assert (abs(made - value) <= bound).all() and found == longest


@pytest.mark.sampled(2)
@pytest.mark.parametrize("func", CASES, ids=lambda func: func.name)
def test_default_schedules(func, tmp_path):
    """Of the program itself, and of the one in which it is a stage between two others."""
    A = [te.placeholder(p.shape, p.dtype, name=p.name) for p in func.inputs]
    given = [te.compute(t.shape, lambda *i, t=t: t[i] + t[i], name=f"{t.name}_2") for t in A]
    made = func(*given)
    made = made if isinstance(made, tuple) else (made,)
    after = [te.compute(t.shape, lambda *i, t=t: t[i] * 3, name=f"{t.name}_3") for t in made]
    for whole in (func, te.create_prim_func([*A, *after])):
        arrays = CASES[func](9)
        found, bounds = reference_with_tolerance(whole, *arrays)
        kernel = build(default_schedule(whole, "c -threads=2"), cache=ObjectCache(tmp_path))
        results = kernel(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        for got, value, bound in zip(results, found, bounds):
            assert (abs(got.astype(float) - value) <= bound).all()


def test_blocks_are_scheduled_like_any_others():
    func, _ = around()
    sch = Schedule(func)
    sch.compute_inline("B")
    sch.split(sch.get_loops("x_update_1")[1], [None, 4])
    outer, _ = sch.split(sch.get_loops("z")[0], [None, 2])
    sch.parallel(outer)
    arrays = CASES[solve](6)
    for got, wanted in zip(interpret(sch.func, *arrays), interpret(func, *arrays)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_te_schedule_of_the_stages_around():
    _, (L, b, B, x, y, z, longest) = around()
    s = te.create_schedule([z.op, longest.op], [L, b, z, longest])
    s[B].compute_inline()
    s[z].vectorize(s[z].split(z.op.axis[0], 4)[1])
    sch = s.schedule
    sch.split(sch.get_loops("x_update")[1], [None, 2])
    arrays = CASES[solve](5)
    for got, wanted in zip(interpret(sch.func, *arrays), interpret(s.prim_func, *arrays)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    with pytest.raises(TensorIRError, match=r"s\.schedule.*'x', 'x_update', 'x_div' write"):
        s[x].split(z.op.axis[0], 4)
    with pytest.raises(TensorIRError, match="no loop of stage 'y' now; its loops are none"):
        s[B].compute_at(s[y], z.op.axis[0])


def test_sizes_are_those_of_the_tensors(tmp_path):
    """Numbers, expressions, and names that the program has for something else."""
    i, vk = te.var("i"), te.var("vk")
    for size in (te.const(5, "int64"), i, vk, i * 2, te.var("x")):
        L, b = te.placeholder((size, size), name="L"), te.placeholder((size,), name="vi")
        args = [] if size.variables.isdisjoint({i}) else [te.placeholder((i,), name="T")]
        func = te.create_prim_func([*args, L, b, solve(L, b)])
        verify(func)
        arrays = [*([normal(3)] if args else []), *CASES[solve](6 if args and size is not i else 3)]
        if size.variables == frozenset():
            arrays = CASES[solve](5)
        np.testing.assert_array_equal(
            interpret(func, *arrays)[0], interpret(solve, *arrays[-2:])[0]
        )


@te.prim_func
def smooth(A: f32[n], B: f32[n]):
    T = alloc(f32[n])  # noqa: F841
    for i in range(n):
        with block("T"):
            vi = spatial(n, i)
            T[vi] = A[vi] + A[n - 1 - vi]
    for i in range(n):
        with block("B"):
            vi = spatial(n, i)
            with let(T_1, T[vi] * 0.5):  # noqa: F821
                with let(c, T_1 * T_1):  # noqa: F821
                    B[vi] = c + T_1  # noqa: F821


def test_intermediates_have_names_of_their_own():
    c = te.placeholder((m,), name="c")
    once = smooth(c)
    twice = te.extern(m, once, smooth, name="B")
    func = te.create_prim_func([c, smooth(twice), once])
    assert [b.name for b in func.buffers] == ["B_2", "T", "T_1", "T_2"]
    verify(func)
    assert repr(parse(repr(func))) == repr(func)
    steps = [normal(5)]
    for _ in range(3):
        steps.append(interpret(smooth, steps[-1])[0])
    for got, wanted in zip(interpret(func, steps[0]), (steps[3], steps[1])):
        np.testing.assert_array_equal(got, wanted)


def test_shapes_that_are_computed_from_sizes():
    @te.prim_func
    def doubled(A: f32[n], B: f32[n * 2, 3], C: f32[m]):
        for i, j in grid(n * 2, 3):
            with block("B"):
                vi = spatial(n * 2, i)
                vj = spatial(3, j)
                B[vi, vj] = A[vi // 2]
        for i in range(m):
            with block("C"):
                vi = spatial(m, i)
                C[vi] = 1.0

    A = te.placeholder((4,), name="A")
    B, C = te.extern([(8, 3), (2,)], A, doubled, name="D", dtype="float32")
    assert (B.name, C.name, B.op.name) == ("D_0", "D_1", "D")
    func = te.create_prim_func([A, B, C])
    assert [p.const_shape for p in func.params] == [(4,), (8, 3), (2,)]
    with pytest.raises(TensorIRError, match=r"'D'.*B: f32\[n \* 2, 3\].*dimension 0 is n \* 2,"):
        te.extern([(7, 3), (2,)], A, doubled, name="D")
    with pytest.raises(TensorIRError, match="no input has the size 'm'.*te.extern"):
        doubled(A)


def tensors():
    return te.placeholder((m, m), name="L"), te.placeholder((m,), name="b")


L, b = tensors()


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: solve(L), r"stage 'solve' gives 'solve' 1 inputs; it has 2: L: f32\[n, n\], b"),
        (lambda: solve(b, b), r"parameter L: f32\[n, n\].*Tensor\(b.*has 2 dimensions, not 1"),
        (lambda: solve(L, te.placeholder((m + 1,))), "'n' is m \\+ 1; by another argument it is m"),
        (lambda: solve(L, te.placeholder((m,), "float64")), "b: f32.*of type float64; it is float"),
        (lambda: solve(normal(3, 3), normal(3)), "is given a ndarray.*build.solve. makes a kernel"),
        (lambda: te.extern((m + 1,), [L, b], solve, name="S"), r"stage 'S': parameter x: f32\[n\]"),
        (lambda: te.extern([(m,)] * 2, [L, b], solve, name="S"), "'S' has 2 shapes; 'solve' writ"),
        (lambda: te.extern((m,), [L, b], solve, name="S", dtype="int32"), "of type int32; it is"),
        (lambda: te.extern((m,), [L, b], solve, dtype=["float32"] * 2), "has 2 dtypes, and 1 outp"),
        (lambda: te.extern([(m,), (2,)], b, runs, name="R"), r"its dimension 0 is 1"),
        (lambda: te.extern([(m,), (1,)], b, runs, dtype=["int32", "bool"]), "output 1 of type b"),
        (lambda: te.extern((m,), [L, b], 3), "by 3; te.extern takes the name of an extern func"),
    ],
)
def test_what_does_not_fit_is_named(define, message):
    with pytest.raises(TensorIRError, match=message):
        define()


def test_a_function_that_emits_statements_is_told_how_to_write_them():
    with pytest.raises(TensorIRError) as caught:
        te.extern([(m,), (2,)], [L, b], lambda ins, outs: None, name="S")
    assert "def body(L: f32[m, m], b: f32[m], S_0: f32[m], S_1: f32[2]):" in str(caught.value)
    assert "te.extern([(m,), (2,)], [L, b], body, name='S')" in str(caught.value)


IN_PLACE = """
@prim_func
def add(A: f32[4], C: f32[4]):
    for i in range(4):
        with block("C"):
            vi = spatial(4, i)
            C[vi] = C[vi] + A[vi]
"""


def test_a_program_in_place_is_no_stage():
    with pytest.raises(TensorIRError, match="needs what is in 'C' before.*input of another name"):
        parse(IN_PLACE)(te.placeholder((4,)))


def test_programs_that_are_scheduled_with_hints_are_no_stages():
    text = IN_PLACE.replace("C[vi] + ", "").replace(
        "    for i", '    attrs({"double_buffer": ["C"]})\n    for i', 1
    )
    with pytest.raises(TensorIRError, match="'add' has hints for buffers by name; give"):
        parse(text)(te.placeholder((4,)))


def test_statements_that_are_wrong_for_these_sizes_are_refused_with_the_stage():
    text = IN_PLACE.replace("4", "n").replace("C[vi] + A[vi]", "A[vi + 1]")
    with pytest.raises(VerifyError, match="stage 'S': 'add' is refused: .*A"):
        te.extern((4,), te.placeholder((4,)), parse(text), name="S")


def test_a_scan_takes_no_statements():
    X, s = te.placeholder((m, n), name="X"), te.state((m, n), name="s")
    first = te.compute((1, n), lambda _, i: X[0, i], name="first")
    with pytest.raises(TensorIRError, match="is not a te.compute"):
        te.scan(first, te.extern((m, n), [s], parse(SAME), name="U"), s)


SAME = """
@prim_func
def same(A: f32[m, n], B: f32[m, n]):
    for i, j in grid(m, n):
        with block("B"):
            vi = spatial(m, i)
            vj = spatial(n, j)
            B[vi, vj] = A[vi, vj]
"""
