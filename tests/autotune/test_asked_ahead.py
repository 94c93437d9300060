"""What defaults ask memory for ahead, and what they write past the caches, by what it saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Costs, For, PrimFunc, ops, te, walk

TARGET = "c -threads=2 -vector_bits=512 -l2=1048576 -l3=16777216"
LATE = replace(Costs(), late=0.5)


def made(*tensors: te.Tensor) -> PrimFunc:
    return te.create_prim_func(list(tensors), name="made")


def rows(op, m: int = 4096, n: int = 1024, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder((m, n), dtype, name="x")
    return made(x, op(x))


def product(m: int, dtype: str = "float32") -> PrimFunc:
    a, b = (
        te.placeholder(shape, dtype, name=x) for x, shape in (("a", (m, 4096)), ("b", (4096,) * 2))
    )
    return made(a, b, ops.matmul(a, b))


def asked(func: PrimFunc, costs: Costs) -> set[str]:
    """The steps of a default that ask for memory ahead, or write past the caches."""
    sch = default_schedule(
        func, TARGET, costs=costs, constants=("b",) if len(func.params) == 3 else ()
    )
    steps = {step.name for step in sch.trace.instructions}
    return steps & {"spread_prefetch", "prefetch", "stream"}


def requests_of(func: PrimFunc, costs: Costs) -> list[str]:
    """What the default of `func` asks for ahead, little by little."""
    loops = [s for s in walk(default_schedule(func, TARGET, costs=costs).func.body)]
    found = [s.annotations.get("spread_prefetch", ()) for s in loops if isinstance(s, For)]
    return [request[1] for requests in found for request in requests]


def total(x: te.Tensor) -> te.Tensor:
    return ops.sum(x, 1)


def cosine(x: te.Tensor) -> te.Tensor:
    """Of a row with itself, moved on by one."""
    n = int(x.shape[1]) - 1
    k = [te.reduce_axis(n, name=f"k{i}") for i in range(3)]
    dot, a, b = (
        te.compute(
            (x.shape[0],), lambda i, p=p, q=q, r=r: te.sum(x[i, r + p] * x[i, r + q], axis=r)
        )
        for (p, q), r in zip(((0, 1), (0, 0), (1, 1)), k)
    )
    return te.compute((x.shape[0],), lambda i: dot[i] / te.sqrt(a[i] * b[i]), name="out")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", [total, cosine, ops.rms_norm, ops.layer_norm])
def test_memory_never_rests_beside_few_operations(op, dtype):
    """Requests took the place of loads there, 1.1 to 1.3 times as long on a Zen 4; they pay where
    the processor's own come too late."""
    assert asked(rows(op, dtype=dtype), Costs()) <= {"stream"}
    assert asked(rows(op, dtype=dtype), LATE) & {"spread_prefetch", "prefetch"}


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, lambda x: ops.logsumexp(x, 1)])
def test_it_rests_beside_functions(op):
    assert "spread_prefetch" in asked(rows(op), Costs())


@pytest.mark.parametrize(("m", "wanted"), [(2, False), (4, False), (16, True)])
def test_it_rests_beside_many_rows_that_share_operands(m, wanted):
    assert bool(asked(product(m), Costs())) == wanted
    assert asked(product(m), LATE)


@pytest.mark.parametrize("op", [ops.softmax, ops.rms_norm, ops.layer_norm, ops.log_softmax])
def test_results_of_chains_go_past_the_caches(op):
    """Where the last cache does not hold them: their lines need not be read. Then nobody asks for
    them."""
    large, small = (rows(op, m) for m in (4096, 512))
    assert "stream" in asked(large, Costs()) and "stream" not in asked(small, Costs())
    assert requests_of(large, LATE) == ["x"]


@pytest.mark.parametrize("op", [ops.rms_norm, ops.layer_norm])
def test_results_of_chains_are_asked_for(op):
    """A row is stored in a burst, which waits for its lines: 1.3 to 1.5 times as long on a Zen 4
    where the last cache does not keep them, and nothing where it does."""
    func = rows(op, 1536)
    assert requests_of(func, Costs()) == [func.params[-1].name]
    assert not requests_of(rows(op, 512), Costs())


