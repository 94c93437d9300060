"""What the host does for a lowered program: kernels, workspaces, conditions, limits."""

import warnings

import pytest
from spmd_programs import PROGRAMS

from backends import BuildError, build
from backends.gpu.launches import Give, Launch, Launches, Take
from backends.gpu.limits import OneThread, check_kernel, check_launch, check_registers
from tensorir import TensorIRError, find_architecture, te
from tensorir.text.parser import parse

H100 = find_architecture("sm_90a")


def steps(name: str, **sizes: int) -> list:
    func = parse(PROGRAMS[name].text)
    return list(Launches.of(func).steps({v: sizes[v.name] for v in func.size_vars}))


@pytest.mark.parametrize("n", [1, 31, 32, 99, 100, 1000])
def test_grids_and_workspaces_are_those_of_the_sizes(n):
    take, first, second, give, last = steps("two_kernels", n=n)
    assert isinstance(take, Take) and take.bytes == 4 * n
    assert isinstance(give, Give) and give.buffer is take.buffer
    assert (first.grid, first.block) == (((n + 31) // 32, 1, 1), (32, 1, 1))
    small = n < 100
    assert second.kernel.name == f"two_kernels_{1 if small else 2}"
    assert (second.grid[0], second.block[0]) == ((1, n) if small else (n, 1))
    assert [b.name for b in first.kernel.buffers] == ["A", "T"] and first.sizes == (n,)
    assert [b.name for b in last.kernel.buffers] == ["B", "M"] and last.sizes == ()
    assert [b.name for b in first.kernel.written] == ["T"]


def test_nothing_is_launched_without_threads():
    assert [type(step) for step in steps("two_kernels", n=0)] == [Take, Give, Launch]
    assert steps("scale", n=0) == []


TEXT = """
@prim_func
def f(A: f32[n, 2]):
    for b in thread("blockIdx.x", n):
        for t in thread("threadIdx.x", 2):
            A[b * 2 + t] = 0.0
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    for b", "    A[0] = 1.0\n    for b", r"'A\[0\] = 1.0' stands outside of the kernels"),
        ('"threadIdx.x"', '"blockIdx.x"', "f_0: .* are no axes of one grid"),
        ('"threadIdx.x"', '"vthread.x"', "f_0: .* are no axes of one grid"),
        (" 0.0", " 1.0\n            for u in thread('blockIdx.y', 2):\n                pass", "u"),
        ("n)", "m)", None),
    ],
)
def test_what_is_not_in_spmd_form_is_refused(old, new, message):
    if message is None:  # a size of no argument
        text = TEXT.replace("= 0.0", "= f32(m)").replace("n, 2]", "n, 2], C: f32[m]")
        assert [v.name for v in Launches.of(parse(text)).kernels[0].sizes] == ["m"]
        return
    with pytest.raises(BuildError, match=message):
        Launches.of(parse(TEXT.replace(old, new)))


def test_shared_memory_needs_a_place():
    text = PROGRAMS["transpose"].text.replace('{"T": 0}', '{"U": 0}')
    with pytest.raises(BuildError, match="transpose_0: shared buffer 'T' has no place"):
        Launches.of(parse(text))


def limited(b: int | str = "n", t: int | str = 2, shared: int = 0, axis: str = "x") -> Launches:
    text = TEXT.replace('"blockIdx.x", n)', f'"blockIdx.{axis}", {b}, annotations=SHARED)')
    text = text.replace("SHARED", f'{{"shared_bytes": {shared}}}')
    return Launches.of(parse(text.replace('.x", 2)', f'.{axis}", {t})')))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t": 1025}, "'f_0' cannot run on sm_90a: its blocks have 1025 threads, .* 1024"),
        ({"t": 65, "axis": "z"}, "its blocks have 65 threads along z, and may have 64"),
        ({"shared": 232449}, "use 232449 bytes of shared memory, and a block has at most 232448"),
        ({"b": 65536, "axis": "y"}, "its grid has 65536 blocks along y, and may have 65535; bind"),
        ({"b": 2**31}, "its grid has 2147483648 blocks along x, and may have 2147483647"),
    ],
)
def test_what_no_call_can_launch_is_refused_by_the_build(given, message):
    with pytest.raises(BuildError, match=message):
        check_kernel(limited(**given).kernels[0], H100)


def test_the_largest_is_allowed():
    for given in ({"t": 1024}, {"t": 64, "axis": "z"}, {"shared": 232448}, {"b": 2**31 - 1}):
        check_kernel(limited(**given).kernels[0], H100)


@pytest.mark.parametrize(
    ("given", "n", "message"),
    [
        ({"axis": "z"}, 65536, "on sm_90a for n = 65536: its grid has 65536 blocks along z"),
        ({"b": 1, "t": "n"}, 1025, "for n = 1025: its blocks have 1025 threads"),
    ],
)
def test_sizes_of_a_call_that_cannot_be_launched(given, n, message):
    launches = limited(**given)
    (size,) = launches.func.size_vars
    for count in (n - 1, n):
        (launch,) = launches.steps({size: count})
        if count < n:
            check_launch(launch, H100, {size: count})
        else:
            with pytest.raises(TensorIRError, match=message):
                check_launch(launch, H100, {size: count})


def test_registers_of_all_threads_of_a_block():
    kernel = limited(t=512).kernels[0]
    check_registers(kernel, 128, H100)
    with pytest.raises(BuildError, match="512 threads of 129 registers each need more than the 65"):
        check_registers(kernel, 129, H100)


def summed(n):
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(n, name="k")
    return te.create_prim_func([a, te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")])


@pytest.mark.parametrize("size", [5000, te.var("n")], ids=str)
def test_a_kernel_that_one_thread_runs_is_said(size):
    with pytest.warns(OneThread, match="one thread runs all of it.*bind loops, or rfactor"):
        build(summed(size), "cuda-emulator")


def test_a_short_kernel_of_one_thread_is_no_matter():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(summed(7), "cuda-emulator")


def test_resources_say_what_one_thread_runs(with_nvrtc):
    with pytest.warns(OneThread):
        kernel = build(summed(5000), "cuda -arch=sm_80")
    said = [text for used in kernel.resources.values() for text in used.warnings]
    assert said and "one thread runs all of it" in said[0]
