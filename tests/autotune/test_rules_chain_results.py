"""Chains that make results of the program on their way."""

from __future__ import annotations

import pytest

from autotune.rules.generate import sketches
from tensorir import Cpu, Target, ops, te
from tests.autotune.test_rules_chains import chains_of, check, made, nests, rows_of, scheduled


def norm_with_statistics(x):
    mean = ops.mean(x, 1, keepdims=True)
    spread = ops.mean(ops.square(ops.subtract(x, mean)), 1, keepdims=True)
    scale = ops.rsqrt(ops.add(spread, 1e-5))
    return mean, scale, ops.multiply(ops.subtract(x, mean), scale)


def sum_and_its_norm(x):
    total = ops.add(x, ops.exp(x))
    return total, ops.layer_norm(total)


def weights_and_what_they_weigh(x):
    weights = ops.softmax(ops.matmul(x, x, transpose_b=True))
    return weights, ops.matmul(weights, x)


@pytest.mark.parametrize("shape", [(13, 40), (24, 17)])
@pytest.mark.parametrize(
    "of", [norm_with_statistics, sum_and_its_norm, weights_and_what_they_weigh]
)
def test_results_of_the_program_are_made_in_chains(of, shape):
    """What a chain makes on its way may be wanted too: rows are read and written once."""
    x = rows_of(*shape)
    *others, last = of(x)
    func = made(x, *others, last)
    (chain,) = chains_of(func)
    assert {t.name for t in (*others, last)} <= set(chain.stages) | {chain.group.block}
    sch = scheduled(func)
    assert len([nest for nest in nests(sch) if nest & set(chain.stages)]) == 1
    check(func, sch)


def test_results_laid_out_in_another_way_are_made_before_a_chain():
    x = rows_of(12, 40)
    total = te.compute((40, 12), lambda j, i: x[i, j] * 2.0, name="total")
    y = te.compute((12, 40), lambda i, j: total[j, i] + x[i, j], name="y")
    func = made(x, total, ops.softmax(y))
    (chain,) = chains_of(func)
    assert "total" not in chain.stages
    check(func, scheduled(func))


def last_of_a_product(x):
    return ops.max(ops.softmax(ops.matmul(x, x, transpose_b=True)), 1)


def last_of_weights(x):
    return ops.sum(ops.multiply(ops.softmax(x), x), 1)


@pytest.mark.parametrize("kind", ["int64", "float64"])
@pytest.mark.parametrize("of", [last_of_a_product, last_of_weights])
def test_what_is_made_once_for_a_row_makes_no_vector_narrower(of, kind):
    """The place of a maximum or a sum in float64 is one value, whose vectors rows do not have; a
    row of them is another thing."""
    x = rows_of(24, 40)
    plain, wide = (
        only_chain(made(x, ops.cast(of(x), to, name="out"))) for to in ("float32", kind)
    )
    assert plain.default() == wide.default()
    assert (plain.chain.lanes, plain.chain.item) == (wide.chain.lanes, wide.chain.item)
    rows = only_chain(made(x, ops.cast(ops.softmax(x), kind, name="out")))
    assert (rows.chain.lanes, rows.chain.item) == (plain.chain.lanes // 2, 8)


def only_chain(func):
    (chain,) = chains_of(func)
    return chain


def normalised(*shape):
    """Of a batch, over all axes but the second one, which factors belong to."""
    axes = tuple(d for d in range(len(shape)) if d != 1)
    x, scale, shift = rows_of(*shape), *(rows_of(shape[1], name=n) for n in ("scale", "shift"))
    norm = ops.batch_norm(x, ops.mean(x, axes), ops.var(x, axes), scale, shift, name="out")
    return made(x, scale, shift, norm)


@pytest.mark.parametrize("columns", [(5, 12), (2, 5, 6), (60, 1), (4, 15)])
def test_columns_that_follow_each_other_are_one_loop_behind_those_that_do_not(columns):
    plain, split = normalised(3, 24, 60), normalised(3, 24, *columns)
    assert only_chain(split).default() == only_chain(plain).default()
    wanted, found = (
        [sch.state.loop(loop).const_extent for loop in sch.get_loops("out")]
        for sch in map(scheduled, (plain, split))
    )
    assert [n for n in found if n != 1] == wanted
    check(split, scheduled(split))


@pytest.mark.parametrize("shape", [(64, 512), (64, 384), (3, 24, 600)])
def test_as_many_bytes_are_summed_up_at_a_time_whatever_vectors_have(shape):
    """Vectors of half as many begin twice as often, so twice as many hide that sums wait."""
    x = rows_of(*shape)
    func = normalised(*shape) if shape[2:] else made(x, *norm_with_statistics(x))
    widths = {default_width(func, bits) for bits in (256, 512)}
    assert len(widths) == 1


def default_width(func, bits):
    cpu = Cpu(Target(vector_bits=bits, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))
    (plan,) = (p for p in next(sketches(func, cpu, "reassociated")).plans if p.name == "chain")
    return plan.default()[plan.key("width")]
