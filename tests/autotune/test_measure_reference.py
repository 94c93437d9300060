"""Inputs that are drawn, what is expected for them, and how far a result may be from that."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import MeasureError
from autotune.measure import Reference, draw_inputs, make_reference
from tensorir import parse


@pytest.mark.parametrize(
    "found, wrong_at",
    [([1, 2, 3], None), ([1, 2 + 1e-7, 3], None), ([1, 2, 4], 2), ([np.nan, 2, 3], 0)],
)
def test_errors_are_judged_by_element(found, wrong_at):
    want = np.array([1, 2, 3], np.float32)
    ref = Reference(("B",), {"B": "float32"}, {}, {"B": want}, {"B": np.full(3, 1e-6)})
    index = ref.error("B", np.array(found, np.float32))[2]
    assert index == (None if wrong_at is None else (wrong_at,))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_agree_with_themselves_only(special):
    want = np.array([special, 1], np.float32)
    ref = Reference(("B",), {"B": "float32"}, {}, {"B": want}, {"B": np.full(2, 1e30)})
    assert ref.error("B", np.array([special, 2], np.float32))[2] is None
    assert ref.error("B", np.array([7, 1], np.float32))[2] == (0,)


def copy_of(element, size):
    """The text of a program that copies a vector."""
    return (
        f"@prim_func\ndef copy(A: {element}[{size}], B: {element}[{size}]):\n"
        f"    for i in range({size}):\n"
        f'        with block("B"):\n            v = spatial({size}, i)\n            B[v] = A[v]\n'
    )


def test_symbolic_sizes_are_asked_for():
    func = parse(copy_of("f32", "n"))
    with pytest.raises(MeasureError, match="'A' has the symbolic size n: give a number"):
        draw_inputs(func)
    assert draw_inputs(func, sizes={"n": 3})["A"].shape == (3,)


@pytest.mark.parametrize("short, kind", [("f16", "float16"), ("bf16", "uint16"), ("i8", "int8")])
def test_inputs_have_exact_values(short, kind):
    func = parse(copy_of(short, 64))
    values = draw_inputs(func, seed=3)["A"]
    assert values.dtype == kind and len(np.unique(values)) > 8
    ref = make_reference(func, {"A": values}, {"B": values})
    assert ref.error("B", values)[2] is None
    assert (ref.tolerance["B"] > 0).all() or kind == "int8"


def test_reference_survives_a_file(tmp_path):
    a, types = np.arange(10, dtype=np.float32), {"A": "float32", "B": "float32"}
    tolerance = {"B": np.full((), 1e-6)}
    before = Reference(("A", "B"), types, {"A": a}, {"B": a + 1}, tolerance)
    before.save(tmp_path / "r.npz")
    after = Reference.load(tmp_path / "r.npz")
    assert (after.names, after.dtypes) == (before.names, before.dtypes)
    for group in ("inputs", "expected", "tolerance"):
        for name, values in getattr(before, group).items():
            np.testing.assert_array_equal(getattr(after, group)[name], values)
