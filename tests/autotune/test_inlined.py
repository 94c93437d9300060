"""Which stages are computed where they are read; what is asked for that is as much a layer."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import followers
from autotune.rules.inlined import inline_stages
from autotune.rules.stencil import copies
from backends import build
from schedule import Schedule
from tensorir import Cpu, PrimFunc, Target, interpret, ops, reference, te

CPU = Cpu(Target(vector_bits=256, threads=1, features=("fma",), l1d=32 << 10, l2=1 << 20))
C, H, W = 8, 6, 10

APART = {
    "channels last": ((1, H, W, C), lambda x: lambda n, c, h, w: x[n, h, w, c]),
    "rows turned": ((1, C, W, H), lambda x: lambda n, c, h, w: x[n, c, w, h]),
    "parts of channels": ((1, C * H * W // 4, 4), lambda x: lambda n, c, h, w: (
        x[n, (c // 4 * H + h) * W + w, c % 4])),
    "shuffled": ((1, 4 * C, H // 2, W // 2), lambda x: lambda n, c, h, w: (
        x[n, 4 * c + 2 * (h % 2) + w % 2, h // 2, w // 2])),
}  # fmt: skip
NEAR = {
    "in order": ((1, C, H, W), lambda x: lambda n, c, h, w: x[n, c, h, w] * 2.0),
    "every other": ((1, C, H, 2 * W), lambda x: lambda n, c, h, w: x[n, c, h, 2 * w]),
    "one value": ((1, C), lambda x: lambda n, c, h, w: x[n, c]),
}
PADDED = {
    "pad": lambda t: ops.pad(t, ((0, 0), (0, 0), (1, 2), (2, 1))),
    "max pool": lambda t: ops.max_pool2d(t, 3, 1, 1),
    "depthwise": lambda t: ops.depthwise_conv2d(t, _weights(C, 1, 3, 3), padding=1),
    "convolution": lambda t: ops.conv2d(t, _weights(5, C, 3, 3), padding=1, stride=2),
}


def _weights(*shape: int) -> te.Tensor:
    return te.compute(shape, lambda *i: (i[0] + i[-1]).astype("float32") * 0.25, name="weights")


def read(shape, place, reader) -> PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, reader(te.compute((1, C, H, W), place(x), name="t"))])


def left(func: PrimFunc, gpu: bool = False) -> list[str]:
    sch = Schedule(func)
    inline_stages(sch, (), None if gpu else partial(copies, CPU))
    return list(map(str, sch.get_blocks()))


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("order", [(0, 3, 2, 1), (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("reader", [*PADDED, "product"])
def test_what_is_turned_twice_is_not_turned(reader, order, gpu):
    """However often its elements are used: what reads it puts them where they came from."""
    x = te.placeholder((1, C, H, W), name="x")
    t = te.compute(
        tuple(x.shape[d] for d in order), lambda *i: x[tuple(i[order.index(d)] for d in range(4))],
        name="t",
    )  # fmt: skip
    made = te.compute(
        (1, C, H, W), lambda *i: t[tuple(i[d] for d in order)], name="again"
    )  # fmt: skip
    r, w = te.reduce_axis(W, "r"), _weights(W, 7)
    out = PADDED[reader](made) if reader in PADDED else te.compute(
        (C, H, 7), lambda c, h, j: te.sum(made[0, c, h, r] * w[r, j], axis=r), name="product"
    )  # fmt: skip
    blocks = left(te.create_prim_func([x, out]), gpu)
    assert not {"t", "again"} & set(blocks), blocks


@pytest.mark.parametrize("reader", PADDED)
@pytest.mark.parametrize("name", [*APART, *NEAR])
def test_padding_reads_what_lies_side_by_side(name, reader):
    """Each of its elements is copied by itself else, as often as tasks have rows in common."""
    func = read(*(APART | NEAR)[name], PADDED[reader])
    assert ("t" in left(func)) == (name in APART)
    assert "t" not in left(func, gpu=True)  # where threads turn it on its way in


@pytest.mark.parametrize("name", APART)
def test_results_are_the_same(name, cache):
    func = read(*APART[name], PADDED["depthwise"])
    x = np.random.default_rng(0).standard_normal(APART[name][0]).astype("float32")
    (want,) = reference(func, x)
    sch = default_schedule(func, "c -threads=1")
    np.testing.assert_allclose(interpret(sch.func, x)[0], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(build(sch, "c -threads=1")(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("of", [te.exp, te.tanh, lambda e: te.exp(e) * 2.0 + te.sqrt(e)])
@pytest.mark.parametrize("places", [[(0, 0), (0, 1), (0, 2)], [(0, 0), (1, 0), (2, 0), (3, 0)]])
def test_calls_are_made_once_for_all_places(of, places):
    """A call takes as long as what is read and written in its place, on processors."""

    def made(value) -> PrimFunc:
        x = te.placeholder((36, 40), name="x")
        t = te.compute((36, 40), lambda i, j: value(x[i, j]), name="t")
        at = lambda i, j: sum((t[i + a, j + b] for a, b in places), te.const(0.0, "float32"))  # noqa: E731
        return te.create_prim_func([x, te.compute((32, 36), at, name="out")])

    assert "t" in left(made(of)) and "t" not in left(made(of), gpu=True)
    assert "t" not in left(made(lambda e: e * 2.0))


def layers(count: int) -> PrimFunc:
    x = te.placeholder((2, 4, 6, 6), name="x")
    given, h = [x], x
    for n in range(count):
        w = te.placeholder((4, 4, 3, 3), name=f"w{n}")
        given, h = [*given, w], ops.relu(ops.conv2d(h, w, padding=1))
    return te.create_prim_func([*given, h])


def test_rows_are_not_looked_for_beyond_sums_that_no_rows_go_through(monkeypatch):
    """Of batches of images each stage goes along with the first axis: all layers before."""
    counted = []
    plain = followers._Search.follower
    monkeypatch.setattr(
        followers._Search, "follower", lambda *given: counted.append(given[1]) or plain(*given)
    )

    def calls(count: int) -> int:
        counted.clear()
        default_schedule(layers(count), "c -threads=1")
        return len(counted)

    few, more, most = map(calls, (2, 4, 6))
    assert 0 < most - more <= more - few


def test_blocks_are_found_after_steps_that_move_them():
    sch = Schedule(layers(5))
    for name in list(map(str, sch.get_blocks()))[::-1]:
        if "pad" in name:
            sch.compute_inline(name)
            names = [str(block) for block in sch.get_blocks()]
            assert sorted(names[::-1], key=sch.state.place) == names
            assert [sch.state.block(each).name for each in names] == names


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_several_quotients_are_not_computed_again(rows):
    """Each norm of rows and columns divides what the one before it did: of two quotients what has
    two readers is stored on processors, where GPUs compute it again."""
    x = made = te.placeholder((8, 8), name="x")
    for axis in (0, 1, 0)[:rows]:
        made = ops.divide(made, ops.sum(made, axis, keepdims=True))
    func = te.create_prim_func([x, made])
    left = {}
    for kind, of in (("processors", copies), ("GPUs", None)):
        sch = Schedule(func)
        inline_stages(sch, copies=of)
        stages = [sch.state.block(block) for block in sch.get_blocks()]
        left[kind] = sum(not stage.is_reduction for stage in stages)
        values = np.random.default_rng(0).random((8, 8), dtype=np.float32) + 0.5
        (wanted,) = interpret(func, values)
        np.testing.assert_allclose(interpret(sch.func, values)[0], wanted, rtol=1e-6)
    assert left == {"processors": 1 + (rows == 3), "GPUs": 1}
