"""What rules and the search make of networks of operators; random ones, and those that failed."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.measure.oracle import make_oracle
from autotune.rules import default_candidate, make_space
from backends import build
from tensorir import Cpu, Target, ops, te

sys.path.insert(0, str(Path(__file__).parent))
import fuzz  # noqa: E402
import network_checks  # noqa: E402
from network_checks import check_default  # noqa: E402

SMALL = Cpu(Target(vector_bits=256, threads=2, features=("avx2", "fma"), l1d=32 << 10, l2=1 << 20))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(20))
def test_seeds_have_no_findings(seed):
    row = network_checks.check_seed(seed)
    assert row["finding"] is None, fuzz.show_finding(row["finding"])


def test_a_seed_is_one_network():
    first, second = network_checks.Case(11), network_checks.Case(11)
    assert str(first.work.func) == str(second.work.func)
    assert first.schedule().trace.dumps() == second.schedule().trace.dumps()


def test_a_wrong_kernel_is_found(monkeypatch):
    monkeypatch.setattr(network_checks, "build", _off_by_one)
    finding = network_checks.check_seed(3)["finding"]
    assert finding["stage"] == "compiled" and "is off by" in finding["error"]
    assert "parse('''" in finding["program"]


def _off_by_one(sch: Any, target: str, constants: Any) -> Any:
    kernel = build(sch, target, constants=constants)

    def changed(*arrays: Any) -> Any:
        found = kernel(*arrays)
        return tuple(a + 1 for a in found) if isinstance(found, tuple) else found + 1

    return changed


def test_a_size_named_like_the_axis_of_an_operator():
    """Primitives that make loops gave them the names of sizes."""
    x = te.placeholder((te.var("n"), 5, 6, 16), name="x")
    pooled = ops.avg_pool2d(x, 2, layout="NHWC")
    check_default(te.create_prim_func([x, pooled], name="pool"), {"n": 3})


def test_a_convolution_of_a_batch_named_n():
    x = te.placeholder((te.var("n"), 5, 1, 16), name="x")
    w, bias = te.placeholder((3, 3, 16, 3), name="w"), te.placeholder((3,), name="bias")
    y = ops.conv2d(x, w, bias, stride=3, padding=2, layout="NHWC")
    check_default(te.create_prim_func([x, w, bias, y], name="conv"), {"n": 3})


def test_partial_sums_named_like_sizes_and_buffers():
    x = te.placeholder((te.var("n"), 3, 4, 33), name="x")
    w = te.placeholder((2, 2, 33, 1), name="vax0")
    y = ops.conv2d(x, w, layout="NHWC", activation="silu")
    check_default(te.create_prim_func([x, w, y], name="conv"), {"n": 3})


def test_the_place_of_a_maximum_kept_as_a_column():
    """A stage that stores to a constant index was to be inlined."""
    x = te.placeholder((7, 4, 17), name="x")
    y = ops.cast(ops.argmax(x, axis=2, keepdims=True), "float32")
    check_default(te.create_prim_func([x, ops.concat([y, y], 0)], name="places"))


def test_row_products_of_symbolic_sizes():
    """Two symbolic loops and a quotient by one of them were fused."""
    x = te.placeholder((te.var("n"), 64), name="x")
    y = ops.layer_norm(ops.relu(ops.matmul(x, x, transpose_b=True)))
    check_default(te.create_prim_func([x, y], name="gram"), {"n": 5})


@pytest.mark.parametrize("source, goal", [("float16", "bfloat16"), ("bfloat16", "float16")])
@pytest.mark.parametrize("extent", [1, 3, 40])
def test_casts_between_storage_types(source, goal, extent):
    """One by one, their bits were taken for a number."""
    x = te.placeholder((extent,), source, name="x")
    check_default(te.create_prim_func([x, ops.cast(x, goal)], name="cast"))


def test_panels_of_a_vector():
    """The copy of a vector has one loop, or none."""
    x = te.placeholder((12, 16), name="x")
    func = te.create_prim_func([x, ops.var(x, axis=0)], name="var")
    space = make_space(func, SMALL)
    rng = random.Random(0)
    packed = 0
    for _ in range(40):
        candidate = space.sample(rng)
        packed += "root" in candidate.values
        space.build(candidate)
    assert packed


def test_a_bent_vector_of_one_dimension():
    """All of its loops are written out, and none was left for the threads."""
    x = te.placeholder((100, 8), name="x")
    func = te.create_prim_func([x, ops.reshape(ops.sin(x), (-1,))], name="flat")
    space = make_space(func, SMALL)
    for seed in range(10):
        space.build(space.sample(random.Random(seed)))


def test_an_exclusive_scan_that_a_product_reads():
    """What reads the states looked like the padding of the product as well."""
    x = te.placeholder((2, 7, 8, 12), name="x")
    w = te.placeholder((1, 7, 12, 9), name="w")
    y = ops.matmul(ops.cumsum(x, axis=1, exclusive=True, reverse=True), w)
    func = te.create_prim_func([x, w, y], name="scanned")
    check_default(func)
    space = make_space(func, SMALL)
    for seed in range(10):
        space.build(space.sample(random.Random(seed)))


def test_a_product_of_one_array_with_itself():
    """Tasks were to pack it, although they read two parts of it."""
    x = te.placeholder((31, 200), name="x")
    square = ops.mish(ops.matmul(x, x, transpose_a=True))
    func = te.create_prim_func([x, ops.matmul(square, square, transpose_a=True)], name="gram")
    check_default(func)
    for target in ("c -march=x86-64", "c -march=haswell"):
        default_schedule(func, target)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("target", ["c", "c -march=x86-64", "cuda-emulator"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_a_product_of_one_padded_array_with_itself(kind, turned, target):
    """What was read in another place was to be copied without what keeps it in range."""
    x, k = te.placeholder((17, 40), kind, name="x"), te.reduce_axis(40, name="k")

    def padded(i, k):
        inside, value = (k < 17, x[k, i]) if turned else (i < 17, x[i, k])
        return te.if_then_else(inside, value, te.const(1, kind))

    gram = te.compute((40, 40), lambda i, j: te.sum(padded(i, k) * padded(j, k), axis=k), name="g")
    check_default(te.create_prim_func([x, gram]), target=target)


def test_shuffles_ahead_of_the_call_and_in_it():
    """Two functions of one text gave one name to different shuffles."""
    x = te.placeholder((7, 4, 8, 4), name="x")
    w = te.placeholder((1, 1, 8, 8), name="w")
    y = ops.matmul(ops.transpose(x, (0, 3, 1, 2)), w, transpose_b=True)
    func = te.create_prim_func([x, w, y], name="turned")
    truth = make_oracle(func, 0)
    space = make_space(func, SMALL)
    rng, turned = random.Random(1), 0
    for _ in range(12):
        sch = space.build(space.sample(rng))
        kernel = build(sch, "c -march=haswell", constants={"w": truth.inputs["w"]})
        turned += kernel.source.count("__builtin_shufflevector") > 1
        expected = truth.expected[func.outputs[0].name]
        np.testing.assert_allclose(kernel(truth.inputs["x"]), expected, atol=1e-5)
    assert turned


def test_a_candidate_of_many_stages():
    """With all choices drawn at once, hardly any draw was feasible for all stages."""
    x = te.placeholder((4, 8, 16, 16), name="x")
    y = x
    for _ in range(4):
        y = ops.attention(ops.matmul(y, x), y, y)
    space = make_space(te.create_prim_func([x, y], name="deep"), SMALL, "bitwise")
    for seed in range(5):
        assert space.contains(space.sample(random.Random(seed)))
    assert space.contains(default_candidate(space))


FEW = {
    "a number and a column": ((), (15, 2), lambda a, b, k, i: a[()] * b[i, k]),
    "an element and a column": ((4,), (15, 2), lambda a, b, k, i: a[3] * b[i, k]),
    "two rows": ((40,), (40,), lambda a, b, k: a[k] * b[k]),
    "a row and a number": ((40,), (), lambda a, b, k: a[k] * b[()]),
    "two numbers": ((), (), lambda a, b, k: a[()] * b[()]),
    "rows": ((40,), (30, 40), lambda a, b, k, i: a[k] * b[i, k]),
}
"""Products of operands with few dimensions, or none: the shapes, and a term of an element."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("terms", [1, 2])
def test_products_of_few_dimensions(name, kind, terms):
    left, right, term = FEW[name]
    a, b = te.placeholder(left, kind, name="a"), te.placeholder(right, kind, name="b")
    wide = "float32" if "float" in kind else "int32"
    k = te.reduce_axis(terms, name="k")

    def element(*at):
        return te.sum(term(Wide(a, wide), Wide(b, wide), k, *at), axis=k)

    out = te.compute((15,) if term.__code__.co_argcount == 4 else (), element, name="out")
    check_default(te.create_prim_func([a, b, out], name="few"))


class Wide:
    """A tensor whose elements are read as another type."""

    def __init__(self, tensor, kind):
        self.tensor, self.kind = tensor, kind

    def __getitem__(self, at):
        return self.tensor[at].astype(self.kind)
