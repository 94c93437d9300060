"""The numerics class of a schedule, step by step."""

import pytest

from schedule import Schedule
from tensorir import te


def row_sums():
    A = te.placeholder((13, 16), name="A")
    k = te.reduce_axis(16, name="k")
    C = te.compute((13,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return Schedule(te.create_prim_func([A, C]))


def _parts_of_rows(sch):
    sch.partition("i", [None, 4])


def _parts_of_the_sum(sch):
    sch.decompose_reduction("C", "k")
    sch.partition("k", [None, 4, 3])


def _parts_of_a_cached_sum(sch):
    sch.cache_write("C")
    sch.partition(sch.get_loops("C")[0], [None, 4])


def _parts_of_a_part(sch):
    sch.partition("i", [None, 4])
    sch.partition("i_0", [2, None])
    sch.split(sch.get_loops("C_1")[1], [None, 4])


@pytest.mark.parametrize(
    "steps", [_parts_of_rows, _parts_of_the_sum, _parts_of_a_cached_sum, _parts_of_a_part]
)
def test_parts_of_loops_keep_the_order_of_sums(steps):
    sch = row_sums()
    steps(sch)
    assert sch.numerics == "bitwise"


@pytest.mark.parametrize(
    "steps", [_parts_of_rows, _parts_of_the_sum, _parts_of_a_cached_sum, _parts_of_a_part]
)
def test_a_part_in_another_order(steps):
    """A copy of a block is held to the order of its original as much as the original is."""
    sch = row_sums()
    steps(sch)
    last = [b for b in sch.get_blocks() if sch.state.block(b).is_reduction][-1]
    while len(sch.get_loops(last)) < 3:
        sch.split(sch.get_loops(last)[-1], [None, 2])
    *_, outer, inner = sch.get_loops(last)
    sch.reorder(inner, outer)
    assert sch.numerics == "reassociated"