@pytest.mark.parametrize(
    ("shape", "terms", "wanted"),
    [((640, 640), 64, True), ((13, 200, 133), 33, True), ((640, 640), 400, False),
     ((320, 320), 64, False)],
)  # fmt: skip
def test_results_of_few_terms_are_asked_for(shape, terms, wanted):
    """While a tile is summed up: 0.9 to 0.98 of the time where the second cache does not hold them,
    and where it does, or there are many terms, no difference."""
    *batch, m, n = shape
    a, b = (
        te.placeholder((*batch, *of), name=x) for x, of in (("a", (m, terms)), ("b", (terms, n)))
    )
    func = made(a, b, ops.batch_matmul(a, b) if batch else ops.matmul(a, b))
    assert (func.params[-1].name in requests_of(func, Costs())) == wanted
    given = [np.random.default_rng(0).integers(-3, 4, p.const_shape) for p in func.inputs]
    given = [x.astype("float32") for x in given]
    found = build(default_schedule(func, TARGET))(*given)
    np.testing.assert_array_equal(found, given[0] @ given[1])


@pytest.mark.parametrize("op", [ops.softmax, ops.layer_norm, ops.relu, ops.sigmoid])
def test_what_all_caches_hold_together_is_not_written_past_them(op):
    """Shared caches take what leaves those of a core: arrays as large as the last one find room."""
    assert "stream" not in asked(rows(op, 2048), Costs())  # 16 MiB, and 18 in all
    assert "stream" in asked(rows(op, 2560), Costs())


@pytest.mark.parametrize("offset", [0, 4, 16, 48])
@pytest.mark.parametrize(("m", "n"), [(300, 1025), (64, 4096)])
def test_streamed_chains_write_rows_wherever_they_begin(offset, m, n):
    func = rows(ops.softmax, m, n)
    kernel = build(default_schedule(func, f"{TARGET.replace('16777216', '1048576')}"))
    x = np.random.default_rng(0).standard_normal((m, n)).astype("float32")
    memory = np.full(m * n * 4 + 128, 255, "uint8")
    begin = -memory.ctypes.data % 64 + offset
    out = memory[begin : begin + m * n * 4].view("float32").reshape(m, n)
    kernel(x, out)
    wide = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, wide / wide.sum(axis=1, keepdims=True), rtol=2e-6)
    assert (memory[:begin] == 255).all() and (memory[begin + m * n * 4 :] == 255).all()


def picked(m: int, n: int, count: int, dtype: str, own: bool, place: str = "int32") -> PrimFunc:
    """Elements of each row of `x`: the same ones of all rows, or each row its `own`."""
    x = te.placeholder((m, n), dtype, name="x")
    at = te.placeholder((m, count) if own else (count,), place, name="at")
    return made(x, at, ops.gather(x, at, axis=1) if own else ops.take(x, at, axis=1))


@pytest.mark.parametrize(
    ("m", "n", "count", "wanted"),
    [(700, 1024, 512, ["x"]), (520, 1027, 131, ["x"]), (100, 1024, 512, []), (900, 3000, 16, [])],
)
@pytest.mark.parametrize("own", [False, True])
def test_rows_are_asked_for_of_which_elements_are_picked(m, n, count, wanted, own):
    """Where the second cache holds the array there is nothing to wait for, and of few elements of a
    row most lines are not read."""
    for dtype, place in (("float32", "int64"), ("float64", "int32")):
        func = picked(m, n, count, dtype, own, place)
        assert requests_of(func, Costs()) == wanted
        random = np.random.default_rng(0)
        x = random.standard_normal((m, n)).astype(dtype)
        at = random.integers(0, n, func.params[1].const_shape).astype(place)
        found = build(default_schedule(func, TARGET))(x, at)
        np.testing.assert_array_equal(found, np.take_along_axis(x, at, 1) if own else x[:, at])


def test_whole_rows_that_memory_tells_keep_their_vectors():
    """Those of an embedding follow each other in memory: the processor asks for the rest."""
    table = te.placeholder((5000, 768), name="table")
    at = te.placeholder((384,), "int64", name="at")
    func = made(table, at, ops.take(table, at, axis=0))
    assert requests_of(func, Costs()) == []
    assert "in vectorized(64)" in str(default_schedule(func, TARGET).func)
