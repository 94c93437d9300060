"""Partial sums by default: found whatever way the sum is written, and right."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.partials import partial_plans
from autotune.rules import default_candidate, make_space
from autotune.rules.group import find_groups
from autotune.rules.inlined import inline_stages
from backends import ObjectCache, build
from schedule import Schedule
from schedule.library import Contraction, find_contraction
from tensorir import Cpu, For, ForKind, PrimFunc, Target, dtype, ops, reference, te, walk
from tensorir.te import Tensor

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)
LATE = replace(CPU, costs=replace(CPU.costs, late=0.5))
"""Its own requests for memory come late."""


def default(func: PrimFunc, numerics: str = "mixed", cpu: Cpu = CPU) -> tuple[str, Schedule]:
    space = make_space(func, cpu, numerics)
    candidate = default_candidate(space)
    return candidate.sketch, space.build(candidate)


def contraction(func: PrimFunc) -> Contraction:
    """That of the longest sum."""
    sch = Schedule(func)
    inline_stages(sch)
    groups = [g for g in find_groups(sch) if sch.state.block(g.block).is_reduction]
    found = [find_contraction(sch, g.block, g.epilogue, g.padding) for g in groups]
    return max(found, key=lambda c: max(c.axes[n].extent or 0 for n in c.reduced))


def check(func: PrimFunc, schedule: Schedule, cache: ObjectCache) -> None:
    """Small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    sizes = {var: 37 for var in func.size_vars}
    shapes = [[sizes.get(n) or int(str(n)) for n in p.shape] for p in func.inputs]
    args = [rng.integers(-2, 3, s).astype(p.dtype) for s, p in zip(shapes, func.inputs)]
    (want,) = reference(func, *args)
    got = build(schedule, cache=cache)(*args)
    np.testing.assert_array_equal(got, want)


def made(*shapes: tuple[Any, ...], dtype: str = "float32") -> Callable[..., PrimFunc]:
    """A program of one stage of inputs of these shapes."""

    def of(f: Callable[..., Tensor]) -> PrimFunc:
        inputs = [te.placeholder(s, dtype, name=f"x{n}") for n, s in enumerate(shapes)]
        return te.create_prim_func([*inputs, f(*inputs)])

    return of


def summed(
    shape: tuple[Any, ...], terms: tuple[int, ...], f: Callable[..., Any]
) -> Callable[..., Tensor]:
    """A stage that sums up f(indices, axes, inputs) over axes of so many terms."""

    def stage(*inputs: Tensor) -> Tensor:
        axes = [te.reduce_axis(size, f"k{n}") for n, size in enumerate(terms)]
        return te.compute(shape, lambda *i: te.sum(f(i, axes, inputs), axis=axes))

    return stage


