"""Numbers of rows that are results as well, such as the mean beside a norm, are stored on GPUs by
the kernel that computes them."""

from __future__ import annotations

import pytest

from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from backends import build
from benchmarks.general.form import numbers, require_close
from schedule import Schedule
from schedule.library import gpu
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))


def norm(x, axis, keepdims):
    """A norm, its mean and its variance."""
    mean = ops.mean(x, axis, keepdims=True)
    apart = ops.subtract(x, mean)
    spread = ops.mean(ops.multiply(apart, apart), axis, keepdims=True)
    made = ops.divide(apart, ops.sqrt(ops.add(spread, 1e-5)))
    if keepdims:
        return made, mean, spread
    return made, ops.multiply(mean, 1.0), spread


def softmax(x, axis, keepdims):
    """What a softmax keeps for its derivative."""
    most = ops.max(x, axis, keepdims=True)
    terms = ops.exp(ops.subtract(x, most))
    total = ops.sum(terms, axis, keepdims=True)
    made = ops.divide(terms, total)
    return (made, most, total) if keepdims else (made, ops.add(most, ops.log(total)), total)


def scaled(x, axis, keepdims):
    """A sum is a result itself, of one dimension less."""
    size = x.shape[-1]
    k = te.reduce_axis(size, name="k")
    sums = te.compute(x.shape[:-1], lambda *at: te.sum(x[(*at, k)] * x[(*at, k)], axis=k), name="q")
    return te.compute(x.shape, lambda *at: x[at] * te.rsqrt(sums[at[:-1]] + 1.0), name="y"), sums


def program(make, *shape: int, axis: int = -1, keepdims: bool = True, results: int = 3,
            kind: str = "float32") -> PrimFunc:  # fmt: skip
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, *make(x, axis, keepdims)[:results]])


def planned(func: PrimFunc):
    sketch = choose(func, DEVICE, None, ()).sketch
    return [plan.name for plan in sketch.plans], sketch.build(sketch.values())


def taken(func: PrimFunc) -> float:
    return cycles(works_of(planned(func)[1].func, DEVICE), DEVICE)


@pytest.mark.parametrize("make", [norm, softmax, scaled])
@pytest.mark.parametrize("shape", [(8192, 4096), (16, 512, 4096), (65536, 200), (8191, 1021)])
def test_results_beside_take_no_longer(make, shape):
    """Rows were read again for each sum, and for the result."""
    alone = taken(program(make, *shape, results=1))
    for keepdims in (True, False):
        assert taken(program(make, *shape, keepdims=keepdims)) <= 1.05 * alone


@pytest.mark.parametrize("make", [norm, softmax, scaled])
@pytest.mark.parametrize(
    "shape, axis, kind",
    [
        ((6, 48), -1, "float32"), ((3, 5, 1100), -1, "float32"), ((37, 33), -1, "float16"),
        ((40, 7), 0, "float32"), ((3, 40, 9), 1, "float32"), ((50, 5), -1, "float64"),
        ((1, 70), -1, "float32"), ((2, 3, 1, 48), -1, "float32"),
    ],
)  # fmt: skip
def test_results_beside_are_right(make, shape, axis, kind, cache):
    for keepdims in (True, False):
        func = program(make, *shape, axis=axis, keepdims=keepdims, kind=kind)
        arrays = numbers(func)
        kernel = build(planned(func)[1], f"{TARGET} -check=races,uninitialised", cache=cache)
        require_close(func.outputs, list(kernel(*arrays)), list(reference(func, *arrays)))


def test_stages_aside_share_the_loop_over_rows(cache):
    func = program(scaled, 9, 70)
    sch = Schedule(func)
    aside = sch.cache_write("q", 0, "global", ["y"])
    loop = gpu.rows(sch, "y", aside=[aside]).loop
    assert {"q", aside, "y"} <= set(sch.get_child_blocks(loop))
    arrays = numbers(func)
    kernel = build(sch, f"{TARGET} -check=races,uninitialised", cache=cache)
    require_close(func.outputs, list(kernel(*arrays)), list(reference(func, *arrays)))
