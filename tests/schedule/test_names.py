"""What a program calls its loops, blocks, variables and buffers does not matter to primitives.

Random schedules, of all primitives, are made of programs and then of the same programs under other
names: among them all that primitives made of the first, so that what they derive is often taken.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from renaming import all_names, apart, from_pool, renamed, translated
from small_programs import random_inputs

from backends import build
from schedule import Schedule
from schedule.state import State
from tensorir import Block, For, interpret, parse, structural_equal, te, verify, walk

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
from random_schedules import Stress  # noqa: E402

SHARED = ("v", "vv", "x", "vx", "i", "vi", "ax0", "vax0", "ax0_0", "i_0", "v_0", "k0", "int",
          "double", "register", "main", "state", "f32", "_", "_axis0")  # fmt: skip
"""Names that are derived from others or mean something elsewhere; all may be names of a program."""


def same(func, other):
    """The programs are equal up to names, those in attributes and annotations too."""
    places = []
    for f in (func, other):
        state = State(f)
        buffers = [b.name for b in (*f.params, *f.buffers)]
        places.append((buffers, [*state.block_names(), *state.loop_names()]))
    (buffers, handles), (own_buffers, own_handles) = places
    names = {a: {b} for a, b in zip(buffers, own_buffers, strict=True)}
    for a, b in zip(handles, own_handles, strict=True):
        names.setdefault(a, set()).add(b)  # a block and a buffer often share one

    def agree(a, b):
        if isinstance(a, dict):
            rows = sorted(a.items()), list(b.items())
            found = [next(row for row in rows[1] if agree(key, row[0])) for key, _ in rows[0]]
            return len(a) == len(b) and agree([v for _, v in rows[0]], [v for _, v in found])
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(agree, a, b))
        return a == b or (isinstance(a, str) and b in names.get(a, ()))

    assert agree(dict(func.attrs), dict(other.attrs))
    for a, b in zip(walk(func.body), walk(other.body), strict=True):
        if isinstance(a, (For, Block)):
            assert agree(dict(a.annotations), dict(b.annotations))
    assert structural_equal(bare(func), bare(other))


def bare(func):
    """The program without what speaks of others by name."""
    from tensorir import map_children
    from tensorir import replace as changed

    def visit(stmt):
        stmt = map_children(stmt, visit)
        return changed(stmt, annotations={}) if isinstance(stmt, (For, Block)) else stmt

    return replace(func, attrs={}, body=visit(func.body))


def request(sch, name, args):
    getattr(sch, name)(*args["loops"]) if "loops" in args else getattr(sch, name)(**args)


def follow(trace, other, names):
    """Do the steps of a schedule to the same program under other names; all of the first are added
    to `names`."""
    known = Schedule(trace[0])
    for step in trace[1].instructions:
        args = translated(step.args, known, other)
        request(known, step.name, step.args)
        names |= all_names(known.func)
        try:
            request(other, step.name, args)
            same(known.func, other.func)
            assert str(parse(str(other.func))) == str(other.func)
            verify(other.func)
        except Exception as error:
            said = f"{step.name} {args}\n{error}\n{known.func}\n{other.func}"
            raise AssertionError(said) from error


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_under_other_names(seed):
    rng = random.Random(seed)
    stress = Stress(rng.choice)
    sch = Schedule(stress.workload())
    stress.run(sch, 8)
    names, steps = set(SHARED), (sch.definition, sch.trace)
    follow(steps, Schedule(renamed(sch.definition, apart)), names)
    for n in range(2):
        other = Schedule(renamed(sch.definition, from_pool(names, n)))
        follow(steps, other, set(names))
    if seed % 9 == 0:
        inputs = random_inputs(other.definition)
        found = build(other)(*inputs)
        np.testing.assert_array_equal(found, interpret(other.definition, *inputs)[0])


def product(axes, variables, other):
    """C = A B as a program with loops and variables of these names, and D = C + 1."""
    (i, j, k), (x, y, z), (p, q) = axes, variables, other
    return parse(f"""
@prim_func
def product(A: f32[8, 6], B: f32[6, 8], D: f32[8, 8]):
    C = alloc(f32[8, 8])
    for {i}, {j}, {k} in grid(8, 8, 6):
        with block("C"):
            {x} = spatial(8, {i})
            {y} = spatial(8, {j})
            {z} = reduce(6, {k})
            with init():
                C[{x}, {y}] = 0.0
            C[{x}, {y}] = C[{x}, {y}] + A[{x}, {z}] * B[{z}, {y}]
    for {p}, {q} in grid(8, 8):
        with block("D"):
            {x} = spatial(8, {p})
            {y} = spatial(8, {q})
            D[{x}, {y}] = C[{x}, {y}] + 1.0
""")


NAMES = [
    (("i", "j", "k"), ("x", "y", "z"), ("i_D", "j_D")),
    (("i", "j", "k"), ("v", "vv", "vvv"), ("v_0", "vax0")),
    (("vi", "vj", "vk"), ("i", "j", "k"), ("x", "vx")),
    (("ax0", "ax1", "ax2"), ("vax0", "vax1", "vax2"), ("B_reindex", "C_local")),
    (("int", "double", "register"), ("x_0", "x_1", "x"), ("x", "y")),
    (("a", "b", "c"), ("p", "q", "r"), ("r", "v")),
]


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_copies_and_layouts_of_any_names(names, check):
    """Each makes loops and variables, which have the names of nothing that is there."""
    sch = Schedule(product(*names))
    loops = sch.get_loops("C")
    copy = sch.reindex("C", "B", "global")
    sch.transform_layout(copy, 0, "a, b: a // 4, b, a % 4", 0.0)
    sums = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(sums, loops[0])
    sch.reverse_compute_at("D", loops[0])
    sch.decompose_reduction("C", loops[2])
    sch.cache_read("D", "C", "global")
    check(sch)


def test_fill_of_a_layout_of_any_names(check):
    """The block that pads has variables of its own."""
    a = te.placeholder((6,), name="vax0")
    b = te.compute((6,), lambda ax0: a[ax0] + 1.0, name="B")
    k = te.reduce_axis(6, name="vax1")
    c = te.compute((6,), lambda ax1: te.sum(b[k] * a[ax1], axis=k), name="ax0_B_pad")
    sch = Schedule(te.create_prim_func([a, c], name="pads"))
    sch.cache_write("B", "B", "global")
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.transform_layout("B", "B_global", "i: i // 4, i % 4", 0.0)
    check(sch)


def test_hints_go_with_their_buffers(chain, check):
    """A new buffer of an old name has no hints that were the old one's."""
    sch = Schedule(chain())
    sch.storage_align("B", "B", 0, 16)
    sch.compute_inline("B")
    assert "align" not in sch.func.attrs
    sch.cache_write("C", "C", "local")
    sch.storage_align("C", "C_local", 0, 8)
    sch.storage_align("C", "C_local", 0, 16)
    sch.reverse_compute_inline("C_local")
    assert not sch.func.attrs
    check(sch)