Form = Callable[[], PrimFunc]
FORMS: dict[str, tuple[Form, ...]] = {
    "rows": (
        lambda: made((64, 640))(summed((64,), (640,), lambda i, k, x: x[0][i[0], k[0]])),
        lambda: made((64, 1, 640))(
            summed((64, 1), (1, 640), lambda i, k, x: x[0][i[0], k[0], k[1]])
        ),
        lambda: made((64, 20, 32))(
            summed((64,), (20, 32), lambda i, k, x: x[0][i[0], k[0], k[1]])
        ),
        lambda: made((8, 8, 640))(
            summed((8, 8), (640,), lambda i, k, x: x[0][i[0], i[1], k[0]])
        ),
        lambda: made((64, 640))(
            summed((64,), (20, 32), lambda i, k, x: x[0][i[0], k[0] * 32 + k[1]])
        ),
    ),
    "columns": (
        lambda: made((640, 320))(summed((320,), (640,), lambda i, k, x: x[0][k[0], i[0]])),
        lambda: made((640, 1, 320))(
            summed((1, 320, 1), (640,), lambda i, k, x: x[0][k[0], 0, i[1]])
        ),
        lambda: made((20, 32, 320))(
            summed((320,), (20, 32), lambda i, k, x: x[0][k[0], k[1], i[0]])
        ),
        lambda: made((640, 10, 32))(
            summed((10, 32), (640,), lambda i, k, x: x[0][k[0], i[0], i[1]])
        ),
    ),
    "dots": (
        lambda: made((8, 512), (300, 512))(
            summed((8, 300), (512,), lambda i, k, x: x[0][i[0], k[0]] * x[1][i[1], k[0]])
        ),
        lambda: made((8, 16, 32), (300, 16, 32))(
            summed(
                (8, 300), (16, 32),
                lambda i, k, x: x[0][i[0], k[0], k[1]] * x[1][i[1], k[0], k[1]],
            )
        ),
        lambda: made((8, 512, 1), (1, 300, 512))(
            summed(
                (8, 1, 300), (1, 512),
                lambda i, k, x: x[0][i[0], k[1], k[0]] * x[1][0, i[2], k[1]],
            )
        ),
    ),
    "few results": (
        lambda: made((3, 32768), (32768, 16))(
            summed((3, 16), (32768,), lambda i, k, x: x[0][i[0], k[0]] * x[1][k[0], i[1]])
        ),
        lambda: made((3, 64, 512), (64, 512, 16))(
            summed(
                (3, 16), (64, 512),
                lambda i, k, x: x[0][i[0], k[0], k[1]] * x[1][k[0], k[1], i[1]],
            )
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_way_of_writing_a_sum_has_the_same_plan(name: str, cache: ObjectCache) -> None:
    first, *others = (make() for make in FORMS[name])
    (cycles, plan), *_ = partial_plans(contraction(first), CPU)
    sketch, schedule = default(first)
    assert sketch.split(":")[1] == "_".join(move.name for move, _ in plan.moves)
    check(first, schedule, cache)
    for other in others:
        assert partial_plans(contraction(other), CPU)[0] == (cycles, plan)
        found, schedule = default(other)
        assert found.split(":")[1] == sketch.split(":")[1]
        check(other, schedule, cache)


SCALED: dict[str, tuple[str, Form]] = {
    "a factor for each term": ("lanes", lambda: made((8, 512), (300, 512), (512,))(
        summed(
            (8, 300), (512,),
            lambda i, k, x: x[0][i[0], k[0]] * x[1][i[1], k[0]] * x[2][k[0]],
        )
    )),
    "a factor for each row": ("lanes", lambda: made((64, 640), (64,))(
        summed((64,), (640,), lambda i, k, x: x[0][i[0], k[0]] * x[1][i[0]])
    )),
    "a factor for some terms": ("lanes", lambda: made((64, 5, 640), (5,))(
        summed((64,), (5, 640), lambda i, k, x: x[0][i[0], k[0], k[1]] * x[1][k[0]])
    )),
    "results in another order": ("lanes", lambda: made((12, 20, 640))(
        summed((20, 12), (640,), lambda i, k, x: x[0][i[1], i[0], k[0]])
    )),
    "products of two columns": ("parts", lambda: made((640, 320), (640, 320))(
        summed((320,), (640,), lambda i, k, x: x[0][k[0], i[0]] * x[1][k[0], i[0]])
    )),
    "near columns": ("panel_lanes", lambda: made((300, 1024), (1024, 3))(
        summed((300, 3), (1024,), lambda i, k, x: x[0][i[0], k[0]] * x[1][k[0], i[1]])
    )),
    "every other column": ("lanes", lambda: made((300, 1024), (1024,))(
        summed((300,), (512,), lambda i, k, x: x[0][i[0], 2 * k[0]] * x[1][2 * k[0] + 1])
    )),
    "halves of bytes": ("lanes", lambda: made((300, 512), (1024,))(
        summed((300,), (1024,), lambda i, k, x: x[0][i[0], k[0] // 2] * x[1][k[0]])
    )),
    "groups as long as vectors": ("lanes", lambda: made((300, 1024), (300, 64), (1024,))(
        summed((300,), (64, 16), lambda i, k, x: x[0][i[0], k[0] * 16 + k[1]] * x[1][i[0], k[0]]
               * x[2][k[0] * 16 + k[1]])
    )),
    "columns turned ahead": ("panel_lanes", lambda: made((300, 1024), (1024, 5))(
        summed((300, 5), (1024,), lambda i, k, x: x[0][i[0], k[0]] * x[1][k[0], i[1]])
    )),
    "any number of rows": ("lanes", lambda: made((te.size_var("m"), 640))(
        lambda x: ops.sum(x, 1)
    )),
    "rows of any length": ("lanes", lambda: made((64, te.size_var("n")))(lambda x: ops.sum(x, 1))),
    "between two stages": ("lanes", lambda: made((64, 640))(
        lambda x: ops.relu(ops.sum(ops.relu(x), 1))
    )),
    "float64": ("lanes", lambda: made((64, 640), dtype="float64")(lambda x: ops.sum(x, 1))),
    "float16": ("lanes", lambda: made((64, 640), dtype="float16")(lambda x: ops.sum(x, 1))),
    "int8": ("lanes", lambda: made((64, 640), dtype="int8")(
        lambda x: ops.sum(x, 1, dtype="int32")
    )),
    "largest of bytes": ("lanes", lambda: made((64, 640), dtype="uint8")(lambda x: ops.max(x, 1))),
    "a prime number of terms": ("parts_lanes", lambda: made((1, 300007))(lambda x: ops.sum(x, 1))),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCALED)
def test_other_sums_have_partial_sums_too(name: str, cache: ObjectCache) -> None:
    kind, make = SCALED[name]
    func = make()
    sketch, schedule = default(func)
    assert kind in [part.split(":")[-1] for part in sketch.split("+")]
    check(func, schedule, cache)


def strided(step: int, terms: int, kind: str = "float32", signals: int = 0) -> PrimFunc:
    """Windows of one signal or several, that begin `step` elements apart."""
    x = te.placeholder((*[signals] * (signals > 0), 300 * step + terms), kind)
    w, k = te.placeholder((terms,), kind), te.reduce_axis(terms)
    if not signals:
        return te.create_prim_func(
            [x, w, te.compute((300,), lambda i: te.sum(x[step * i + k] * w[k], axis=k))]
        )
    made = te.compute((signals, 300), lambda c, i: te.sum(x[c, step * i + k] * w[k], axis=k))
    return te.create_prim_func([x, w, made])


@pytest.mark.parametrize("signals", [0, 3])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    ("step", "terms", "along"),
    [(1, 64, False), (2, 32, False), (4, 128, True), (5, 75, True), (160, 400, True)],
)
def test_windows_far_apart_have_lanes_along_their_terms(
    step: int, terms: int, kind: str, signals: int, along: bool, cache: ObjectCache
) -> None:
    """Neighbouring results would be gathered; near ones share what they read."""
    func = strided(step, terms, kind, signals)
    _, schedule = default(func)
    assert any(i.name == "rfactor" for i in schedule.trace.instructions) == along
    check(func, schedule, cache)
    _, kept = default(func, "bitwise")
    assert kept.numerics == "bitwise"


def test_samples_of_a_search_compute_the_sum(cache: ObjectCache) -> None:
    rng = random.Random(0)
    for name in ("rows", "few results"):
        func = FORMS[name][0]()
        space = make_space(func, CPU)
        for sketch in [s for s in space.sketches if "lanes" in s or "parts" in s]:
            check(func, space.build(space.sample(rng, sketch)), cache)


def test_bitwise_spaces_have_no_partial_sums() -> None:
    for forms in FORMS.values():
        sketches = make_space(forms[0](), CPU, "bitwise").sketches
        assert not any("lanes" in name or "parts" in name for name in sketches)


def product(m: int, n: int, k: int) -> PrimFunc:
    return made((m, k), (k, n))(
        summed((m, n), (k,), lambda i, k, x: x[0][i[0], k[0]] * x[1][k[0], i[1]])
    )


@pytest.mark.parametrize(
    ("m", "n", "k"), [(16, 16, 1024), (512, 512, 512), (16, 16, 0), (0, 16, 4096), (512, 512, 4096)]
)
def test_other_products_stay_whole(m: int, n: int, k: int) -> None:
    sketch, _ = default(product(m, n, k))
    assert "lanes" not in sketch and "parts" not in sketch


def test_threads_get_work_that_the_results_alone_do_not_give() -> None:
    _, schedule = default(product(1, 10, 65536))
    loops = [s for s in walk(schedule.func.body) if isinstance(s, For)]
    assert max(s.const_extent or 0 for s in loops if s.kind is ForKind.PARALLEL) > 1


def test_a_constant_is_turned_ahead_of_all_calls() -> None:
    func = made((40, 512), (300, 512))(
        summed((40, 300), (512,), lambda i, k, x: x[0][i[0], k[0]] * x[1][i[1], k[0]])
    )
    first = default_schedule(func, "c -vector_bits=512 -threads=2", constants=["x1"])
    assert not any("_rf" in str(name) for name in first.get_blocks())


@pytest.mark.parametrize("places", [1, 2, 5])
def test_memory_is_asked_for_once_wherever_a_term_reads_it(places: int) -> None:
    def near(i, k, x):
        return sum((x[0][i[0], k[0] + n] for n in range(1, places)), x[0][i[0], k[0]])

    func = made((4096, 2048))(summed((4096,), (2000,), near))
    asking = default(func, cpu=LATE)[1]
    texts = [str(s.annotations) for s in walk(asking.func.body) if isinstance(s, For)]
    assert sum(text.count("'x0'") for text in texts if "prefetch" in text) == 1


@pytest.mark.parametrize(("kind", "times"), [("float32", 4), ("float64", 4), ("int32", 4),
                         ("float16", 1), ("bfloat16", 1), ("int16", 1), ("int8", 1)])  # fmt: skip
def test_memory_is_asked_for_where_the_second_cache_does_not_keep_it(kind, times) -> None:
    """And not where the processor does it in time; bytes decide, and whether they are converted."""

    def asks(caches: float) -> bool:
        rows = int(caches * CPU.l2_bytes) // (4096 * dtype.itemsize(kind))
        sums = "int32" if kind.startswith("int") else kind
        func = made((rows, 4096), dtype=kind)(lambda x: ops.sum(ops.cast(x, sums), 1))
        loops = (s for s in walk(default(func, cpu=LATE)[1].func.body) if isinstance(s, For))
        return any("prefetch" in str(loop.annotations) for loop in loops)

    assert asks(1.3 * times) and not asks(0.8 * times)


@pytest.mark.parametrize("shape", [(96, 112, 112), (5, 7, 56, 64), (3, 1, 112, 48)])
def test_tiles_of_rows_of_several_axes_stay_within_the_last(shape):
    """Across its end, stages with a loop for each axis would compute all rows of both ends."""
    x, k = te.placeholder(shape, name="x"), te.reduce_axis(shape[-1], name="k")
    out = te.compute(shape[:-1], lambda *i: te.max(x[(*i, k)], axis=k), name="out")
    sch = default_schedule(te.create_prim_func([x, out]), "c -threads=2 -vector_bits=512")
    written = [int(n) for n in re.findall(r"in unrolled\((\d+)\)", str(sch.func))]
    assert written and max(written) <= 16


@pytest.mark.parametrize(
    "shapes, result, sum_, outer",
    [
        (("bik", "bjk"), "bij", {"b": 16, "i": 64, "j": 64, "k": 3136}, "b"),
        (("ibk", "bjk"), "ibj", {"b": 16, "i": 64, "j": 64, "k": 3136}, "b"),
        (("igk", "gk"), "ig", {"i": 4096, "g": 128, "k": 32}, "i"),
    ],
    ids=["batches", "batches in the middle", "groups of a vector"],
)
def test_outermost_is_what_shares_nothing_or_the_largest_in_order(shapes, result, sum_, outer):
    """Products of batches that came one after the other for each tile read all of them each time,
    and took 2 to 3 times as long."""
    k = te.reduce_axis(sum_["k"], name="k")
    inputs = [te.placeholder([sum_[n] for n in shape], name=f"x{m}")
              for m, shape in enumerate(shapes)]  # fmt: skip

    def value(*own: te.Var) -> Any:
        at = dict(zip(result, own)) | {"k": k}
        x, y = (t[tuple(at[n] for n in shape)] for t, shape in zip(inputs, shapes))
        return te.sum(x * y, axis=k)

    names = ", ".join(result)
    out = te.compute(
        [sum_[n] for n in result], eval(f"lambda {names}: value({names})", {"value": value}), "out"
    )
    c = contraction(te.create_prim_func([*inputs, out]))
    (_, plan), *_ = partial_plans(c, CPU)
    assert c.axes[plan.nest.order[0]].extent == sum_[outer]


def test_parts_of_columns_are_tiles_where_the_first_cache_is_shorter_than_their_rows() -> None:
    """Tasks had no columns there, and estimates were no numbers."""
    x = te.placeholder((63, 127), "float16", name="x")
    func = te.create_prim_func([x, ops.softmax(x, axis=0)])
    small = replace(CPU, target=replace(CPU.target, threads=3, l1d=256, l2=256, l3=256))
    sums = [b for b in (Schedule(func).get_blocks()) if Schedule(func).state.block(b).is_reduction]
    found = [find_contraction(Schedule(func), name) for name in sums]
    plans = [plan for c in found for plan in partial_plans(c, small)]
    assert plans and all(np.isfinite(cycles) and 0 not in p.nest.task for cycles, p in plans)
