"""transform_layout of stages: the tensor and its loops in another order."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import ScheduleError
from tensorir import interpret, reference, te


def sums(n=8, m=12):
    A = te.placeholder((n, m, 5), name="A")
    k = te.reduce_axis(5, name="k")
    B = te.compute((n, m), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] + 1.0, name="C")
    return A, B, C, te.create_schedule(C.op)


def same(s):
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in s.prim_func.inputs]
    for found, wanted in zip(
        interpret(s.func, *inputs), reference(s.prim_func, *inputs), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mapping", [lambda i, j: [j // 4, i, j % 4], "i, j: j // 4, i, j % 4"])
def test_the_tensor_and_its_loops_change(mapping):
    _, B, _, s = sums()
    axes = s[B].transform_layout(mapping)
    assert [a.extent.value for a in axes] == [3, 8, 4] and list(s[B].op.axis) == axes
    assert [a.name for a in s[B].leaves] == ["ax0", "ax1", "ax2", "k"]
    s[B].vectorize(axes[2])
    s[B].reorder(*s[B].op.reduce_axis, axes[2])
    s[B].split(axes[1], factor=2)
    s[B].parallel(axes[0])
    assert "B = alloc(f32[3, 8, 4])" in str(s.func)
    assert "B[vj_0, vi, vj_1] = B[vj_0, vi, vj_1] + A[vi, vj_0 * 4 + vj_1, vk]" in str(s.func)
    same(s)


def test_of_a_copy_and_twice_and_with_names_of_ours():
    _, _, C, s = sums()
    copy = s.cache_write(C, "global")
    s[copy].transform_layout(lambda sum_0, i: (i, sum_0))
    axes = s[copy].transform_layout(lambda i, sum_1: (sum_1 // 2, i, sum_1 % 2))
    assert [a.extent.value for a in axes] == [4, 12, 2]
    assert "alloc(f32[4, 12, 2])" in str(s.func)
    same(s)


def test_of_sums_with_parameters_called_as_ours():
    _, B, _, s = sums(1, 6)
    s[B].transform_layout(lambda sum_0, sum_2: (sum_2, sum_0))
    assert "B = alloc(f32[6, 1])" in str(s.func)
    same(s)


def test_computed_in_a_loop_of_its_reader():
    _, B, C, s = sums()
    s[B].transform_layout(lambda i, j: (j, i))
    s[B].compute_at(s[C], C.op.axis[0])
    same(s)


def test_symbolic_sizes():
    n = te.var("n")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 4), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: (j, i))
    assert "B = alloc(f32[4, n])" in str(s.func)


def test_undo():
    _, B, C, s = sums()
    before, text = str(s), str(s.func)
    s[B].transform_layout(lambda i, j: (j, i))
    s.undo()
    assert (str(s), str(s.func)) == (before, text)
    s[B].split(B.op.axis[0], 2)
    s.cache_read(B, "local", [C])
    same(s)


def after(ask):
    """Ask for another layout, and then for something else."""

    def both(s, B, C):
        s[B].transform_layout(lambda i, j: (j, i))
        ask(s, B, C)

    return both


@pytest.mark.parametrize(
    "ask, reason",
    [
        (lambda s, B, C: s[C].transform_layout(lambda i, j: (j, i)), "'C' is an output"),
        (lambda s, B, C: s[B].transform_layout(lambda i: i), "1"),
        (lambda s, B, C: s[B].transform_layout(lambda i, j: i), "to one place"),
        (lambda s, B, C: s[B].transform_layout(lambda *i: i), "one named parameter per dimension"),
        (lambda s, B, C: s[B].transform_layout(3), "no index map|not a callable|is no"),
        (
            lambda s, B, C: s[B].transform_layout(lambda i, j: (j // 5, i, j % 5)),
            r"the new shape \[3, 8, 5\] has places that no element of 'B' comes to",
        ),
        (lambda s, B, C: s[B].transform_layout("i, j: i // 8, i % 8, j"), r"i // 8 .* always 0"),
        (
            lambda s, B, C: s[B].split(B.op.axis[0], 2) and s[B].transform_layout("i, j: j, i"),
            "split.* is for a loop that transform_layout takes",
        ),
        (
            lambda s, B, C: s[B].parallel(B.op.axis[0]) or s[B].transform_layout("i, j: j, i"),
            "parallel.* is for a loop that transform_layout takes",
        ),
        (after(lambda s, B, C: s[B].split(B.op.axis[0], 2)), "no loop of stage 'B' now"),
        (after(lambda s, B, C: s.cache_read(B, "local", [C])), "layout of .* was transformed"),
        (after(lambda s, B, C: s.cache_write(B, "local")), "layout of .* was transformed"),
        (after(lambda s, B, C: s.rfactor(B, B.op.reduce_axis[0])), "layout of .* was transformed"),
    ],
)
def test_refused_at_the_call(ask, reason):
    _, B, C, s = sums()
    with pytest.raises(ScheduleError, match=reason):
        ask(s, B, C)
    same(s)
