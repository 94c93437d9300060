"""Copies that run ahead: what loads stands before the sums of a step, what stores behind them."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.gpu.work import architecture_of
from autotune.rules import choose
from backends import build
from schedule import ScheduleError
from tensorir import (
    For,
    Gpu,
    Store,
    Sync,
    Target,
    VerifyError,
    loads,
    lower,
    ops,
    parse,
    prove,
    reference,
    te,
    walk,
)  # fmt: skip

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))
CHECKED = "cuda-emulator -arch=sm_90a -check=races,bounds,uninitialised"


def product(make, *shapes, dtype="float32"):
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="product")


def turned(a, b):
    return ops.matmul(a, b, transpose_b=True)


PRODUCTS = {
    "whole": product(ops.matmul, (64, 64), (64, 64)),
    "odd": product(ops.matmul, (37, 61), (61, 43)),
    "turned": product(turned, (40, 61), (36, 61)),
    "halves": product(ops.matmul, (33, 64), (64, 48), dtype="float16"),
    "doubles": product(ops.matmul, (33, 50), (50, 24), dtype="float64"),
    "batches": product(ops.batch_matmul, (3, 19, 45), (3, 45, 21)),
    "padded": product(lambda x, w: ops.conv2d(x, w, padding=1), (2, 24, 9, 11), (20, 24, 3, 3)),
    "channels last": product(
        lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"), (2, 9, 9, 32), (3, 3, 32, 16)
    ),
    "and then": product(lambda a, b: ops.relu(ops.matmul(a, b)), (50, 33), (33, 70)),
}


def ahead(func):
    """The first tiles whose copies run ahead and that primitives accept, with several steps."""
    (plan,) = choose(func, DEVICE, None, ()).sketch.plans
    for counts in plan.found:
        if counts.plan.ahead and counts.steps > 1 and counts.plan.split == 1:
            made = plan.base.copy()
            with suppress(ScheduleError):
                plan.apply(made, {f"{plan.group.block}.tile": counts.plan.values})
                return made
    raise AssertionError("nothing runs ahead")


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_step_loads_then_adds_then_stores(name):
    """A store to shared memory waits for what is loaded: before the sums that was each step."""
    made = ahead(PRODUCTS[name])
    low = lower(made.func, DEVICE.target)
    steps = [s for s in walk(low.body) if isinstance(s, For) and s.name.endswith("_all")]
    assert steps
    for step in steps:
        kinds = [_kind(s) for s in walk(step.body) if isinstance(s, (Store, Sync))]
        first, last = kinds.index("add"), len(kinds) - 1 - kinds[::-1].index("add")
        assert "load" in kinds[:first] and "store" in kinds[last:] and kinds.count("wait") == 1
        assert "store" not in kinds[:last] and "load" not in kinds[first:]


def _kind(stmt) -> str:
    if isinstance(stmt, Sync):
        return "wait"
    buffers = {load.buffer for load in loads(stmt.value)}
    read = {buffer.scope for buffer in buffers}
    if stmt.buffer.scope == "shared":
        assert "global" not in read
        return "store"
    return "load" if "global" in read else "add" if stmt.buffer in buffers else ""


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_runs_ahead_is_right_and_free_of_races(name, cache):
    func = PRODUCTS[name]
    made = ahead(func)
    rng = np.random.default_rng(0)
    shapes = [(p.const_shape, p.dtype) for p in func.params[:2]]
    arrays = [rng.integers(-3, 4, shape).astype(kind) for shape, kind in shapes]
    kernel = build(made, CHECKED, cache=cache)
    np.testing.assert_allclose(kernel(*arrays), reference(func, *arrays)[0], rtol=1e-3)
    assert not kernel.findings.reports


STEPS = """
@prim_func
def steps(A: f32[9, 32], B: f32[32]):
    S = alloc(f32[32], scope="shared")
    R = alloc(f32[1], scope="local")
    for b in thread("blockIdx.x", 1):
        for t in thread("threadIdx.x", 32):
            R[0] = 0.0
        for k in range(9):
{body}
        for t in thread("threadIdx.x", 32):
            B[t] = R[0]
"""
LOAD = ("V[0] = A[k, t]",)
STORE = ("S[t] = V[0]",)
ADD = ("for i in range({n}):", "    R[0] = R[0] + S[(t + i) % 32]")


def waits_for_memory(n, *parts):
    lines = [
        f"{' ' * 12}for t in thread('threadIdx.x', 32):\n"
        + "\n".join(f"{' ' * 16}{line.format(n=n)}" for line in part)
        for part in parts
    ]
    text = STEPS.format(body="\n".join(lines)).replace("'", '"')
    text = text.replace("    R = alloc", '    V = alloc(f32[1], scope="local")\n    R = alloc', 1)
    (work,) = works_of(lower(parse(text), DEVICE.target), DEVICE)
    return work.rounds


def test_a_wait_is_hidden_by_what_is_done_before_the_use():
    """By all of it or a part; and by nothing, where what is loaded is stored at once."""
    long = int(architecture_of(DEVICE).latency)
    assert waits_for_memory(long, LOAD, STORE, ADD) == 9
    assert waits_for_memory(long, LOAD, ADD, STORE) == 0
    assert waits_for_memory(long // 4, LOAD, ADD, STORE) == pytest.approx(9 * 0.75, rel=0.01)
    assert waits_for_memory(long, ADD, LOAD, STORE) == 9


OVERLAPPING = """
@prim_func
def windows(A: f32[40], B: f32[4, 3, 12]):
    L = alloc(f32[40], scope="local")
    for b in thread("blockIdx.x", 4):
        for c in range(3):
            for i in thread("threadIdx.x", 4):
                for p in range(3):
                    with block("L"):
                        v = spatial(40, b * 8 + c * 2 + (p * 4 + i) // 2)
                        L[v] = A[v]
            for j in thread("threadIdx.x", 4):
                for q in range(3):
                    with block("B"):
                        vb = spatial(4, b)
                        vc = spatial(3, c)
                        vj = spatial(12, q * 4 + j)
                        B[vb, vc, vj] = L[{place}]
"""


def test_an_element_belongs_to_a_thread_within_an_iteration():
    """Of a serial loop around all uses, each iteration of which reads what it wrote itself."""
    for place, right in (("vb * 8 + vc * 2 + vj", True), ("vb * 8 + vc * 2 + 11 - vj", False)):
        func = parse(OVERLAPPING.replace(" // 2)", ")").format(place=place))
        assert (race(func) is None and unseen(func) is None) is right
        if right:
            prove(func)
        else:
            with pytest.raises(VerifyError, match="'L' is in local memory"):
                prove(func)
