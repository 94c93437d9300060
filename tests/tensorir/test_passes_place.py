"""Where intermediates are allocated, and how small."""

from __future__ import annotations

import pytest

from tensorir import Alloc, PrimFunc, TensorIRError, thread_fault, walk
from tensorir.passes import flatten_buffers, lower_blocks, place_buffers
from tensorir.text.parser import parse


def place(text: str) -> PrimFunc:
    return place_buffers(lower_blocks(parse(text.strip())))


def places(func: PrimFunc) -> dict[str, tuple[str, int]]:
    """For each allocation its shape, and how many loops are around it."""
    lines = str(func).splitlines()
    at = {line.split("alloc(")[1].split(",")[0]: line for line in lines if "alloc(" in line}
    return {
        s.buffer.name: (repr(s.buffer).split(": ")[1], at[s.buffer.name].index("with") // 4 - 1)
        for s in walk(func.body)
        if isinstance(s, Alloc)
    }


def chain(loop: str, produced: str = "i_0 * 4 + p", read: str = "vi") -> str:
    return f"""
@prim_func
def chain(A: f32[40], C: f32[32]):
    T = alloc(f32[40])
    for i_0 in {loop}(8):
        for p in range(6):
            with block("T"):
                vp = spatial(40, {produced})
                T[vp] = A[vp]
        for i_1 in range(4):
            with block("C"):
                vi = spatial(32, i_0 * 4 + i_1)
                C[vi] = T[{read}]
"""


def test_keeps_what_one_iteration_writes() -> None:
    func = place(chain("parallel"))
    assert places(func) == {"T": ("f32[6]", 1)}
    assert "T[p] = A[i_0 * 4 + p]" in str(func)
    assert "C[i_0 * 4 + i_1] = T[i_1]" in str(func)
    assert func.buffers == ()


def test_reads_shift_alike() -> None:
    assert "= T[i_1 + 2]" in str(place(chain("range", read="vi + 2")))


@pytest.mark.parametrize("kind", ["unrolled", "vectorized"])
def test_never_inside_a_loop_that_becomes_one_piece(kind: str) -> None:
    assert places(place(chain(kind))) == {"T": ("f32[34]", 0)}


def test_value_of_an_earlier_iteration_stays_alive() -> None:
    assert places(place(chain("range", read="max(vi - 5, 0)"))) == {"T": ("f32[34]", 0)}


def test_unbounded_dimension_stays_whole() -> None:
    func = place(chain("range", produced="(i_0 * 4 + p) * (i_0 * 4 + p) % 40"))
    assert places(func)["T"][0] == "f32[40]"


def test_never_larger_than_declared() -> None:
    text = chain("range").replace("T = alloc(f32[40])", "T = alloc(f32[5])")
    text = text.replace("T[vp]", "T[vp % 5]").replace("T[vi]", "T[vi % 5]")
    assert places(place(text))["T"][0] == "f32[5]"


def test_globals_of_a_gpu_stay_at_the_top_and_whole() -> None:
    text = chain("thread").replace("thread(", 'thread("blockIdx.x", ')
    assert places(place(text)) == {"T": ("f32[40]", 0)}
    text = text.replace("alloc(f32[40])", 'alloc(f32[40], scope="shared")')
    assert places(place(text)) == {"T": ("f32[6]", 1)}


def test_unused_buffer_is_not_allocated() -> None:
    text = chain("range").replace("    for i_0", "    U = alloc(f32[3])\n    for i_0")
    assert "U" not in places(place(text))


def test_overlapping_lives_in_one_sequence() -> None:
    text = """
@prim_func
def overlap(A: f32[4], C: f32[4]):
    S = alloc(f32[4])
    T = alloc(f32[4])
    for i in range(4):
        with block("S"):
            vi = spatial(4, i)
            S[vi] = A[vi]
    for j in range(4):
        with block("T"):
            vj = spatial(4, j)
            T[vj] = S[vj]
    for k in range(4):
        with block("C"):
            vk = spatial(4, k)
            C[vk] = T[vk]
"""
    func = place(text)
    assert [s.buffer.name for s in walk(func.body) if isinstance(s, Alloc)] == ["T", "S"]
    assert place_buffers(func) is func


def test_scalar_and_rank_zero() -> None:
    text = """
@prim_func
def scalar(A: f32[4], C: f32[4]):
    S = alloc(f32[()], scope="local")
    for i in range(4):
        with block("S"):
            vi = spatial(4, i)
            S[()] = A[vi]
        with block("C"):
            vi = spatial(4, i)
            C[vi] = S[()]
"""
    func = flatten_buffers(place(text))
    assert places(func) == {"S": ("f32[1]", 1)}
    assert "C[i] = S[0]" in str(func)


@pytest.mark.parametrize(
    ("loop", "where"),
    [('thread("blockIdx.x", 4)', ("f32[1, 8]", 1)), ("range(4)", ("f32[4, 8]", 0))],
)
def test_what_an_owner_reads_it_has_written(loop: str, where: tuple[str, int]) -> None:
    """Two stores that fill a row in an order which no box tells: nothing proves that all of it is
    there, but rows tell the thread, and so nobody else can have written what it reads."""
    text = f"""
@prim_func
def halves(A: f32[4, 8], C: f32[4, 8]):
    S = alloc(f32[4, 8], scope="local")
    for b in {loop}:
        for t in range(4):
            with block("even"):
                vb = spatial(4, b)
                vt = spatial(4, t)
                S[vb, vt * 6 % 8] = A[vb, vt * 6 % 8]
        for u in range(4):
            with block("odd"):
                vb = spatial(4, b)
                vu = spatial(4, u)
                S[vb, (vu * 6 + 1) % 8] = A[vb, (vu * 6 + 1) % 8]
        for i in range(8):
            with block("C"):
                vb = spatial(4, b)
                vi = spatial(8, i)
                C[vb, vi] = S[vb, 7 - vi]
"""
    assert thread_fault(parse(text.strip())) is None
    assert places(place(text)) == {"S": where}


def test_init_must_be_lowered_first() -> None:
    text = """
@prim_func
def total(A: f32[4], C: f32[1]):
    for k in range(4):
        with block("C"):
            vk = reduce(4, k)
            with init():
                C[0] = 0.0
            C[0] = C[0] + A[vk]
"""
    with pytest.raises(TensorIRError, match="block 'C' still has its init"):
        lower_blocks(parse(text.strip()))


JOINED = """
@prim_func
def joined(A: f32[40, 10], D: f32[40, 10]):
    T = alloc(f32[40, 10])
    for t in range(10):
        for a, b, c in grid({steps}, 4, 4):
            with block("T"):
                v0 = spatial(40, t * 4 + (a * 16 + b * 4 + c) // 10)
                v1 = spatial(10, (a * 16 + b * 4 + c) % 10)
                where({left})
                T[v0, v1] = A[v0, v1]
        for i, j in grid(4, 10):
            with block("D"):
                v0 = spatial(40, t * 4 + i)
                v1 = spatial(10, j)
                D[v0, v1] = T[v0, v1]
"""


@pytest.mark.parametrize(
    ("left", "where"),
    [
        ("a * 16 + b * 4 + c < 40", ("f32[4, 10]", 1)),
        ("a * 4 + b < 10", ("f32[4, 10]", 1)),
        ("a * 16 + b * 4 + c < 39", ("f32[40, 10]", 0)),  # one element is missing
        ("a * 16 + b * 4 + c < 40 and t < 5", ("f32[20, 10]", 0)),  # half of the steps copy
    ],
)
def test_loops_made_one_and_split_by_what_does_not_divide(left, where):
    """Sixteen threads copy forty elements, in three steps."""
    assert places(place(JOINED.format(steps=3, left=left)))["T"] == where


PARTS = """
@prim_func
def parts(A: f32[2000], C: f32[2000]):
    T = alloc(f32[2000], scope="local")
    for t in range(500):
        for u in KIND(4):
            with block("T"):
                vp = spatial(2000, (u * 500 + t) % 777 + STEP)
                T[vp] = A[vp]
            with block("C"):
                vi = spatial(2000, (u * 500 + t) % 777 + READ)
                C[vi] = T[vi]
"""


def parts(kind: str = "unrolled", step: str = "u", read: str = "u") -> PrimFunc:
    return parse(PARTS.strip().replace("KIND", kind).replace("STEP", step).replace("READ", read))


def test_iterations_that_are_written_out_have_registers_each():
    """Where nothing can be told of the places of all, as behind a remainder."""
    func = place_buffers(lower_blocks(parts()))
    assert places(func) == {"T": ("f32[4, 1]", 1)}
    assert places(place_buffers(lower_blocks(parts("range")))) == {"T": ("f32[1]", 1)}


def test_what_iterations_pass_on_is_in_registers_of_all():
    ((shape, _),) = places(place_buffers(lower_blocks(parts(read="0")))).values()
    assert not shape.startswith("f32[4,")
