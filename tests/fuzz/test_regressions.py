"""What the random schedules found, each as the shortest steps that showed it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from schedule import Schedule, ScheduleError
from tensorir import interpret, reference, verify

sys.path.insert(0, str(Path(__file__).parent))
from random_schedules import elementwise, matmul_bias, padded_conv, row_max  # noqa: E402


def apply(sch, steps):
    for name, *arguments in steps:
        getattr(sch, name)(*arguments)


def keeps_the_meaning(sch):
    verify(sch.func)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in sch.definition.inputs]
    expected = reference(sch.definition, *inputs)
    for got, want in zip(interpret(sch.func, *inputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_consumer_of_strided_iterations():
    """Every other element of a row was taken for the whole row, since its hull covers it."""
    sch = Schedule(elementwise(2, 3, 1))
    apply(sch, [("split", "j_C", [None, 2]), ("reorder", "j_C_1", "i_C"), ("cache_write", "C", 0)])
    with pytest.raises(ScheduleError, match="separate dense parts"):
        sch.reverse_compute_at("C_local", "j_C_1")


def test_consumer_of_overlapping_tiles():
    """Tiles of three where steps are two: the third element belongs to the next iteration."""
    sch = Schedule(elementwise(4, 3, 1))
    apply(
        sch,
        [
            ("cache_write", "B", 0),
            ("split", "i", [2, None]),
            ("split", "i_1", [None, 3]),
            ("fuse", "i_0", "i_1_0"),
            ("reverse_compute_at", "B_local", "i_1_1"),
        ],
    )
    assert str(sch.func).count("i_1_1 < 2") == 2
    keeps_the_meaning(sch)


def test_partial_sums_without_terms():
    """Lanes that no term reaches never got the first value of the reduction."""
    sch = Schedule(row_max(2, 1, 3))
    sch.split("k", [None, 5])
    with pytest.raises(ScheduleError, match="some iterations of loop 'k_1' have no term"):
        sch.rfactor("C", "k_1")


def test_copy_of_a_partly_computed_buffer():
    """The last rows of the padded input are computed for nobody, and the copy read them."""
    sch = Schedule(padded_conv(5, 2, 2))
    apply(sch, [("cache_write", "conv", 0), ("compute_at", "pad", "i_conv")])
    sch.compute_at("conv", "ax0")
    with pytest.raises(ScheduleError, match="computes only the part of 'pad' that is needed"):
        sch.cache_write("pad", 0)


def test_fused_digits_bound_each_other():
    """f // 2 < 1 and f % 2 < 1 together: the second was forgotten once f % 2 was read as f."""
    sch = Schedule(matmul_bias(8, 11, 5))
    apply(
        sch,
        [
            ("split", "i_D", [None, 2, 2]),
            ("split", "i_D_0", [None, 2, 2]),
            ("compute_at", "C", "i_D_2"),
            ("split", "i_D_0_0", [None, 5]),
            ("fuse", "i_D_0_0_1", "i_D_0_1"),
        ],
    )
    keeps_the_meaning(sch)
