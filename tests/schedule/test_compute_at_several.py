"""compute_at of blocks with several outputs, and of steps of a scan."""

from __future__ import annotations

from refusal import refused

from schedule import Schedule
from tensorir import parse, te


def two_outputs():
    a = te.placeholder((5, 6), name="A")
    b0, b1 = te.compute((5, 6), lambda i, j: (a[i, j] + 2.0, a[i, j] * 3.0), name="B")
    c = te.compute((5, 4), lambda i, j: b0[i, j] + b1[i, j + 2], name="C")
    return te.create_prim_func([a, c])


def test_two_outputs_of_different_parts(check):
    """One iteration needs columns 0 to 3 of one and 2 to 5 of the other: all six of both."""
    sch = Schedule(two_outputs())
    sch.compute_at("B", "i_C")
    assert [str(sch.state.loop(f).extent) for f in sch.get_loops("B")] == ["5", "6"]
    check(sch)
    sch.undo()
    sch.split("j_C", [2, None])
    sch.compute_at("B", "j_C_0")
    assert str(sch.state.loop(sch.get_loops("B")[-1]).extent) == "4"
    check(sch)


def test_reader_of_one_of_two_outputs_is_outside():
    a = te.placeholder((4,), name="A")
    b0, b1 = te.compute((4,), lambda i: (a[i] + 2.0, a[i] * 3.0), name="B")
    c = te.compute((4,), lambda i: b0[i] + 1.0, name="C")
    d = te.compute((4,), lambda i: c[i] * b1[i], name="D")
    sch = Schedule(te.create_prim_func([a, d]))
    refused(sch.compute_at, "B", "i_C", match="reader 'D' of 'B_0' is outside loop 'i_C'")
    sch = Schedule(te.create_prim_func([a, b1, d]))
    refused(sch.compute_at, "B", "i_D", match="'B_1' is an output of the function")


def test_places_of_two_outputs_differ():
    func = parse(
        """
@prim_func
def main(A: f32[4], C: f32[4]):
    B = alloc(f32[4])
    D = alloc(f32[4])
    for i in range(4):
        with block("B"):
            vi = spatial(4, i)
            B[vi] = A[vi]
            D[3 - vi] = A[vi]
    for j in range(4):
        with block("C"):
            vj = spatial(4, j)
            C[vj] = B[vj] + D[vj]
"""
    )
    refused(Schedule(func).compute_at, "B", "j", match="distinct variables of its own")


def test_tuple_reduction_with_a_component_that_nobody_asked_for(check):
    a = te.placeholder((5, 7), name="A")
    k = te.reduce_axis(7, name="k")
    top = te.compute((5,), lambda i: te.argmax(a[i, k], axis=k), name="top")
    out = te.compute((5,), lambda i: top[i] * 2, name="out")
    sch = Schedule(te.create_prim_func([a, out]))
    sch.compute_at("top", "i_out")
    sch.parallel("i_out")
    check(sch)


def scan(shift=0):
    """Two stages of a step, the second of which reads the first in another order."""
    x, state = te.placeholder((5, 6), name="X"), te.state((5, 6), name="s")
    first = te.compute((1, 6), lambda _, i: x[0, i], name="first")
    half = te.compute((5, 6), lambda t, i: state[t - 1, i] * 0.5, name="half")
    step = te.compute(
        (5, 6), lambda t, i: half[t, (i + shift) % 6 if shift else i] + x[t, i], name="step"
    )
    return te.create_prim_func([x, te.scan(first, step, state, name="p")])


def test_stage_of_a_step_of_a_scan(check):
    """The step writes the next row of the state while the stage reads the one before."""
    for shift in (0, 2):
        sch = Schedule(scan(shift))
        loop = sch.split("i_step", [None, 4])[0]
        sch.compute_at("half", loop)
        assert sch.get_loops("half")[:2] == ["t", loop]
        check(sch)


def test_stage_that_reads_the_row_that_the_step_writes():
    """No te.scan reads so; a program of another origin may."""
    text = str(scan()).replace("half[vt, vi] = p[vt, vi]", "half[vt, vi] = p[vt + 1, 5 - vi]")
    sch = Schedule(parse(text))
    refused(sch.compute_at, "half", "i_step", match="runs later inside loop 'i_step'")


def test_step_outside_of_its_time():
    func = parse(
        """
@prim_func
def main(A: f32[4], C: f32[4]):
    B = alloc(f32[4])
    for t in range(4):
        with block("B"):
            vt = opaque(4, t)
            B[vt] = A[vt]
    for i in range(4):
        with block("C"):
            vi = spatial(4, i)
            C[vi] = B[vi]
"""
    )
    refused(Schedule(func).compute_at, "B", "i", match="is not in the time step")


def test_writer_between_a_block_and_its_new_place():
    func = parse(
        """
@prim_func
def main(A: f32[4], C: f32[4]):
    B = alloc(f32[4])
    T = alloc(f32[4])
    for i in range(4):
        with block("T"):
            vi = spatial(4, i)
            T[vi] = A[vi]
    for i_B in range(4):
        with block("B"):
            vi = spatial(4, i_B)
            B[vi] = T[vi]
    for i_T in range(4):
        with block("again"):
            vi = spatial(4, i_T)
            T[vi] = A[vi] * 2.0
    for i_C in range(4):
        with block("C"):
            vi = spatial(4, i_C)
            C[vi] = B[vi] + T[vi]
"""
    )
    refused(Schedule(func).compute_at, "B", "i_C", match="'again', which 'B' reads, runs before")


def test_where_an_iteration_reads_nothing_the_copy_has_no_elements(check):
    """The first result comes from the second array alone."""
    a, b = te.placeholder((6, 1), name="A"), te.placeholder((3, 1), name="B")

    def one_after_the_other(i, j):
        return te.if_then_else(i < 6, a[te.min(i, 5), j], b[te.max(i - 6, 0), j])

    c = te.compute((9, 1), one_after_the_other, name="C")
    e = te.compute((9, 1), lambda i, j: c[8 - i, j] + 1.0, name="E")
    sch = Schedule(te.create_prim_func([a, b, e]))
    sch.compute_inline("C")
    first, _ = sch.partition(sch.get_loops("E")[0], [1, None])
    sch.compute_at(sch.cache_read("E", "A", "local"), first)
    check(sch)
