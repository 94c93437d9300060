"""Contractions: found by structure, the same for all ways of writing an operator."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import contraction_programs as made
import pytest

from autotune.rules.group import find_groups
from autotune.rules.inlined import inline_stages
from schedule import Schedule
from schedule.library import Contraction, find_contraction, with_result_on_axes
from schedule.library.contraction.again import with_own_buffer
from schedule.library.contraction.places import layout
from tensorir import PrimFunc, TensorIRError, dtype, ops, te
from tensorir.te.promotion import promote


def contractions(func: PrimFunc) -> list[Contraction]:
    """Those of all reductions of a program."""
    sch = Schedule(func)
    inline_stages(sch)
    return [
        find_contraction(sch, group.block, group.epilogue, group.padding)
        for group in find_groups(sch)
        if sch.state.block(group.block).is_reduction
    ]


def forms(c: Contraction) -> list[tuple[object, ...]]:
    """What decides a schedule: of each axis its extent and strides."""
    return [
        (axis.reduce, axis.extent, tuple(o.strides[n] for o in c.operands), c.result.strides[n])
        for n, axis in enumerate(c.axes)
    ]


def anonymous(c: Contraction) -> Contraction:
    """The same without names and places of variables."""
    operands = tuple(replace(o, buffer="", pad=o.pad and "pad") for o in c.operands)
    axes = (replace(a, digits=tuple(replace(d, place=0) for d in a.digits)) for a in c.axes)
    return replace(
        c, block="", last="" if c.last == c.block else "last", operands=operands, axes=tuple(axes),
        sums=replace(c.sums, buffer=""), result=replace(c.result, buffer=""),
    )  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [made.renamed, made.split_columns, made.fused, made.with_units],
    ids=lambda f: f.__name__,
)
def test_other_ways_of_writing_a_product_are_the_same(other):
    (plain,), (found,) = contractions(made.plain()), contractions(other())
    assert forms(found) == forms(plain)


def test_names_decide_nothing():
    (plain,), (found,) = contractions(made.plain()), contractions(made.renamed())
    assert found != plain and anonymous(found) == anonymous(plain)


def test_terms_that_lie_side_by_side_are_one_axis():
    (found,) = contractions(made.split_terms())
    assert forms(found) == [
        (False, 32, (0, 128), 48), (False, 48, (1, 0), 1), (True, 128, (48, 1), 0),
    ]  # fmt: skip


def test_remainders_that_say_nothing_part_nothing():
    """Whatever they are by: v // 4 is below 12 where v is below 48."""

    def read(row):
        a, b = te.placeholder((12, 4, 8), name="a"), te.placeholder((8, 32), name="b")
        k = te.reduce_axis(8, "k")
        out = te.compute((48, 32), lambda x, y: te.sum(a[row(x), x % 4, k] * b[k, y], axis=k))
        (found,) = contractions(te.create_prim_func([a, b, out]))
        return forms(found)

    plain = read(lambda x: x // 4)
    for modulus in (12, 13, 100):
        found = read(lambda x, modulus=modulus: x // 4 % modulus)
        assert found == plain and [extent for _, extent, *_ in found] == [48, 32, 8]


@pytest.mark.parametrize("by", [0, -1, -2])
@pytest.mark.parametrize("digit", [lambda e, by: e // by, lambda e, by: e % by])
def test_quotients_by_no_size_part_nothing(digit, by):
    a, k = te.placeholder((8, 8)), te.reduce_axis(8, name="k")
    sums = te.compute((8,), lambda i: te.sum(a[i, te.clip(digit(k, by), 0, 7)] * a[i, k], axis=k))
    (found,) = contractions(te.create_prim_func([a, sums]))
    assert [axis.extent for axis in found.axes] == [8, 8]


def test_terms_are_merged_in_the_order_of_the_sums_only():
    """As one axis, k2 * 8 + k1 would be summed in another order."""
    a, b = te.placeholder((32, 8, 16), name="a"), te.placeholder((8, 16, 48), name="b")
    k, j = te.reduce_axis(8, "k"), te.reduce_axis(16, "j")
    out = te.compute((32, 48), lambda x, y: te.sum(a[x, k, j] * b[k, j, y], axis=[j, k]))
    (found,) = contractions(te.create_prim_func([a, b, out]))
    assert [found.axes[n].extent for n in found.written] == [16, 8]


def test_axes_of_a_result_that_is_permuted_are_in_its_order():
    (plain,), (turned,) = contractions(made.product()), contractions(made.product(turned=True))
    assert [axis.extent for axis in plain.axes] == [37, 43, 41]
    assert [axis.extent for axis in turned.axes] == [43, 37, 41]


def test_one_by_one_windows_vanish_and_pixels_are_one_axis():
    (found,) = contractions(made.conv(1, 32, 7, 48, 1, act=True))
    assert [axis.extent for axis in found.axes] == [48, 49, 32]
    assert not any(found.is_window(n) for n in range(3))


def test_windows_are_what_shares_elements():
    (found,) = contractions(made.conv(1, 24, 9, 48, 3, groups=3))
    assert [axis.extent for axis in found.axes] == [3, 16, 9, 9, 8, 3, 3]
    assert [n for n in range(7) if found.is_window(n)] == [2, 3, 5, 6]


def test_channels_last_and_the_last_window_are_one_axis():
    (found,) = contractions(made.conv(2, 8, 9, 20, 3, layout="NHWC"))
    assert [axis.extent for axis in found.axes] == [2, 9, 9, 20, 3, 24]


def test_each_contraction_of_a_program_is_its_own():
    one, two = contractions(made.chain())
    assert [axis.extent for axis in one.axes] == [16, 9, 9, 8, 3, 3]
    assert [axis.extent for axis in two.axes] == [20, 9, 9, 16, 3, 3]


def test_symbolic_axes_have_no_extent():
    (found,) = contractions(made.product(None, 40, 96))
    assert [axis.extent for axis in found.axes] == [None, 96, 40]


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (lambda x: ops.relu(x), "is no reduction"),
        (lambda x: ops.argmax(x, axis=1), "stores more than one value"),
    ],
)
def test_refusals(func, reason):
    x = te.placeholder((8, 16), name="x")
    sch = Schedule(te.create_prim_func([x, func(x)]))
    with pytest.raises(TensorIRError, match=reason):
        find_contraction(sch, str(sch.get_blocks()[0]))


def test_a_reader_without_a_variable_for_an_axis_is_refused_in_words():
    """Plans are tried one after the other: what does not fit is an error that they all expect."""
    A, B = te.placeholder((8, 16), name="A"), te.placeholder((16, 8), name="B")
    k = te.reduce_axis(16, name="k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((32, 8), lambda i, j: C[i // 4, j] + 1.0, name="D")
    sch = Schedule(te.create_prim_func([A, B, D]))
    c = find_contraction(sch, "C")
    with pytest.raises(TensorIRError, match="'D' has no variable for each axis of 'C'"):
        layout(sch, c, ["C", "D"], c.spatial, None)


WAYS = [
    {"windows": windows, "merged": merged, "steps": steps, "padding": padding}
    for windows, merged, steps in product((True, False), repeat=3)
    for padding in ([], ["pad"])
]


def test_what_was_found_is_kept_for_what_was_asked_of_one_state():
    """Whatever was asked before: each question has its own answer, as of a schedule that nobody
    asked anything; and after a step it is asked again."""
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((4, 4, 1, 1), name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, padding=1)], name="conv")
    sch = Schedule(func)
    (block,) = (name for name in sch.get_blocks() if sch.state.block(name).is_reduction)
    (pad,) = (name for name in sch.get_blocks() if name != block)
    asked = [{**way, "padding": [pad for _ in way["padding"]]} for way in WAYS]
    found = [find_contraction(sch, block, **way) for way in asked]
    assert found == [find_contraction(Schedule(func), block, **way) for way in asked]
    assert len(set(map(repr, found))) > 2
    assert all(find_contraction(sch.copy(), block, **way) is c for way, c in zip(asked, found))
    sch.transform_layout(pad, "pad", "n, c, h, w: n, h, w, c")
    assert find_contraction(sch, block) == find_contraction(Schedule(sch.func), block) != found[0]


APART = [(a, b) for a, b in product(dtype.SCALARS, repeat=2) if promote(a, b) is None]


@pytest.mark.parametrize("types", APART, ids="-".join)
def test_operands_may_have_types_that_no_type_holds(types):
    """Loads are told apart by what they are: a comparison of them has a type, or none."""
    a, b = (te.placeholder((4, 8), type_, name=name) for type_, name in zip(types, "AB"))
    k = te.reduce_axis(8, name="k")
    terms = [a, b, b, a]
    c = te.compute(
        (4,),
        lambda i: te.sum(sum(x[i, k].astype("float32") * (n + 1) for n, x in enumerate(terms)), k),
        name="C",
    )
    (found,) = contractions(te.create_prim_func([a, b, c], name="mixed"))
    assert [operand.buffer for operand in found.operands] == ["A", "B"]
    assert max(len(e.reads) for e in found.expressions) == 2


@pytest.mark.parametrize("types", APART, ids="-".join)
def test_choices_between_such_operands_are_read_apart(types):
    """Whether what is chosen is the load itself is asked of choices of the other type too."""
    a, b = (te.placeholder((8, 8), type_, name=name) for type_, name in zip(types, "AB"))
    k = te.reduce_axis(8, name="k")

    def term(i):
        chosen = te.select(i < 2, a[i, k], b[i, k].astype(types[0])).astype("float32")
        return te.sum(chosen + b[k, i].astype("float32"), axis=k)

    func = te.create_prim_func([a, b, te.compute((8,), term, name="C")], name="chosen")
    (found,) = contractions(func)
    for n, operand in enumerate(found.operands):
        if operand.buffer == "B":
            with_own_buffer(Schedule(func), found, n)


@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("rows", [(4, 6), (6, 4), (24,)])
def test_sums_are_brought_on_their_axes_once(rows, channels):
    """What lies side by side is one variable then, and not the parts that it was made of."""
    x = te.placeholder((*rows, channels, 5), name="X")
    axes = te.reduce_axis(channels, name="c"), te.reduce_axis(5, name="k")
    total = te.compute(rows, lambda *i: te.sum(x[(*i, *axes)], axes), name="total")
    half = te.compute(rows, lambda *i: total[i] * 0.5, name="half")
    sch = Schedule(te.create_prim_func([x, half], name="sums"))
    assert with_result_on_axes(sch, "total")
    assert [it.extent for it in sch.state.block("total").iters] == [24, channels * 5]
    assert not with_result_on_axes(sch, "total")
