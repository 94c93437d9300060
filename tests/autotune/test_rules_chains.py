"""Chains are found wherever rows are shared, however that is written."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, find_rows, make_space
from autotune.rules.alternatives import first_start, with_algorithm
from autotune.rules.chain import ChainPlan
from autotune.rules.generate import sketches, sketches_of
from autotune.rules.group import epilogue_of, find_groups, is_padding
from autotune.rules.inlined import bring_forward, inline_stages
from autotune.rules.planned import PlannedSketch
from backends import build
from benchmarks.general.form import Form, expected, given, numbers, restored
from benchmarks.general.rewritings import forms_of
from schedule import Schedule, ScheduleError
from tensorir import Cpu, PrimFunc, Target, interpret, ops, reference, te, verify

SMALL = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))
KINDS = ("reordered", "permuted", "split", "fused", "unit", "scaled", "type", "embedded",
         "symbolic")  # fmt: skip


def made(*tensors: te.Tensor) -> PrimFunc:
    return te.create_prim_func(list(tensors), name="made")


def rows_of(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder(shape, name=name)


def softmax() -> PrimFunc:
    x = rows_of(18, 40)
    return made(x, ops.softmax(x, name="out"))


def layer_norm() -> PrimFunc:
    x, scale, shift = rows_of(12, 36), rows_of(36, name="scale"), rows_of(36, name="shift")
    return made(x, scale, shift, ops.layer_norm(x, scale, shift, name="out"))


def products() -> PrimFunc:
    x, w, v = rows_of(12, 10), rows_of(10, 24, name="w"), rows_of(24, 16, name="v")
    return made(x, w, v, ops.matmul(ops.softmax(ops.matmul(x, w)), v, name="out"))


def attention(batch: int = 2, rows: int = 8) -> PrimFunc:
    q, k, v = (rows_of(batch, 3, n, 8, name=x) for n, x in ((rows, "q"), (20, "k"), (20, "v")))
    return made(q, k, v, ops.attention(q, k, v, name="out"))


def in_no_batch() -> PrimFunc:
    """With more rows than there are registers: none of them may be written out."""
    return attention(batch=1, rows=20)


PROGRAMS = {f.__name__: f() for f in (softmax, layer_norm, products, attention, in_no_batch)}
FORMS = [
    pytest.param(name, form, id=f"{name}, {form.name}")
    for name, func in PROGRAMS.items()
    for form in (Form("plain", "plain", func), *forms_of(func, KINDS))
]
COMPILED = {
    f"softmax, {form}"
    for form in ("plain", "permuted reversed", "fused output", "unit last", "float16",
                 "symbolic batch")
}  # fmt: skip
APART = {
    f"{name}, {form}"
    for name in ("attention", "in_no_batch")
    for form in (
        "split reduce, inputs too", "permuted reversed", "permuted reversed, intermediates too",
        "permuted first last", "permuted first last, intermediates too",
    )
}  # fmt: skip
"""Columns of an operand in two dimensions, which cannot be packed: the first product is apart; and
rows of a product that are no neighbours in its result, and make no square: products are apart."""


def first_sketch(func: PrimFunc) -> PlannedSketch:
    return next(sketches(func, SMALL, "reassociated"))


def chains_of(func: PrimFunc) -> list[ChainPlan]:
    return [plan for plan in first_sketch(func).plans if isinstance(plan, ChainPlan)]


def scheduled(func: PrimFunc) -> Schedule:
    sketch = first_sketch(func)
    return sketch.build(sketch.values())


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_rows_are_found_in_all_forms(name, form):
    """All sums are in one nest, and results are the same."""
    plain, sch = PROGRAMS[name], scheduled(form.func)
    verify(sch.func)
    assert chains_of(form.func), form.name
    sums = [block for block in sch.get_blocks() if sch.state.block(block).is_reduction]
    if f"{name}, {form.name}" not in APART:
        assert len({sch.get_loops(block)[0] for block in sums}) == 1
    compare(form, plain, sch, compiled=f"{name}, {form.name}" in COMPILED)


@pytest.mark.parametrize("wide", [4, 40])
def test_rows_are_those_of_a_sum_whatever_else_goes_along(wide):
    """Heads cut out of one product: fewer rows, those of all heads together, keep more elements
    in cache, and no sum has a number for each of them."""
    x, w = rows_of(12, 10), rows_of(10, 3 * wide, name="w")
    k, p = rows_of(3, wide, 32, name="k"), ops.matmul(x, w)
    q = te.compute((3, 12, wide), lambda h, i, d: p[i, h * wide + d], name="q")
    func = made(x, w, k, ops.softmax(ops.batch_matmul(q, k), name="out"))
    (chain,), sch = chains_of(func), scheduled(func)
    assert {"top", "total", "out"} <= set(chain.stages)
    arrays = numbers(func)
    (want,) = reference(func, *arrays)
    np.testing.assert_allclose(interpret(sch.func, *arrays)[0], want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", ["h, i", "i, h"])
def test_rows_of_a_tile_share_an_operand_wherever_they_lie(order):
    """Rows of queries in each order beside heads, of which each has keys of its own."""
    shape = {"h": 3, "i": 12}
    sizes = tuple(shape[name] for name in order.split(", "))
    q, k, v = rows_of(*sizes, 8, name="q"), rows_of(3, 8, 32, name="k"), rows_of(3, 32, 16)
    d, j = te.reduce_axis((0, 8), "d"), te.reduce_axis((0, 32), "j")

    def head(a: Any, b: Any) -> Any:
        return a if order == "h, i" else b

    s = te.compute((*sizes, 32), lambda a, b, n: te.sum(q[a, b, d] * k[head(a, b), d, n], axis=d))
    p = ops.softmax(s)
    out = te.compute((*sizes, 16), lambda a, b, n: te.sum(p[a, b, j] * v[head(a, b), j, n], axis=j))
    func = made(q, k, v, out)
    (chain,), sch = chains_of(func), scheduled(func)
    assert len(chain.chain.products) == 2 and chain.chain.sizes == (3, 12)
    arrays = numbers(func)
    (want,) = reference(func, *arrays)
    np.testing.assert_allclose(interpret(sch.func, *arrays)[0], want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("symbols", ["n..", ".n.", "nm.", ".nm", "n.m", "..n", "nmk"])
def test_rows_are_one_nest_wherever_sizes_are_symbols(symbols):
    """Quotients by symbols tell nothing of what is touched: one such loop is outermost."""
    shape = [te.var(name) if name != "." else 4 for name in symbols]
    x = te.placeholder((*shape, 40), name="x")
    sch = scheduled(made(x, ops.softmax(x, name="out")))
    assert len({sch.get_loops(block)[0] for block in sch.get_blocks()}) == 1
    sizes = [3 if name != "." else 4 for name in symbols]
    x = np.random.default_rng(0).random((*sizes, 40), dtype=np.float32)
    found = interpret(sch.func, x)[0]
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-5)


def compare(form: Form, plain: PrimFunc, sch: Schedule, compiled: bool = False) -> None:
    arrays = numbers(plain)
    inputs = given(form, plain, arrays)
    outputs = build(sch, SMALL.target)(*inputs) if compiled else interpret(sch.func, *inputs)
    found = restored(form, plain, outputs if isinstance(outputs, tuple) else (outputs,))
    for got, want in zip(found, expected(form, plain, arrays), strict=True):
        allowed = {"float16": 1e-2, "bfloat16": 5e-2}.get(form.func.outputs[0].dtype, 1e-5)
        np.testing.assert_allclose(got, want, rtol=allowed, atol=allowed)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("softmax", "permuted reversed"),
        ("softmax", "fused output"),
        ("products", "permuted reversed"),
        ("attention", "permuted first last"),
        ("layer_norm", "float64"),
    ],
)
def test_whatever_is_chosen_for_a_chain_computes_it(name, form):
    plain = PROGRAMS[name]
    found = next(f for f in forms_of(plain, KINDS) if f.name == form)
    space, rng = make_space(found.func, SMALL), random.Random(0)
    first = default_candidate(space).sketch
    assert ":chain" in first
    for _ in range(5):
        compare(found, plain, space.build(space.sample(rng, first)))


def nests(sch: Schedule) -> list[set[str]]:
    """The blocks of each nest."""
    found: dict[str, set[str]] = {}
    for block in sch.get_blocks():
        found.setdefault(sch.get_loops(block)[0], set()).add(str(block))
    return list(found.values())


def check(func: PrimFunc, sch: Schedule) -> None:
    arrays = numbers(func)
    if max(a.size for a in arrays) < 10_000:
        found = interpret(sch.func, *arrays)
    else:
        outputs = build(sch, SMALL.target)(*arrays)
        found = outputs if isinstance(outputs, tuple) else (outputs,)
    for got, want in zip(found, reference(func, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def two() -> PrimFunc:
    x, y = rows_of(6, 20), rows_of(9, 16, name="y")
    return made(x, y, ops.softmax(x, name="a"), ops.layer_norm(y, name="b"))


def one_after_the_other() -> PrimFunc:
    """A softmax by rows of what is a softmax by columns."""
    x = rows_of(20, 24)
    return made(x, ops.softmax(ops.transpose(ops.softmax(x, name="a")), name="b"))


def between() -> PrimFunc:
    """What is before a chain, beside it and after it goes along with none of its rows."""
    x, w, v = rows_of(6, 12), rows_of(12, 20, name="w"), rows_of(6, 20, name="v")
    soft = ops.softmax(ops.add(ops.matmul(x, w), v), name="soft")
    return made(x, w, v, ops.sum(soft, 0, name="columns"), ops.sum(v, 0, name="others"), soft)


def wide() -> PrimFunc:
    """The product reads all of a matrix that no cache holds: only the norm is a chain."""
    x, w = rows_of(8, 256), rows_of(256, 2048, name="w")
    return made(x, w, ops.matmul(ops.rms_norm(x, name="norm"), w, name="out"))


@pytest.mark.parametrize(
    ("make", "count", "together"),
    [
        (two, 2, [{"a"}, {"b"}]),
        (one_after_the_other, 2, [{"a"}, {"b"}]),
        (between, 1, [{"soft"}]),
        (wide, 1, [{"norm"}]),
    ],
)
def test_chains_begin_and_end_anywhere(make, count, together):
    func = make()
    chains = chains_of(func)
    assert len(chains) == count
    stages = [set(chain.stages) for chain in chains]
    assert len(set.union(*stages)) == sum(map(len, stages))
    sch = scheduled(func)
    for chain in chains:
        assert any(set(chain.stages) <= nest for nest in nests(sch))
    assert [any(last <= stages_ for stages_ in stages) for last in together]
    check(func, sch)


def test_a_transpose_is_written_in_squares():
    """The last loop of the nest is a vector of the result, of as many rows as there are lanes."""
    x = rows_of(13, 20)
    func = made(x, ops.transpose(ops.softmax(x), name="out"))
    (chain,) = chains_of(func)
    assert chain.chain.order.turned
    sch = scheduled(func)
    assert len(nests(sch)) == 1
    row, column = sch.get_loops("out")[-1], sch.get_loops("out")[-2]
    assert sch.state.loop(row).kind.value == "vectorized"
    assert sch.state.loop(row).const_extent == sch.state.loop(column).const_extent == 4
    check(func, sch)


def test_where_no_square_pays_the_last_stage_is_computed_where_it_is_turned():
    x = rows_of(3, 20)
    func = made(x, ops.transpose(ops.softmax(x), name="out"))
    sch = scheduled(func)
    assert {"out"} in nests(sch)
    check(func, sch)


def test_products_whose_columns_move_with_rows_are_in_no_chain():
    """Scores by distance: each row has others, some of which several rows have."""
    q, r = rows_of(12, 8, name="q"), rows_of(24, 8, name="r")
    k = te.reduce_axis(8, name="k")
    by = te.compute((12, 24), lambda i, j: te.sum(q[i, k] * r[j, k], axis=k), name="by")
    near = te.compute((12, 12), lambda i, j: by[i, j - i + 12], name="near")
    func = made(q, r, ops.softmax(near))
    assert all("by" not in chain.chain.products for chain in chains_of(func))
    check(func, scheduled(func))


def test_reading_across_rows_is_no_chain():
    """Neighbours in a row would be gathered, one by one."""
    x = rows_of(20, 24)
    func = made(x, ops.softmax(x, axis=0, name="out"))
    assert not chains_of(func)
    check(func, scheduled(func))


def test_chains_are_searched_by_their_stages_too():
    space = make_space(PROGRAMS["softmax"], SMALL)
    assert list(space.sketches)[0] == "out:chain"
    assert "top:lanes+power:spatial+total:lanes+out:spatial" in space.sketches
    assert default_candidate(space).sketch == "out:chain"


def test_what_follows_a_sum_is_not_made_part_of_padding():
    """It ends its own sum, and the next one may place the padding."""
    x, w = rows_of(1, 3, 8, 8), rows_of(4, 3, 3, 3, name="w")
    v = rows_of(2, 4, 3, 3, name="v")
    inner = ops.relu(ops.conv2d(x, w, padding=1), name="inner")
    func = made(x, w, v, ops.conv2d(inner, v, padding=1, name="out"))
    base = Schedule(func)
    inline_stages(base)
    groups = find_groups(base)
    assert [group.epilogue for group in groups] == ["inner", None]
    assert [len(group.padding) for group in groups] == [1, 1]
    check(func, scheduled(func))


@pytest.mark.parametrize(
    ("value", "padding"),
    [
        (lambda x, i: te.if_then_else(i < 4, x[i], 0.0), True),
        (lambda x, i: te.if_then_else(i >= 4, 1.0, x[7 - i].astype("float64")), True),
        (lambda x, i: te.if_then_else(x[i] > 0.0, x[i], 0.0), False),
        (lambda x, i: te.if_then_else(x[i] > 0.0, x[i], x[i] * 0.01), False),
        (lambda x, i: te.if_then_else(i < 4, x[i], x[i] * 0.01), False),
        (lambda x, i: te.if_then_else(i < 4, x[i] * 2.0, 0.0), False),
    ],
)
def test_padding_is_where_variables_say_and_what_was_read_elsewhere(value, padding):
    x = rows_of(8)
    sch = Schedule(made(x, te.compute((8,), lambda i: value(x, i), name="out")))
    assert is_padding(sch.state.block("out")) is padding


def normalised(late: bool) -> PrimFunc:
    """A convolution with its batch norm, whose factors are computed after it or before."""
    x, w = rows_of(1, 3, 6, 6), rows_of(4, 3, 3, 3, name="w")
    stats = [rows_of(4, name=name) for name in ("gamma", "beta", "mean", "var")]
    gamma, beta, mean, var = stats
    sums = ops.conv2d(x, w, padding=1, name="sums")
    out = ops.relu(ops.batch_norm(sums, mean, var, gamma, beta), name="out")
    func = made(x, w, *stats, out)
    if late:
        return func
    sch = Schedule(func)
    (scale,) = [b for b in sch.get_blocks() if sch.get_loops(b) and "scale" in b]
    sch.run_before(scale, sch.get_blocks()[0])
    return sch.func


@pytest.mark.parametrize("late", [True, False])
def test_a_sum_ends_in_its_epilogue_wherever_that_finds_its_factors(late):
    func = normalised(late)
    sch = scheduled(func)
    assert len([nest for nest in nests(sch) if "out" in nest and "sums" in nest]) == 1
    check(func, sch)


def test_what_needs_the_sum_stays_after_it():
    x, y = rows_of(6, 20), rows_of(20, 6, name="y")
    total = ops.sum(x, 1, name="total")
    func = made(x, y, ops.add(total, ops.sum(y, 0, name="other"), name="out"))
    check(func, scheduled(func))
    base = Schedule(func)
    bring_forward(base)
    assert base.get_blocks() == Schedule(func).get_blocks()


@pytest.mark.parametrize("first", [True, False])
def test_sums_with_less_to_do_come_before_the_product_that_they_scale(first):
    """Angles between vectors: the lengths of all, wherever the program has them, and then products
    that end in quotients."""
    x, y = rows_of(24, 20), rows_of(28, 20, name="y")
    k = te.reduce_axis(20, name="k")

    def lengths(rows: te.Tensor, name: str) -> te.Tensor:
        return te.compute((rows.shape[0],), lambda i: te.sum(rows[i, k] * rows[i, k], k), name)

    p = te.compute((24, 28), lambda i, j: te.sum(x[i, k] * y[j, k], k), "products")
    a, b = lengths(x, "a"), lengths(y, "b")
    order = (lambda p, q: p * q) if first else (lambda p, q: q * p)
    func = made(
        x, y, te.compute((24, 28), lambda i, j: order(p[i, j], 1 / (a[i] + b[j] + 1.0)), "out")
    )
    assert (Schedule(func).get_blocks()[0] == "products") is first
    base = Schedule(func)
    bring_forward(base)
    assert epilogue_of(base, "products") == "out"
    check(func, scheduled(func))


def test_sums_of_the_same_rows_stay_together():
    """Of attention those of weights stay beside what is weighted by them."""
    q, k, v = (te.placeholder((1, 2, 6, 8), name=name) for name in "qkv")
    base = Schedule(made(q, k, v, ops.attention(q, k, v)))
    order = base.get_blocks()
    bring_forward(base)
    assert base.get_blocks() == order


def correlated(rows: int, terms: int, deep: bool) -> PrimFunc:
    """Three sums over the same rows, and with `deep` one that needs the first of them."""
    a, b = rows_of(rows, terms, name="a"), rows_of(rows, terms, name="b")

    def summed(term: Callable[..., Any], name: str) -> te.Tensor:
        k = te.reduce_axis(terms, name=f"k_{name}")
        return te.compute((rows,), lambda i: te.sum(term(i, k), axis=k), name=name)

    both = summed(lambda i, k: a[i, k] * b[i, k], "both")
    first = summed(lambda i, k: a[i, k] * a[i, k], "first")
    second = summed(lambda i, k: te.exp(b[i, k]), "second")
    if deep:
        second = summed(lambda i, k: te.abs(b[i, k] - both[i]), "second")
    return made(a, b, te.compute((rows,), lambda i: both[i] / (first[i] + second[i]), name="out"))


@pytest.mark.parametrize("deep", [False, True])
def test_sums_over_the_same_rows_go_over_them_once(deep):
    func = correlated(24, 70, deep)
    sch = scheduled(func)
    parts = [str(b) for b in sch.get_blocks() if str(b).endswith("_rf")]
    loops = {name: sch.get_loops(name)[:-1] for name in parts}  # without the lanes
    together = [name for name in parts if loops[name] == loops["both_rf"]]
    assert sorted(together) == (["both_rf", "first_rf"] if deep else sorted(parts))
    check(func, sch)


def test_whatever_rows_and_widths_are_chosen_for_common_sums_is_right():
    func = correlated(26, 83, False)
    space, rng = make_space(func, SMALL), random.Random(1)
    for _ in range(3):
        check(func, space.build(space.sample(rng, "out:chain")))


@pytest.mark.parametrize(("terms", "parts"), [(160, 1), (160, 2), (320, 1), (320, 2), (80, 4)])
def test_what_all_rows_share_of_all_products_stays_in_the_second_cache(terms, parts):
    """Whether it is one operand or several: each task goes over all of them."""
    x = rows_of(32, terms)
    weights = [rows_of(terms, 512, name=f"w{n}") for n in range(parts)]
    rows = ops.softmax(x)
    found = [ops.matmul(rows, w, name=f"y{n}") for n, w in enumerate(weights)]
    out = found[0]
    for n, more in enumerate(found[1:]):
        out = ops.multiply(out, more, name=f"both{n}")
    chains = chains_of(made(x, *weights, ops.softmax(out, name="out")))
    fits = 4 * 512 * terms * parts <= SMALL.kept_bytes(2)
    assert any(len(plan.chain.products) == parts for plan in chains) == fits


@pytest.mark.parametrize("kind", ["permuted", "fused", "split"])
def test_rows_that_are_not_those_of_the_result_are_not_written_out(kind):
    """A chain whose last stage has no loop over all of its rows would write out the others."""
    q, k, v = (rows_of(1, 4, 96, 16, name=x) for x in "qkv")
    for form in forms_of(made(q, k, v, ops.attention(q, k, v, name="out")), [kind]):
        sch = default_schedule(form.func, SMALL.target)
        written = [int(n) for n in re.findall(r"in unrolled\((\d+)\)", str(sch.func))]
        assert max(written, default=1) <= 2 * SMALL.registers, form.name


def test_rows_that_primitives_refuse_are_told(monkeypatch):
    def refuses(sch, order):
        raise ScheduleError("reorder", order.last, "no such order", None, None, None)

    monkeypatch.setattr(find_rows, "put_in_rows", refuses)
    told = [note for s in sketches(softmax(), SMALL, "reassociated") for note in s.notes()]
    assert "impossible: rows of 'out': no such order" in told


def test_stages_without_a_number_of_each_row_are_not_put_in_rows(monkeypatch):
    """That takes longer than all other rules together, and nothing comes of it."""
    tried = []
    put_in_rows = find_rows.put_in_rows

    def counted(sch, order):
        tried.append(order.members)
        return put_in_rows(sch, order)

    monkeypatch.setattr(find_rows, "put_in_rows", counted)
    x, w = rows_of(1, 4, 12, 12), rows_of(8, 4, 3, 3, name="w")
    sums = ops.conv2d(x, w, padding=1, name="sums")
    winograd = with_algorithm(first_start(made(x, w, sums), "mixed"), "sums", "winograd_4x4")
    list(sketches_of(winograd, SMALL, "mixed"))
    assert tried == []
    a, b = rows_of(24, 80), rows_of(40, 80, name="b")  # sums of rows, to which nothing goes back
    list(sketches(made(a, b, ops.relu(ops.matmul(a, b, transpose_b=True))), SMALL, "reassociated"))
    assert tried == []
    scheduled(made(x, w, ops.softmax(sums, name="out")))
    assert tried
