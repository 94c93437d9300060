"""What later iterations of a loop read of an earlier one stays in registers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import Alloc, PrimFunc, interpret, parse, te, walk
from tensorir.passes.simplify import simplify
from tensorir.passes.vectors.carry_elements import carry_elements

LOOP = """
@prim_func
def f(X: f32[64], Y: f32[200]):
    for i in range(200):
        Y[i] = 1.0
    for t in range({extent}):
        {body}
"""


def loop(*body: str, extent: str = "9") -> PrimFunc:
    return parse(LOOP.format(extent=extent, body="\n        ".join(body)).strip())


def carried(func: PrimFunc) -> PrimFunc:
    """The function after the pass, which computes the same."""
    func = simplify(func)
    made = carry_elements(func)
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    np.testing.assert_array_equal(interpret(made, x), interpret(func, x))
    assert str(parse(str(made))) == str(made)
    return made


def test_rewrites_a_recurrence_as_its_docstring_says():
    made = str(carried(loop("Y[t + 1] = Y[t] * 0.5 + X[t]")))
    lines = [line.strip() for line in made.splitlines()]
    at = lines.index("Y_carried[1] = Y[0]")
    assert lines[at:] == [
        "Y_carried[1] = Y[0]",
        "for t in range(9):",
        "Y_carried[0] = Y_carried[1] * 0.5 + X[t]",
        "Y[t + 1] = Y_carried[0]",
        "Y_carried[1] = Y_carried[0]",
    ]


@pytest.mark.parametrize(
    "body, registers",
    [
        (["Y[t + 2] = Y[t + 1] + Y[t]"], 3),  # two iterations back
        (["Y[t * 3 + 3] = Y[t * 3] + X[t]", "Y[t * 3 + 4] = Y[t * 3 + 1] + X[t]"], 4),
        (["Y[40 - t] = Y[41 - t] + X[t]"], 2),  # backwards
        (["Y[t + 1] = Y[t] + select(t < 3, Y[t], X[t])"], 2),  # one of the loads is certain
        (["Y[t + 1] = Y[t] + X[t]", "Y[t + 2] = X[t]"], 2),  # of the first one, which is later
        (["Y[t + 1] = Y[t] + Y[t + 100]"], 2),  # what nobody writes is read besides
    ],
)
def test_carries(body: list[str], registers: int):
    made = carried(loop(*body))
    allocated = [s.buffer for s in walk(made.body) if isinstance(s, Alloc)]
    assert sum(int(buffer.shape[0]) for buffer in allocated) == registers


@pytest.mark.parametrize(
    "body",
    [
        ["Y[t + 2] = Y[t] + X[t]"],  # nobody reads the element between
        ["Y[t + 1] = select(0 < t, Y[t], X[t])"],  # the first iteration does not read it
        ["Y[t + 1] = Y[t] + X[t]", "Y[t + 1] = Y[t + 100]"],  # written again
        ["Y[t] = X[t]", "Y[t + 1] = Y[t] + X[t]"],  # the next iteration writes it before
        ["Y[t + 1] = Y[t] + X[t]", "Y[i64(X[t] * X[t])] = 2.0"],  # somewhere
        ["Y[t + 1] = X[t]", "Y[t + 60] = Y[t]"],  # read after the next one is written
        ["Y[t + 1] = Y[0] + X[t]"],
        ["Y[t // 2 + 1] = Y[t // 2] + X[t]"],
        ["Y[0] = Y[0] + X[t]"],
    ],
)
def test_leaves_what_may_have_changed(body: list[str]):
    func = loop(*body)
    assert carried(func) is simplify(func) or str(carried(func)) == str(simplify(func))


def test_random_loops_compute_the_same():
    """Two statements whose elements lie at all distances that are looked at, in both orders."""
    many = 0
    for a, b, c, d, step in itertools.product((0, 1, 2), (3, 4), (0, 1, 3), (1, 2), (1, -2)):
        at = "t" if step == 1 else "60 - t * 2"
        body = [f"Y[{at} + {b}] = Y[{at} + {a}] + X[t]", f"Y[{at} + {d}] = Y[{at} + {c}] + Y[{at}]"]
        for order in (body, body[::-1]):
            func = simplify(loop(*order))
            many += carried(func) is not func
    assert many > 20


@pytest.mark.parametrize("m", [0, 1, 2, 3, 9])
def test_no_iteration_reads_nothing(m: int):
    """Where there is no iteration, there need not be what the first one reads."""
    rows = te.var("m")
    x = te.placeholder((rows,), name="x")
    s = te.state((rows,), "float32", name="s")
    first = te.compute((2,), lambda t: te.const(1, "float32"))
    step = te.compute((rows,), lambda t: s[t - 1] * 0.5 + s[t - 2] + x[t])
    func = te.create_prim_func([x, te.scan(first, step, s, name="y")])
    given = np.arange(m, dtype=np.float32)
    for sch in (Schedule(func), default_schedule(func)):
        np.testing.assert_array_equal(build(sch)(given), interpret(func, given)[0])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint32", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_types_round_as_in_memory(dtype: str, axis: int):
    """A register has the type of the elements: what is carried was rounded to it."""
    t, n = 21, 37
    shape = (t, n) if axis == 0 else (n, t)

    def at(a: object, b: object) -> tuple[object, object]:
        return (a, b) if axis == 0 else (b, a)

    x = te.placeholder(shape, dtype, name="x")
    s = te.state((t, n), dtype, name="s")
    first = te.compute((1, n), lambda _, i: x[at(0, i)])
    step = te.compute((t, n), lambda k, i: s[k - 1, i] + x[at(k, i)])
    func = te.create_prim_func([x, te.scan(first, step, s, name="y")])
    data = np.random.default_rng(0).integers(-50, 50, shape)
    given = data.astype("float32") / 3 if "float" in dtype else data.astype(dtype)
    if dtype == "bfloat16":
        given = (given.view(np.uint32) >> 16).astype(np.uint16)
    elif "float" in dtype:
        given = given.astype(dtype)
    sch = default_schedule(func, numerics="bitwise")
    np.testing.assert_array_equal(build(sch)(given), interpret(func, given)[0])
