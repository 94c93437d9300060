"""Stages of which a part is made before a loop, the rest in it: no step reads all of one early."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from refusal import refused

from schedule import REGISTRY, Schedule, ScheduleError
from schedule.analysis.uses import read_by_others
from schedule.requests.candidates import candidates
from tensorir import interpret, parse, te, verify


def chain(rows=3, kind="float32"):
    """Sums of rows two apart, and the larger ones of these, two apart again."""
    a = te.placeholder((rows + 4, 2), kind, name="A")
    b = te.compute((rows + 4, 2), lambda i, j: a[i, j] * 2, name="B")
    k, q = te.reduce_axis(2, name="k"), te.reduce_axis(2, name="q")
    c = te.compute((rows + 2, 2), lambda i, j: te.sum(b[i + k * 2, j], axis=k), name="C")
    e = te.compute((rows, 2), lambda i, j: te.max(c[i + q * 2, j], axis=q), name="E")
    return te.create_prim_func([a, e])


def rolled(*stages):
    sch = Schedule(chain())
    for block in ("C", "B"):
        sch.compute_at(block, "i_E")
    for block in stages:
        sch.rolling_buffer(block)
    return sch


def requests(sch: Schedule) -> Iterator[tuple[str, tuple]]:
    """Each primitive at each place; hints and draws change no program."""
    for name in REGISTRY:
        if not name.startswith(("sample_", "prefetch", "spread_prefetch")):
            yield from ((name, arguments) for arguments in candidates(sch.state, name))
    for block in sch.get_blocks():
        yield from (("reindex", (block, b.name)) for b in read_by_others(sch.state.block(block)))


@pytest.mark.parametrize("stages", [("B", "C"), ("B",), ()])
def test_whatever_is_asked_of_rolled_stages(stages):
    """cache_read and reindex of what the first part reads copied rows that were made after it."""
    sch = rolled(*stages)
    a = np.arange(14.0, dtype="float32").reshape(7, 2) % 5
    expected = interpret(sch.definition, a)[0]
    accepted = set()
    for name, arguments in requests(sch):
        tried = sch.copy()
        try:
            getattr(tried, name)(*arguments)
        except ScheduleError:
            continue
        accepted.add(name)
        verify(tried.func)
        found = interpret(tried.func, a)[0]
        np.testing.assert_array_equal(found, expected, err_msg=f"{name}{arguments}")
    assert len(accepted) > 15


def nests(header, *rows):
    """A program of nests such as "T 2: T[v] = A[v]": a block, its values, and what it stores."""
    lines = ["@prim_func", f"def parts({header}):", "    T = alloc(f32[5])"]
    for row in rows:
        (name, size), store = row.split(":")[0].split(), row.split(": ")[1]
        lines += [f"    for i_{name} in range({size}):", f'        with block("{name}"):']
        lines += [f"            v = spatial({size}, i_{name})", f"            {store}"]
    return parse("\n".join(lines) + "\n")


IN_PARTS = {
    "of nobody": nests(
        "A: f32[5], C: f32[5]",
        *("T 3: T[v] = A[v] + 1.0", "S 3: T[v] = T[v] * 2.0", "C 5: C[v] = T[v // 2] + A[4 - v]"),
    ),
    "of a later one": nests(
        "A: f32[5], C: f32[3], D: f32[5]",
        *("T 3: T[v] = A[v] + 1.0", "C 3: C[v] = T[2 - v]", "S 2: T[v + 3] = A[v] * 2.0"),
        "D 5: D[v] = T[4 - v]",
    ),
    "of several": nests(
        "A: f32[5], C: f32[5], D: f32[5]",
        *("T 3: T[v] = A[v] + 1.0", "S 2: T[v + 3] = A[v] * 2.0", "C 5: C[v] = T[4 - v]"),
        *("U 2: T[v] = A[v + 1] - 1.0", "D 5: D[v] = T[v]"),
    ),
    "of the caller": nests(
        "A: f32[5], X: f32[5], D: f32[3]",
        *("T 5: T[v] = A[v]", "C 2: D[v] = X[v + 2] + T[v]", "S 3: X[v] = A[v] * 2.0"),
        "E 1: D[v + 2] = X[v] + X[4]",
    ),
}


@pytest.mark.parametrize("name", IN_PARTS)
def test_whatever_is_asked_of_what_is_written_in_parts(name):
    """A copy of all of it read what nobody had written, or would later."""
    func = IN_PARTS[name]
    given = [np.arange(1, 6, dtype="float32") * (n + 1) for n in range(len(func.given))]
    expected = interpret(func, *given)
    accepted = set()
    for asked, arguments in requests(Schedule(func)):
        tried = Schedule(func)
        try:
            getattr(tried, asked)(*arguments)
        except ScheduleError:
            continue
        accepted.add(asked)
        verify(tried.func)
        for found, wanted in zip(interpret(tried.func, *given), expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{asked}{arguments}")
    assert len(accepted) > 10


@pytest.mark.parametrize("name", ["of nobody", "of a later one"])
def test_copy_of_what_is_written_in_parts(name):
    sch = Schedule(IN_PARTS[name])
    refused(sch.cache_read, "C", "T", match="a part of 'T' only, and the copy would be whole")
    Schedule(IN_PARTS["of several"]).cache_read("C", "T")
    Schedule(IN_PARTS["of the caller"]).cache_read("C", "X")


@pytest.mark.parametrize("primitive", ["cache_read", "reindex"])
def test_copy_of_what_is_made_later(primitive):
    sch = rolled("B", "C")
    refused(getattr(sch, primitive), "C_first", "B", match="computes only the part of 'B'")


def test_copy_for_readers_after_the_parts():
    """Both parts are there then."""
    sch = Schedule(chain())
    first, _ = sch.partition("i", [4, None])
    sch.cache_read("C", "B")
    assert len(sch.get_child_blocks(first)) == 1
    verify(sch.func)


def test_algorithm_that_reads_more_than_the_block():
    """Winograd's tiles reach beyond the last row that is needed, which nobody had computed."""
    a, w = te.placeholder((1, 4, 9, 6), name="A"), te.placeholder((2, 4, 3, 3), name="W")
    b = te.compute(a.shape, lambda *i: a[i] * 2.0, name="B")
    c, r, s = (te.reduce_axis(size, name=name) for size, name in ((4, "c"), (3, "r"), (3, "s")))
    y = te.compute(
        (1, 2, 5, 4),
        lambda n, o, i, j: te.sum(b[n, c, i + r, j + s] * w[o, c, r, s], axis=[c, r, s]),
        name="Y",
    )
    sch = Schedule(te.create_prim_func([a, w, y]))
    whole = sch.copy()
    whole.use_algorithm("Y", "winograd_4x4")
    sch.compute_at("B", "n")
    sch.fission("n")
    refused(sch.use_algorithm, "Y", "winograd_4x4", match="computes only the part of 'B'")
