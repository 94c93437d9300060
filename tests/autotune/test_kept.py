"""Operands that memory gives once are read from the first element to the last."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.kept import kept_nests
from autotune.plans import plans
from autotune.rules import make_space
from autotune.rules.group import find_groups
from autotune.rules.inlined import inline_stages
from backends import ObjectCache, build, resolve
from schedule import Schedule
from schedule.library import Contraction, find_contraction, make_nest
from tensorir import Cpu, PrimFunc, Store, reference, te

CPUS = tuple(Cpu(resolve(f"c -vector_bits=512 -threads={n}")) for n in (1, 2))
LITTLE = tuple(Cpu(resolve(f"c -vector_bits=512 -l2=40960 -threads={n}")) for n in (1, 2))
"""The second cache has no room for the operands of SHARED, but for their results."""


def made(
    shape: tuple[int, ...], terms: tuple[int, ...], x: tuple[int, ...], w: tuple[int, ...],
    f: Callable[..., Any], scaled: bool = False,
) -> PrimFunc:  # fmt: skip
    """Sums of f(x, w, indices, axes); w is read once."""
    a, b = te.placeholder(x, name="x"), te.placeholder(w, name="w")
    axes = [te.reduce_axis(size, f"k{n}") for n, size in enumerate(terms)]
    out = te.compute(shape, lambda *i: te.sum(f(a, b, i, axes), axis=axes))
    if scaled:
        out = te.compute(shape, lambda *i: out[i] * 2 + a[(0,) * len(x)])
    return te.create_prim_func([a, b, out])


def local(c: int, o: int, n: int, r: int, scaled: bool = False) -> PrimFunc:
    return made(
        (o, n, n), (c, r, r), (c, n + r - 1, n + r - 1), (o, c, r, r, n, n),
        lambda x, w, i, k: x[k[0], i[1] + k[1], i[2] + k[2]] * w[(i[0], *k, i[1], i[2])], scaled,
    )  # fmt: skip


def local_last(c: int, o: int, n: int, r: int) -> PrimFunc:
    """The same with channels last, in images and in filters."""
    return made(
        (n, n, o), (r, r, c), (n + r - 1, n + r - 1, c), (n, n, r, r, c, o),
        lambda x, w, i, k: x[i[0] + k[0], i[1] + k[1], k[2]] * w[(i[0], i[1], *k, i[2])],
    )  # fmt: skip


def vectors(b: int, k: int, m: int) -> PrimFunc:
    return made(
        (b, m), (k,), (b, k), (b, k, m), lambda x, w, i, t: x[i[0], t[0]] * w[i[0], t[0], i[1]]
    )


def rows(m: int, k: int, n: int) -> PrimFunc:
    return made((m, n), (k,), (m, k), (k, n), lambda x, w, i, t: x[i[0], t[0]] * w[t[0], i[1]])


def pairs(i: int, j: int, o: int) -> PrimFunc:
    """A bilinear form of one pair of vectors, in one array."""
    return made(
        (o,), (i, j), (max(i, j),), (i, j, o),
        lambda x, w, n, k: x[k[0]] * w[k[0], k[1], n[0]] * x[k[1]],
    )  # fmt: skip


SMALL = {
    "local": lambda: local(3, 2, 7, 3),
    "local, scaled": lambda: local(2, 3, 17, 2, scaled=True),
    "local, one place": lambda: local(2, 3, 1, 2),
    "local, channels last": lambda: local_last(3, 79, 3, 2),
    "vectors": lambda: vectors(3, 13, 137),
    "one row": lambda: rows(1, 11, 150),
    "three rows": lambda: rows(3, 11, 150),
    "pairs": lambda: pairs(5, 7, 67),
}

NONE = {"local, one place"}

SHARED = {
    "more rows": lambda: rows(7, 64, 150),
    "rows in two axes": lambda: made(
        (2, 3, 150), (64,), (3, 2, 64), (64, 150),
        lambda x, w, i, k: x[i[1], i[0], k[0]] * w[k[0], i[2]],
    ),
    "rows in front of others": lambda: made(
        (3, 7, 70), (2, 24), (7, 2, 24), (2, 24, 3, 70),
        lambda x, w, i, k: x[i[1], k[0], k[1]] * w[k[0], k[1], i[0], i[2]],
    ),
}  # fmt: skip

LARGE = {
    "local": lambda: local(32, 32, 26, 3),
    "local of other sizes": lambda: local(40, 24, 28, 3),
    "local, channels last": lambda: local_last(16, 600, 10, 3),
}


def prepared(func: PrimFunc) -> tuple[Schedule, Contraction]:
    sch = Schedule(func)
    inline_stages(sch)
    (group,) = [g for g in find_groups(sch) if sch.state.block(g.block).is_reduction]
    return sch, find_contraction(sch, group.block, group.epilogue, group.padding)


def firsts(base: Schedule, sch: Schedule, c: Contraction, operand: int) -> list[int]:
    """The places of an operand in the order in which the loops come to them first."""
    node = sch.state.block(c.block)
    loops = {str(loop): sch.state.loop(loop).const_extent or 0 for loop in sch.get_loops(c.block)}
    turns = dict(zip(loops, np.indices(tuple(loops.values())).reshape(len(loops), -1)))
    values = [eval(str(it.binding), {}, turns) for it in node.iters]
    extents = [int(str(it.extent)) for it in node.iters]
    parts = [value < extent for value, extent in zip(values, extents)]
    inside = np.all(np.broadcast_arrays(*parts), axis=0)  # a variable of one value has no loop
    of = {it.var.name: value for it, value in zip(node.iters, values)}
    named = [it.var.name for it in base.state.block(c.block).iters]
    place = np.zeros(inside.shape, int)
    for axis, step in zip(c.axes, c.operands[operand].strides):
        index = np.zeros(inside.shape, int)
        for digit in axis.digits:
            index = index * (digit.extent or 0) + of[named[digit.place]]
        place += index * (step or 0)
    _, first = np.unique(place[inside], return_index=True)
    return [int(n) for n in place[inside][np.sort(first)]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*SMALL, *SHARED])
def test_sums_that_wait_are_right_and_in_the_order_of_memory(
    name: str, cache: ObjectCache, samples: bool
) -> None:
    """One tile of small operands is built; of others all, and every third in a run of all tests."""
    func = {**SMALL, **SHARED}[name]()
    cpus = LITTLE if name in SHARED else CPUS
    base, c = prepared(func)
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.inputs]
    (want,) = reference(func, *args)
    found = list(kept_nests(c, cpus[0], bitwise=True))
    assert bool(found) == (name not in NONE)
    read = max(range(len(c.operands)), key=lambda n: np.prod(c.operands[n].shape))
    in_order = []
    for plan in found:
        sch = base.copy()
        make_nest(sch, c, plan)
        if plan.depth == 1 and (name in SMALL or not any(in_order)):
            in_order.append(firsts(base, sch, c, read) == list(range(args[1].size)))
        assert sch.numerics == "bitwise"
    assert any(in_order) if name in SHARED else all(in_order)  # tasks may have parts of rows
    for cpu in cpus:
        tiles = {plan.tile: plan for plan in kept_nests(c, cpu)}
        built = slice(1) if name in SMALL else slice(None, None, 3 if samples else 1)
        for plan in list(tiles.values())[built]:
            sch = base.copy()
            make_nest(sch, c, plan)
            np.testing.assert_array_equal(build(sch, cpu.target, cache=cache)(*args), want)


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("cpu", CPUS)
def test_what_memory_gives_once_is_read_in_its_order_by_default(name: str, cpu: Cpu) -> None:
    func = LARGE[name]()
    _, c = prepared(func)
    assert plans(c, cpu)[0][1].depth == 1
    made = default_schedule(func, cpu.target)
    assert made.numerics == "bitwise"
    assert any("_local" in line and "alloc" in line for line in str(made.func).splitlines())


@pytest.mark.parametrize("cpu", CPUS)
def test_a_matrix_times_some_rows_is_read_in_its_order_by_default(cpu: Cpu) -> None:
    """In any number of axes; not where the second cache holds it, or where it is packed ahead."""
    far = 2 * cpu.l2_bytes // (4 * 512)
    for func in (rows(17, 512, far), made(
        (3, 5, far), (512,), (3, 5, 512), (512, far),
        lambda x, w, i, k: x[i[0], i[1], k[0]] * w[k[0], i[2]],
    )):  # fmt: skip
        (_, first), *_ = plans(prepared(func)[1], cpu)
        assert first.depth and not first.packs
    near = prepared(rows(17, 64, 512))[1]
    assert not any(plan.depth for _, plan in plans(near, cpu))
    assert not plans(prepared(func)[1], cpu, ["w"])[0][1].depth


@pytest.mark.parametrize("scaled", [False, True])
def test_sums_that_wait_are_one_threads_own_whoever_reads_them(scaled: bool) -> None:
    """Lowering writes short loops over them out, and begins their rows with vectors."""
    sch = Schedule(local(32, 8, 26, 3, scaled))
    (group,) = find_groups(sch)
    c = find_contraction(sch, group.block, group.epilogue)
    assert (c.last != c.block) == scaled
    make_nest(sch, c, next(plan for _, plan in plans(c, CPUS[1]) if plan.depth))
    store = sch.state.block(c.block).body
    assert isinstance(store, Store) and store.buffer.scope == "local"


@pytest.mark.parametrize("of", [lambda n: local(3, n, 7, 3), lambda n: vectors(n, 13, 137)])
def test_symbolic_axes_around_all_others_have_such_nests(
    of: Callable[[Any], PrimFunc], cache: ObjectCache
) -> None:
    """Each task has one value of them: the nests of one that is known to be 1, which go on."""
    func = of(te.var("n"))
    base, c = prepared(func)
    found = list(kept_nests(c, CPUS[1]))
    assert found and all(plan.depth for plan in found)
    assert any(plan.depth for _, plan in plans(c, CPUS[1]))
    sch = base.copy()
    make_nest(sch, c, found[0])
    kernel = build(sch, CPUS[1].target, cache=cache)
    for size in (1, 3):
        known = of(size)
        rng = np.random.default_rng(size)
        args = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in known.inputs]
        np.testing.assert_array_equal(kernel(*args), reference(known, *args)[0])


def test_symbolic_axes_inside_others_or_that_share_the_operand_have_no_such_nests() -> None:
    n = te.var("n")
    inside = [local_last(3, n, 3, 2), vectors(3, n, 137), vectors(3, 13, n), rows(3, n, 150)]
    for func in (*inside, rows(n, 64, 4096)):
        assert not list(kept_nests(prepared(func)[1], CPUS[1]))


def test_operands_that_are_used_again_or_constant_are_not_read_so() -> None:
    several, one = prepared(rows(5, 64, 64))[1], prepared(local(3, 2, 7, 3))[1]
    assert not list(kept_nests(several, CPUS[0])) and list(kept_nests(one, CPUS[0]))
    assert not list(kept_nests(one, CPUS[0], ["w"]))


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize(("k", "n"), [(4096, 4096), (1024, 16384), (5000, 5000)])
def test_rows_of_large_matrices_are_read_side_by_side(m: int, k: int, n: int) -> None:
    """A vector, or few, times a matrix that no cache holds: processors read several rows in their
    order sooner than one. 0.45 to 0.7 of the time (two threads of a Zen 4)."""
    (_, plan), *_ = plans(prepared(rows(m, k, n))[1], CPUS[1])
    assert plan.depth > 1
    assert plan.task[plan.lane] * 4 >= 4096  # and each of them for a page at least


@pytest.mark.parametrize("n", [4096, 5000, 7000])
def test_tasks_of_a_row_are_as_large_as_each_other(n: int) -> None:
    """Threads have as many of them."""
    for plan in kept_nests(prepared(rows(1, 4096, n))[1], CPUS[1]):
        (width,), (size,) = plan.tile[-1:], plan.task[-1:]
        tasks = -(-n // size)
        assert tasks % 2 == 0 and tasks * (size - width) < n


def test_sums_of_tasks_of_small_programs_stay_in_the_first_cache() -> None:
    for name, func in SMALL.items():
        _, c = prepared(func())
        for plan in kept_nests(c, CPUS[1]):
            assert 4 * np.prod(plan.task) <= CPUS[1].kept_bytes(1), name


def test_searches_draw_such_nests() -> None:
    func = local(40, 24, 28, 3)
    space = make_space(func, CPUS[1])
    (name,) = [name for name in space.sketches if name.endswith(":contraction")]
    rng = random.Random(0)
    drawn = [space.sample(rng, name) for _ in range(12)]
    found = [space.decisions(candidate) for candidate in drawn]
    depths = {each[key] for each in found for key in each if key.endswith(".depth")}
    assert len(depths) > 1
    for candidate in drawn:
        space.build(candidate)


def test_what_is_constant_is_all_that_plans_are_looked_for_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether there are such nests was asked of all plans for other constants, at the same cost."""
    asked = set()

    def counted(c: Contraction, cpu: Cpu, constants: frozenset[str] = frozenset(), *rest: Any):
        asked.add(frozenset(constants))
        return plans(c, cpu, constants, *rest)

    monkeypatch.setattr("autotune.plans.plans", counted)
    default_schedule(rows(64, 96, 150), "c", ["w"])
    assert asked == {frozenset("w")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("numerics", ["bitwise", "reassociated"])
@pytest.mark.parametrize("name", [*SMALL, *SHARED, *LARGE])
def test_plans_have_such_nests_where_there_are_any(name: str, numerics: str) -> None:
    func = (SMALL | SHARED | LARGE)[name]()
    _, c = prepared(func)
    for cpu in (CPUS[1], LITTLE[0]):
        nests = list(kept_nests(c, cpu, (), numerics == "bitwise"))
        found = plans(c, cpu, (), numerics)
        assert any(plan.depth for _, plan in found) == bool(nests)
