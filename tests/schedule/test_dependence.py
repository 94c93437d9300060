"""Dependences that the analysis of loops once missed."""

from __future__ import annotations

from itertools import product

import pytest

from schedule import Schedule, ScheduleError
from tensorir import parse, te

PROGRAM = """
@prim_func
def program(A: f32[32], {param}D: f32[4, 32]):{alloc}
    for o, i, j in grid(4, 8, 4):
        with block("B"):
            vi = spatial(8, i)
            vj = spatial(4, j)
            B[vi * 4 + vj] = A[vi * 4 + vj]
        with block("D"):
            vo = spatial(4, o)
            vi = spatial(8, i)
            vj = spatial(4, j)
            where({where})
            D[vo, vi * 4 + vj] = B[{index}]
"""


def program(index, private=False, where="True"):
    alloc = "\n    B = alloc(f32[40])" if private else ""
    text = PROGRAM.format(
        param="" if private else "B: f32[40], ", alloc=alloc, index=index, where=where
    )
    return Schedule(parse(text.replace("            where(True)\n", "")))


def refused(sch, loop):
    with pytest.raises(ScheduleError, match="block 'D' uses what block 'B' writes|write the same"):
        sch.parallel(loop)


def test_own_elements():
    sch = program("vi * 4 + vj", private=True)
    sch.parallel("i")


def test_shifted_by_a_loop_outside():
    """The digits of i agree; that D looks o elements further was not seen."""
    refused(program("vi * 4 + vj + vo"), "i")
    refused(program("vi * 4 + vo + vj", private=True), "i")


def test_borrowed_digits():
    """vi * 4 + vj - vk reaches what the iteration before wrote."""
    text = str(program("vi * 4 + vj - vo + 3").func)
    text = text.replace("for o, i, j in grid(4, 8, 4)", "for i, j, o in grid(8, 4, 4)")
    refused(Schedule(parse(text)), "i")


@pytest.mark.parametrize(
    "index", ["vi // 2 * 4 + vj", "vj", "28 - vi * 4 + vj", "max(vi - 1, 0) * 4"]
)
def test_values_of_earlier_iterations_in_private_memory(index):
    """Nothing outside of the loop uses B, and still an iteration reads what others wrote."""
    refused(program(index, private=True), "i")


TWO = """
@prim_func
def two(A: f32[64], C: f32[{shape}]):
    for t in range(4):
        for x in range({first}):
            with block("B"):
                vt = spatial(4, t)
                vx = spatial({first}, x)
                C[{at_first}] = A[vt * {step} + vx]
        for y in range({second}):
            with block("D"):
                vt = spatial(4, t)
                vy = spatial({second}, y)
                C[{at_second}] = A[vt * {step} + vy + {shift}] + 1.0
"""


def two_blocks(step, first, second, shift, wide=None):
    """Two blocks that write ranges of elements in each iteration: of a row, or of an image with
    rows of `wide`."""
    places = [f"vt * {step} + vx", f"vt * {step} + vy + {shift}"]
    if wide is not None:
        places = [f"({place}) // {wide}, ({place}) % {wide}" for place in places]
    text = TWO.format(step=step, first=first, second=second, shift=shift, at_first=places[0],
                      at_second=places[1], shape=64 if wide is None else f"32, {wide}")  # fmt: skip
    return Schedule(parse(text))


@pytest.mark.parametrize("wide", [None, 3, 4])
def test_ranges_of_two_blocks_by_the_iteration(wide):
    """Independent exactly where no two iterations write one element."""
    for step, first, second, shift in product((3, 4), (1, 2, 3), (1, 2, 4), (0, 1, 2, 3, 5)):
        touched = [
            {t * step + x for x in range(first)} | {t * step + shift + y for y in range(second)}
            for t in range(4)
        ]
        apart = sum(map(len, touched)) == len(set().union(*touched))
        sch = two_blocks(step, first, second, shift, wide)
        if apart:
            if shift + second <= step:
                sch.parallel("t")
        else:
            with pytest.raises(ScheduleError, match="uses what block|write the same"):
                sch.parallel("t")


@pytest.mark.parametrize(("task", "cut"), [(20, 16), (12, 8), (7, 4), (5, 1)])
@pytest.mark.parametrize("size", [(56,), (53,), (60,), (7, 9)], ids=str)
def test_a_task_that_is_no_whole_number_of_vectors(check, size, task, cut):
    """What is turned on its way out of a tile is written by two blocks, of whole vectors and of the
    rest, also where one axis of the nest is two dimensions of the result."""
    a, b = te.placeholder((8, 5), name="A"), te.placeholder((5, *size), name="B")
    k = te.reduce_axis(5, name="k")
    c = te.compute((8, *size), lambda i, *p: te.sum(a[i, k] * b[(k, *p)], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="turned"))
    if len(size) == 2:
        sch.transform_block_layout("C", f"i, y, x, k: i, y * {size[1]} + x, k")
    sums = sch.reindex("C", "C", "local")
    sch.transform_layout("C", "C_reindex", "i, p: p, i")
    i, p, k = sch.get_loops("C")
    outer, inner = sch.split(p, [None, task])
    sch.reorder(outer, k, inner, i)
    sch.reverse_compute_at(sums, outer)
    sch.partition(sch.get_loops(sums)[-1], [cut, None])
    sch.parallel(outer)
    check(sch, compiled=task == 20)


PIECES = """
@prim_func
def pieces(A: f32[8], C: f32[3, 8]):
    B = alloc(f32[8])
    for t in range(3):
        for a in range({first}):
            with block("B"):
                v = spatial(8, a)
                where({where})
                B[v] = A[v]
        for b in range({second}):
            with block("B2"):
                v = spatial(8, {begin} + b)
                B[v] = A[v]
        for u in range({count}):
            with block("C"):
                w = spatial(3, t)
                v = spatial(8, u)
                C[w, v] = B[v]
"""
TAKEN = {
    "a < 8": lambda t, a: True,
    "a < 6": lambda t, a: a < 6,
    "a != 2 * t": lambda t, a: a != 2 * t,
    "a < t + 4": lambda t, a: a < t + 4,
}


@pytest.mark.parametrize("where", TAKEN)
@pytest.mark.parametrize(
    "first, begin, second", [(8, 0, 1), (10, 7, 1), (5, 5, 3), (4, 5, 3), (4, 2, 6)]
)
@pytest.mark.parametrize("count", [4, 8])
def test_pieces_that_an_iteration_writes_itself(where, first, begin, second, count):
    """Blocks write parts of what a later one reads, some of them not in each iteration: no value is
    of another iteration, in memory that threads have for themselves."""
    text = PIECES.format(first=first, where=where, begin=begin, second=second, count=count)
    if first > 8:  # rows of loops that reach beyond the buffer
        text = text.replace(f"where({where})", f"where({where} and a < 8)")
    written = [
        {*(a for a in range(min(first, 8)) if TAKEN[where](t, a)), *range(begin, begin + second)}
        for t in range(3)
    ]
    missing = [v for own in written for v in range(count) if v not in own]
    late = [v for v in missing if any(v in own for own in written)]
    sch = Schedule(parse(text))
    if late:
        with pytest.raises(ScheduleError, match="uses what block|write the same"):
            sch.parallel("t")
    elif not missing:
        sch.parallel("t")
