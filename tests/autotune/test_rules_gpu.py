"""Rules for GPUs: which plans they make, what these compute, and what that moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules.defaults import default_sketch
from autotune.rules.generate import sketches
from backends import ObjectCache, build
from tensorir import Device, PrimFunc, Target, Var, device_of, ops, reference, te

EMULATOR = "cuda-emulator -arch=sm_90a"
DEVICE: Device = device_of(Target.parse(EMULATOR))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> ObjectCache:
    return ObjectCache(tmp_path_factory.mktemp("objects"))


def program(make: Callable[..., Any], *shapes: tuple[Any, ...], dtype: str = "float32") -> PrimFunc:
    """The function whose result `make` computes of inputs of these shapes."""
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def plans(func: PrimFunc) -> list[str]:
    """The names of the plans of the default schedule, in program order."""
    sketch = default_sketch(sketches(func, DEVICE, "reassociated"), ())
    return [plan.name for plan in sketch.plans][::-1]


def arrays(func: PrimFunc, size: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[size if isinstance(d, Var) else d.value for d in p.shape] for p in func.inputs]
    return [rng.integers(-4, 5, shape).astype(p.dtype) for p, shape in zip(func.inputs, shapes)]


def right(func: PrimFunc, cache: ObjectCache, size: int = 7) -> None:
    """The default schedule computes what the definition does."""
    given = arrays(func, size)
    kernel = build(default_schedule(func, EMULATOR), EMULATOR, cache=cache)
    found = kernel(*given)
    results = found if isinstance(found, tuple) else (found,)
    for one, wanted in zip(results, reference(func, *given), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)


def softmax(x: Any) -> Any:
    return ops.softmax(x, name="S")


RULED = {
    "softmax": (program(softmax, (70, 300)), ["chain"]),
    "softmax along columns": (
        program(lambda x: ops.softmax(x, axis=0, name="S"), (70, 50)), ["chain"],
    ),
    "row sums": (program(lambda x: ops.sum(x, (1,), name="S"), (70, 300)), ["rows"]),
    "column sums": (program(lambda x: ops.sum(x, (0,), name="S"), (300, 70)), ["columns"]),
    "one value": (program(lambda x: ops.sum(x, (0,), name="S"), (5000,)), ["rows"]),
    "transpose": (program(lambda x: ops.transpose(x, (1, 0), name="S"), (70, 50)), ["turned"]),
    "relu": (program(lambda x: ops.relu(x, name="S"), (70, 50)), ["elementwise"]),
    "rank five": (program(lambda x: ops.relu(x, name="S"), (3, 2, 3, 3, 7)), ["elementwise"]),
    "argmax": (program(lambda x: ops.argmax(x, 1, name="S"), (9, 300)), ["chain"]),
    "running sums": (
        program(lambda x: ops.cumsum(x, 1, name="S"), (4, 9)),
        ["elementwise", "as_written", "turned"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULED)
def test_each_family_has_its_rule_and_is_right(name, cache):
    func, expected = RULED[name]
    assert plans(func) == expected
    right(func, cache)


@pytest.mark.parametrize(
    ("shape", "axes", "plan"),
    [
        ((1 << 22,), (0,), "few_values"),
        ((3, 1 << 20), (1,), "few_values"),
        ((1 << 16, 1 << 10), (1,), "rows"),
        ((1 << 10, 1 << 16), (0,), "columns"),
        ((1 << 16, 64, 64), (0, 2), "few_values"),
        ((4096, 4096, 128), (0, 1), "columns"),
    ],
)
def test_sizes_decide_how_terms_are_shared(shape, axes, plan):
    assert plans(program(lambda x: ops.sum(x, axes, name="S"), shape)) == [plan]


def test_what_no_rule_takes_says_so():
    sketch = default_sketch(sketches(RULED["running sums"][0], DEVICE, "reassociated"), ())
    assert any("what is independent in it is bound when it is lowered" in n for n in sketch.notes())
