"""Products with few rows or few columns: which get dot products in lanes, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import make_space
from autotune.rules.dots import tile_cycles
from autotune.rules.generate import default_candidate
from backends import build
from tensorir import Costs, Cpu, PrimFunc, Target, ops, te

TARGET = Target(vector_bits=512, threads=2, features=("avx512f",), l1d=48 << 10, l2=1 << 20)
MACHINE = Cpu(TARGET)


def product(
    m: int, n: int, k: int, turned: bool = True, dtype: str = "float32", batch: tuple[int, ...] = ()
) -> PrimFunc:
    a = te.placeholder((*batch, m, k), dtype, name="a")
    b = te.placeholder((*batch, n, k) if turned else (*batch, k, n), dtype, name="b")
    return te.create_prim_func([a, b, ops.matmul(a, b, transpose_b=turned, name="c")], name="dot")


def sketch(func: PrimFunc, numerics: str = "mixed", constants: tuple[str, ...] = ()) -> str:
    space = make_space(func, MACHINE, numerics)
    return default_candidate(space, constants).sketch


@pytest.mark.parametrize("rows", [2, 8, 31])
def test_few_rows_of_contiguous_terms_are_dot_products(rows: int) -> None:
    func = product(rows, 300, 512)
    assert sketch(func) == "c:dots"
    assert sketch(func, "bitwise") != "c:dots"


def test_a_constant_is_transposed_ahead_instead() -> None:
    func = product(16, 300, 512)
    assert sketch(func) == "c:dots"
    assert sketch(func, constants=("b",)) == "c:tiled"


@pytest.mark.parametrize("columns", [2, 3, 8])
def test_few_columns_are_transposed_ahead(columns: int) -> None:
    func = product(300, columns, 1024, turned=False)
    assert sketch(func) == sketch(func, constants=("b",)) == "c:dots"


@pytest.mark.parametrize(
    "m, n, k, turned",
    [
        (32, 300, 512, True),  # enough rows for a transposed copy
        (1, 300, 512, True),  # nothing to share: rows
        (300, 1, 512, False),
        (8, 300, 63, True),  # short sums
        (31, 300, 128, True),  # sums that are short for so many rows
        (8, 300, 512, False),  # columns fill vectors
        (300, 15, 1024, False),
        (16, 3, 1024, False),  # little work to make up for the copy
    ],
)
def test_other_products_are_not(m: int, n: int, k: int, turned: bool) -> None:
    assert "dots" not in sketch(product(m, n, k, turned))


def test_an_operand_multiplied_by_itself_is_not() -> None:
    a = te.placeholder((8, 128), name="a")
    k = te.reduce_axis(128, name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k), name="c")
    assert "dots" not in sketch(te.create_prim_func([a, c], name="gram"))


CASES: list[dict[str, Any]] = [
    {"m": 2, "n": 2, "k": 64},
    {"m": 7, "n": 37, "k": 131},
    {"m": 31, "n": 5, "k": 600},
    {"m": 67, "n": 3, "k": 257, "turned": False},
    {"m": 33, "n": 2, "k": 1031, "turned": False},
    {"m": 5, "n": 9, "k": 70, "batch": (3,)},
    {"m": 40, "n": 3, "k": 259, "turned": False, "batch": (2,)},
    {"m": 6, "n": 11, "k": 133, "dtype": "float64"},
    {"m": 6, "n": 11, "k": 133, "dtype": "float16"},
    {"m": 6, "n": 11, "k": 133, "dtype": "int32"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case: dict[str, Any]) -> None:
    func = product(**case)
    rng = np.random.default_rng(0)
    shapes = [tuple(int(n.value) for n in p.shape) for p in func.params]
    dtype = case.get("dtype", "float32")
    a, b = ((rng.random(shape) * 8 - 4).astype(dtype) for shape in shapes[:2])
    out = np.full(shapes[2], 77, dtype)
    target = "c -threads=2"
    schedule = default_schedule(func, target)
    assert any("_rf" in name for name in schedule.get_blocks()), "another rule took it"
    build(schedule, target)(a, b, out)
    wide = np.float64 if dtype != "int32" else np.int64
    turned = b.swapaxes(-1, -2) if case.get("turned", True) else b
    expected = a.astype(wide) @ turned.astype(wide)
    bound = {"float16": 5e-2, "float64": 1e-12, "int32": 0}.get(dtype, 1e-4)
    np.testing.assert_allclose(out.astype(wide), expected, atol=bound * case["k"] ** 0.5)


def test_nan_and_inf_stay_in_their_rows() -> None:
    func = product(9, 20, 128)
    a, b = np.ones((9, 128), np.float32), np.ones((20, 128), np.float32)
    a[2, 127], a[8, 0] = np.nan, np.inf
    out = np.zeros((9, 20), np.float32)
    build(default_schedule(func, "c"), "c")(a, b, out)
    expected = np.full((9, 20), 128.0, np.float32)
    expected[2], expected[8] = np.nan, np.inf
    np.testing.assert_array_equal(out, expected)


def test_an_epilogue_is_in_the_kernel() -> None:
    x, w = te.placeholder((6, 200), name="x"), te.placeholder((30, 200), name="w")
    bias = te.placeholder((30,), name="bias")
    y = ops.matmul(x, w, bias, "relu", transpose_b=True, name="y")
    func = te.create_prim_func([x, w, bias, y], name="linear")
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((6, 200), (30, 200), (30,))]
    out = np.zeros((6, 30), np.float32)
    schedule = default_schedule(func, "c")
    assert any("_rf" in name for name in schedule.get_blocks())
    build(schedule, "c")(*arrays, out)
    expected = np.maximum(arrays[0].astype(np.float64) @ arrays[1].T + arrays[2], 0)
    np.testing.assert_allclose(out, expected, atol=1e-4)


def test_tiles_are_larger_where_there_are_more_rows_and_columns() -> None:
    def cycles(sizes: tuple[int, int, int], high: int, wide: int) -> float:
        return tile_cycles(sizes, 16, Costs(), high, wide)

    assert cycles((8, 64, 512), 4, 4) < cycles((8, 64, 512), 2, 4)
    assert cycles((2, 64, 512), 2, 8) < cycles((2, 64, 512), 8, 2)
