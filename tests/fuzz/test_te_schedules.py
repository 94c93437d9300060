"""Random requests to te.create_schedule: none that is met changes the meaning, none that is refused
the schedule, and what cannot be met can be taken back."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schedule import Schedule
from schedule.te.errors import RequestError
from tensorir import TensorIRError, interpret, reference, te, verify

REQUESTS = [
    "split", "split", "tile", "fuse", "reorder", "vectorize", "parallel", "unroll", "compute_at",
    "compute_at", "compute_inline", "compute_root", "set_scope", "cache_read", "cache_write",
    "rfactor",
]  # fmt: skip


class TERandom:
    """A chain around a matrix product, and requests to its stages."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        n, m, r = (self.rng.choice([1, 2, 3, 5, 8]) for _ in range(3))
        a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
        k = te.reduce_axis(r, name="k")
        p = te.compute((n, r), lambda i, j: a[i, j] * 2.0, name="P")
        c = te.compute((n, m), lambda i, j: te.sum(p[i, k] * b[k, j], axis=k), name="C")
        d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0) + c[i, j], name="D")
        e = te.compute((n, m), lambda i, j: d[n - 1 - i, j] + d[i, j], name="E")
        self.s = te.create_schedule(e.op)
        self.inputs, self.tensors = [a, b], [p, c, d, e]

    def request(self, name: str) -> None:
        rng, tensor = self.rng, self.rng.choice(self.tensors)
        stage = self.s[tensor]
        leaves = stage.leaves
        if name == "split":
            stage.split(rng.choice(leaves), **rng.choice([{"factor": 2}, {"nparts": 3}]))
        elif name == "tile":
            stage.tile(leaves[0], leaves[-1], 2, 3)
        elif name == "fuse":
            at = rng.randrange(len(leaves))
            stage.fuse(*leaves[at : at + 2])
        elif name == "reorder":
            stage.reorder(*rng.sample(leaves, rng.randint(1, len(leaves))))
        elif name in ("vectorize", "parallel", "unroll"):
            getattr(stage, name)(rng.choice(leaves))
        elif name == "compute_at":
            parent = self.s[rng.choice(self.tensors)]
            stage.compute_at(parent, rng.choice(parent.leaves))
        elif name == "set_scope":
            stage.set_scope("local")
        elif name == "cache_read":
            source = rng.choice([*self.inputs, *self.tensors])
            self.tensors.append(self.s.cache_read(source, "local", [tensor]))
        elif name == "cache_write":
            self.tensors.append(self.s.cache_write(tensor, rng.choice(["local", "global"])))
        elif name == "rfactor":
            self.tensors.append(self.s.rfactor(tensor, rng.choice(leaves)))
        else:
            getattr(stage, name)()


@pytest.mark.parametrize("seed", range(25))
def test_requests_keep_the_meaning(seed):
    stress = TERandom(seed)
    s = stress.s
    for _ in range(12):
        before = str(s), len(s.requests)
        try:
            stress.request(stress.rng.choice(REQUESTS))
        except TensorIRError:
            assert before == (str(s), len(s.requests))
        try:
            s.normalize()
        except RequestError as error:
            if error.request.stands_alone:
                s.withdraw(error.request)
            else:
                s.undo(len(s.requests) - s.requests.index(error.request))
    verify(s.func)
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in s.prim_func.inputs]
    (found,), (expected,) = interpret(s.func, *inputs), reference(s.prim_func, *inputs)
    np.testing.assert_allclose(found, expected)
