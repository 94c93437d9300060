"""Sums over windows that share a function's value: one sum of tuples, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import Expr, PrimFunc, Target, device_of, interpret, te

TARGET = "c -threads=1"


def weighted(
    kind: str = "float32", size: int = 13, terms: int = 3, colours: int = 1, turned: bool = False,
    first: str = "above", weight: Callable[[Expr], Expr] | None = None, results: bool = False,
) -> PrimFunc:  # fmt: skip
    """Means of the neighbours in planes, weighted by how near their values are. Windows may be
    `turned`, the weights summed `first`, and the sums results of their own."""
    u = te.placeholder((colours, size, size + 2), kind, name="u")
    shape = (size - terms + 1, size + 3 - terms)
    weight = weight or (lambda apart: te.exp(-apart))

    def near(i: Expr, j: Expr, a: Expr, b: Expr) -> Expr:
        half = terms // 2
        apart = [u[c, i + a, j + b] - u[c, i + half, j + half] for c in range(colours)]
        return weight(sum(d * d for d in apart))

    def summed(term: Callable[..., Expr], name: str) -> te.Tensor:
        a, b = te.reduce_axis(terms, f"{name}_a"), te.reduce_axis(terms, f"{name}_b")
        if turned:
            return te.compute(shape, lambda y, x: te.sum(term(y, x, b, a), axis=[a, b]), name)
        return te.compute(shape, lambda i, j: te.sum(term(i, j, a, b), axis=[a, b]), name)

    def value(c: int) -> Callable[..., Expr]:
        return lambda i, j, a, b: near(i, j, a, b) * u[c, i + a, j + b]

    below = summed(near, "below") if first == "below" else None
    above = [summed(value(c), f"above{c}") for c in range(colours)]
    below = summed(near, "below") if below is None else below
    if results:
        return te.create_prim_func([u, *above, below], name="weighted")
    out = te.compute(shape, lambda i, j: sum(x[i, j] for x in above) / below[i, j], "out")
    return te.create_prim_func([u, out], name="weighted")


FORMS: dict[str, PrimFunc] = {
    "plain": weighted(),
    "float64": weighted("float64"),
    "three colours": weighted(colours=3),
    "weights first": weighted(first="below"),
    "turned": weighted(turned=True),
    "long windows": weighted(size=16, terms=7),
    "a quotient": weighted(weight=lambda apart: 1 / (1 + apart)),
    "results": weighted(colours=2, results=True),
}


def several(results: object) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (np.asarray(results),)


def last_sum(func: PrimFunc) -> str:
    sch = Schedule(func)
    return [str(name) for name in sch.get_blocks() if sch.state.block(name).is_reduction][-1]


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_windows_are_one_with_the_same_bits(form: str) -> None:
    func = FORMS[form]
    sch = Schedule(func)
    sums = len([name for name in sch.get_blocks() if sch.state.block(name).is_reduction])
    sch.use_algorithm(last_sum(func), "sums_beside")
    left = [name for name in sch.get_blocks() if sch.state.block(name).is_reduction]
    assert len(left) == 1 < sums
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.const_shape).astype(p.dtype) for p in func.inputs]

    for wanted, got in zip(*(several(interpret(each, *arrays)) for each in (func, sch.func))):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_default_schedules_take_each_function_once(form: str) -> None:
    func = FORMS[form]
    sch = default_schedule(func, TARGET)
    assert "sums_beside" in sch.trace.as_python()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.const_shape).astype(p.dtype) for p in func.inputs]
    for got, wanted in zip(*(several(build(each, TARGET)(*arrays)) for each in (sch, func))):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_devices_of_other_kinds_keep_their_sums() -> None:
    from autotune.rules.alternatives import first_start

    device = device_of(Target("cuda-emulator"))
    assert "sums_beside" not in first_start(FORMS["plain"], "reassociated", device).name


def rows() -> PrimFunc:
    x = te.placeholder((5, 9), "float32", name="x")
    k, q = te.reduce_axis(9, "k"), te.reduce_axis(9, "q")
    a = te.compute((5,), lambda i: te.sum(te.exp(x[i, k]) * x[i, k], axis=k), "a")
    b = te.compute((5,), lambda i: te.sum(te.exp(x[i, q]), axis=q), "b")
    return te.create_prim_func([x, a, b])


def one_after_the_other() -> PrimFunc:
    x = te.placeholder((9,), "float32", name="x")
    k, q = te.reduce_axis(3, "k"), te.reduce_axis(3, "q")
    a = te.compute((7,), lambda i: te.sum(te.exp(x[i + k]) * x[i], axis=k), "a")
    b = te.compute((7,), lambda i: te.sum(te.exp(x[i + q]) * a[i], axis=q), "b")
    return te.create_prim_func([x, b])


STAY = {
    "no function": (weighted(weight=lambda apart: apart), "take no function"),
    "rows, which chains share": (rows(), "take no function"),
    "one needs the other": (one_after_the_other(), "can be made with it"),
}


@pytest.mark.parametrize("name", STAY)
def test_others_stay_apart(name: str) -> None:
    func, why = STAY[name]
    sch = Schedule(func)
    refused(sch.use_algorithm, last_sum(func), "sums_beside", match=why)
    assert "sums_beside" not in default_schedule(func, TARGET).trace.as_python()
