"""reassociate: the parts of a term of a sum are added one by one."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused
from small_programs import make_sum, value

from schedule import Schedule
from schedule.requests.candidates import candidates
from tensorir import interpret, te

A, B, S = "A[vi, vk]", "B[vk, vj]", "S[vk]"

TERMS = {
    "difference": (lambda a, b, s: a * b - a * s, f"+ {A} * {B} - {A} * {S}"),
    "sum": (lambda a, b, s: a * b + s, f"+ {A} * {B} + {S}"),
    "within": (lambda a, b, s: a - (b - (s - a)), f"+ {A} - {B} + {S} - {A}"),
    "product of sums": (lambda a, b, s: (a + b) * s - a, f"+ ({A} + {B}) * {S} - {A}"),
}


@pytest.mark.parametrize("name", TERMS)
def test_each_part_is_added_in_the_order_of_the_text(check, name):
    term, parts = TERMS[name]
    sch = Schedule(make_sum(term))
    assert list(candidates(sch.state, "reassociate")) == [("C",)]
    sch.reassociate("C")
    assert value(sch) == f"C[vi, vj] {parts}"
    assert sch.numerics == "reassociated"
    assert Schedule(sch.func).numerics == "bitwise"
    check(sch, compiled=name == "difference")
    sch.undo()
    assert sch.numerics == "bitwise"


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32"])
def test_integers_wrap_to_the_same_bits(kind):
    sch = Schedule(make_sum(TERMS["within"][0], kind))
    sch.reassociate("C")
    assert sch.numerics == "bitwise"
    info = np.iinfo(kind)
    rng = np.random.default_rng(0)
    shapes = [p.const_shape for p in sch.func.inputs]
    args = [rng.integers(info.min, info.max, s, kind, endpoint=True) for s in shapes]
    (found,), (wanted,) = interpret(sch.func, *args), interpret(sch.definition, *args)
    np.testing.assert_array_equal(found, wanted)


def test_after_the_sums_were_split():
    """Of each part of them, which is a reduction with a step of its own."""
    sch = Schedule(make_sum(TERMS["difference"][0]))
    outer, _ = sch.split("k", [None, 2])
    part = sch.rfactor("C", outer)
    sch.reassociate(part)
    assert list(candidates(sch.state, "reassociate")) == []
    inputs = [np.arange(n, dtype="float32").reshape(s) for n, s in ((15, (5, 3)), (21, (3, 7)))]
    inputs.append(np.arange(3, dtype="float32"))
    (found,), (wanted,) = interpret(sch.func, *inputs), interpret(sch.definition, *inputs)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "term",
    [
        lambda a, b, s: a * b,
        lambda a, b, s: (a - b) * s,
        lambda a, b, s: te.exp(a + b),
        lambda a, b, s: (a + b).astype("float16").astype("float32"),
    ],
)
def test_terms_of_one_part_are_refused(term):
    sch = Schedule(make_sum(term))
    assert list(candidates(sch.state, "reassociate")) == []
    refused(sch.reassociate, "C", match="is no sum of what it has so far and of")


def test_what_is_no_sum_is_refused():
    none = "is no sum of what it has so far and of"
    refused(Schedule(make_sum(TERMS["sum"][0], "int64")).reassociate, "C", match=none)
    sch = Schedule(make_sum(TERMS["sum"][0]))
    sch.reassociate("C")
    refused(sch.reassociate, "C", match=none)  # it is done
    x, k = te.placeholder((4, 5), name="x"), te.reduce_axis(5, name="k")
    most = te.compute((4,), lambda i: te.max(x[i, k] - x[i, 0], axis=k), name="most")
    refused(Schedule(te.create_prim_func([x, most])).reassociate, "most", match=none)
    both = te.comm_reducer(lambda p, q: (p[0] + q[0], p[1] + q[1]), lambda *_: (0.0, 0.0))
    first, second = te.compute((4,), lambda i: both((x[i, k], x[i, k]), axis=k), name="both")
    sch = Schedule(te.create_prim_func([x, first, second]))
    refused(sch.reassociate, sch.get_blocks()[0], match="stores more than one value")
