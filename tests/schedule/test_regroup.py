"""regroup: the factors of products in other groups."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from refusal import refused
from small_programs import make_sum, value

from schedule import Schedule
from schedule.library import find_contraction
from schedule.requests.candidates import candidates
from tensorir import interpret, te


def scaled(dtype="float32", of=lambda a, b, s: a * b * s):
    return make_sum(of, dtype)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_every_order_of_factors(check, order):
    sch = Schedule(scaled())
    sch.regroup("C", [order[:1], order[1:]])
    first, *rest = (["A[vi, vk]", "B[vk, vj]", "S[vk]"][n] for n in order)
    assert f"{first} * ({' * '.join(rest)})" in value(sch)
    assert sch.numerics == "reassociated"
    assert Schedule(sch.func).numerics == "bitwise"
    check(sch, compiled=order == (0, 1, 2))
    sch.undo()
    assert sch.numerics == "bitwise"


def test_as_it_is_written():
    sch = Schedule(scaled())
    sch.regroup("C", [[0, 1], [2]])
    assert sch.func is sch.definition
    assert sch.numerics == "bitwise"


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_integers_wrap_to_the_same_bits(dtype):
    sch = Schedule(scaled(dtype))
    sch.regroup("C", [[2, 0], [1]])
    assert sch.numerics == "bitwise"
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    shapes = [p.const_shape for p in sch.func.inputs]
    args = [rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in shapes]
    (found,), (wanted,) = interpret(sch.func, *args), interpret(sch.definition, *args)
    np.testing.assert_array_equal(found, wanted)


def test_one_of_several_products(check):
    """One beside another, and one inside of a factor of it."""
    sch = Schedule(scaled(of=lambda a, b, s: a * b * s + a * s * (b * s * 2.0 + 1.0)))
    sch.regroup("C", [[1], [2, 0]], 2)
    sch.regroup("C", [[0], [1, 2]], 1)
    assert "A[vi, vk] * B[vk, vj] * S[vk] +" in value(sch)
    assert "A[vi, vk] * (S[vk] * (S[vk] * (2.0 * B[vk, vj]) + 1.0))" in value(sch)
    check(sch)


def test_what_it_refuses():
    sch = Schedule(scaled())
    for groups in ([[0], [1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [[0, 1], [3]]):
        refused(sch.regroup, "C", groups, match="do not have each of the 3 factors")
    one = "1 products of three or more factors, and none at 1"
    refused(sch.regroup, "C", [[0], [1, 2]], 1, match=one)
    refused(sch.regroup, "C", [0, 1, 2], match="a list of lists of integers")
    plain = Schedule(scaled(of=lambda a, b, s: a * b + s))
    none = "products of three or more factors, and none at 0"
    refused(plain.regroup, "C", [[0], [1, 2]], match=none)
    whole = Schedule(scaled("int64"))
    refused(whole.regroup, "C", [[0], [1, 2]], match=none)


def test_what_a_block_has_so_far_is_no_factor():
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    k = te.reduce_axis(4, name="k")
    c = te.compute((1,), lambda i: te.prod(a[k] * b[k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    none = "products of three or more factors, and none at 0"
    refused(sch.regroup, "C", [[0], [1, 2]], match=none)


def test_several_values():
    a = te.placeholder((4, 5), name="A")
    k = te.reduce_axis(5, name="k")
    places = te.compute((4,), lambda i: te.argmax(a[i, k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, places]))
    refused(sch.regroup, sch.get_blocks()[0], [[0], [1, 2]], match="stores more than one value")


def test_what_is_proposed_is_possible():
    sch = Schedule(scaled())
    found = list(candidates(sch.state, "regroup"))
    assert len(found) == 3
    for request in found:
        sch.copy().regroup(*request)


def extremes():
    """The place of the largest product of a row, of three factors."""
    a, b = te.placeholder((4, 9), name="A"), te.placeholder((9,), name="B")
    k = te.reduce_axis(9, name="k")
    best = te.compute((4,), lambda i: te.argmax(a[i, k] * b[k] * a[i, k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, best], name="extremes"))
    sch.use_algorithm("C", "two_pass_argmax")
    return sch


def test_what_is_looked_for_is_rounded_as_it_is_where_it_is_found():
    """Neither where the largest is computed, nor where it is looked for, also by way of copies."""
    sch = extremes()
    words = "would not find what is rounded otherwise"
    for block in ("C_maximum", "C_place"):
        refused(sch.regroup, block, [[0, 2], [1]], match=f"'C_place' compares with .* {words}")
    sch.cache_write("C_maximum", "C_maximum", "local")
    refused(sch.regroup, "C_maximum", [[0, 2], [1]], match=words)
    assert not find_contraction(sch, "C_maximum").products


def test_an_extreme_of_what_was_computed_before_is_found_however_that_is_rounded(check):
    a, b = te.placeholder((4, 9), name="A"), te.placeholder((9,), name="B")
    k = te.reduce_axis(9, name="k")
    c = te.compute((4, 9), lambda i, j: a[i, j] * b[j] * a[i, j], name="C")
    best = te.compute((4,), lambda i: te.argmax(c[i, k], axis=k), name="D")
    sch = Schedule(te.create_prim_func([a, b, best], name="extremes"))
    sch.use_algorithm("D", "two_pass_argmax")
    sch.regroup("C", [[0, 2], [1]])
    check(sch, compiled=False)


def test_floats_in_a_value_of_integers_are_told_of():
    """What a comparison of products gives is an integer, and depends on how they are rounded."""
    a, b = te.placeholder((5,), name="A"), te.placeholder((5,), name="B")
    c = te.compute((5,), lambda i: te.select(a[i] * b[i] * a[i] < b[i], 1, 0), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="smaller"))
    sch.regroup("C", [[0, 2], [1]])
    assert sch.numerics == "reassociated"


@pytest.mark.parametrize("finds", ["==", ">=", "<"])
def test_whatever_finds_a_product_it_is_rounded_alike(finds):
    """An extreme is found by `>=` as by `==`: 52 of 300 rows had none after regroup."""
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((4, 5), name="B")
    k, q = te.reduce_axis(5, name="k"), te.reduce_axis(5, name="q")

    def term(i, k):
        return a[i, k] * b[i, k] * a[i, 0] * b[i, 1]

    def place(i):
        value = term(i, q)
        found = {"==": value == top[i], ">=": value >= top[i], "<": value < top[i]}[finds]
        return te.min(te.if_then_else(found, q, 9), axis=q)

    top = te.compute((4,), lambda i: te.max(term(i, k), axis=k), name="top")
    at = te.compute((4,), place, name="at")
    sch = Schedule(te.create_prim_func([a, b, at], name="place"))
    for block in ("top", "at"):
        refused(sch.regroup, block, [[0, 2], [1, 3]], match="'at' compares with what is made of")
