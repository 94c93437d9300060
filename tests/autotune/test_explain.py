"""explain: the counts are the emulator's and the compiler's, and what is not known is said."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from autotune import default_schedule, explain
from autotune.cli.entry import main
from backends import BuildError, build, have_compiler
from schedule import Schedule
from schedule.library import gpu
from tensorir import PrimFunc, TensorIRError, ops, te

TARGET = "cuda -arch=sm_90a"
n = te.var("n")


def program(make, *shapes) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


PROGRAMS = {
    "elementwise": program(lambda x: ops.relu(x, name="S"), (33, 7)),
    "softmax": program(lambda x: ops.softmax(x, name="S"), (9, 130)),
    "one value": program(lambda x: ops.sum(x, (0,), name="S"), (70000,)),
    "transpose": program(lambda x: ops.transpose(x, (1, 0), name="S"), (70, 50)),
    "product": program(lambda a, b: ops.matmul(a, b, name="S"), (40, 36), (36, 50)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_evaluated_is_what_the_emulator_counts(name):
    """Each kernel by itself, in the order of launches."""
    evaluated, ran = (explain(PROGRAMS[name], TARGET, run=run) for run in (False, True))
    assert len(evaluated.kernels) == len(ran.kernels)
    for one, other in zip(evaluated.kernels, ran.kernels):
        assert (one.name, one.grid, one.block) == (other.name, other.grid, other.block)
        assert not one.counts and other.counts
        for what in ("sectors", "least", "requests", "touches", "wavefronts", "free", "waits"):
            assert getattr(one.work, what) == pytest.approx(getattr(other.work, what), rel=0.05)
    assert evaluated.moved == pytest.approx(ran.moved, rel=0.05)
    assert ran.moved >= 1


@pytest.mark.skipif(not have_compiler("cuda"), reason="no NVRTC: pip install -e '.[cuda13]'")
def test_registers_are_those_of_the_compiler():
    func = PROGRAMS["one value"]
    kernel = build(default_schedule(func, TARGET), TARGET)
    found = explain(func, TARGET)
    assert {k.name: k.resources for k in found.kernels} == kernel.resources
    assert [k.work.registers for k in found.kernels] == [
        kernel.resources[k.name].registers for k in found.kernels
    ]
    assert str(explain(kernel)).replace("as it is scheduled", "by its default schedule") == str(
        found
    )


def test_without_a_compiler_the_estimate_says_so(monkeypatch):
    def missing(target):
        raise BuildError("there is no NVRTC: pip install it")

    monkeypatch.setattr(sys.modules["autotune.explain"], "compiler_info", missing)
    found = explain(PROGRAMS["softmax"], TARGET)
    assert found.kernels[0].spills is None
    assert "registers are an estimate: there is no NVRTC: pip install it" in str(found)
    assert "by the estimate" in str(found.kernels[0])


def test_conflicts_are_named_with_their_lines():
    sch = Schedule(program(lambda x: ops.transpose(x, (1, 0), name="S"), (64, 32)))
    gpu.transpose(sch, "S")
    plain = replace(sch.func, attrs={})  # tiles without the column that keeps banks apart
    (kernel,) = explain(plain, TARGET, run=True).kernels
    assert kernel.conflicts > 4
    assert "of the least for the load of x0_shared in line" in str(kernel)
    (kernel,) = explain(sch, TARGET, run=True).kernels
    assert kernel.conflicts == 1 and " in line" not in str(kernel)


def test_counts_of_a_call_are_kept():
    func = PROGRAMS["softmax"]
    kernel = build(default_schedule(func, TARGET), "cuda-emulator -arch=sm_90a -check=counts")
    assert "evaluating the code" in str(explain(kernel))
    kernel(np.ones((9, 130), np.float32))
    assert "counted by the emulator" in str(explain(kernel))


def test_sizes_decide_which_kernels_run():
    """Beyond 2^31 elements places have 64 bits, by a kernel of its own."""
    func = program(lambda x: ops.relu(x, name="S"), (n, 1024))
    small, large = (explain(func, TARGET, {"n": size}) for size in (64, 1 << 22))
    assert [k.name for k in small.kernels] != [k.name for k in large.kernels]
    assert large.moved == pytest.approx(1, rel=0.02)
    assert large.arguments == 2 * 4 * (1 << 32) // 32
    assert "n counts as 256: give sizes={'n': 4096}" in str(explain(func, TARGET))
    none = explain(func, TARGET, {"n": 0})
    assert "it is not launched" in str(none) and none.moved == 1


def test_the_limit_that_binds_comes_first():
    found = explain(program(lambda x: ops.relu(x, name="S"), (1 << 14, 1 << 14)), TARGET)
    (kernel,) = found.kernels
    assert "limit          memory" in str(kernel)
    assert found.seconds == pytest.approx(2 * 4 * (1 << 28) / 4.8e12, rel=0.1)


@pytest.mark.parametrize("make", [ops.sort, lambda x: ops.topk(x, 3)[0], lambda x: ops.argsort(x)])
def test_what_text_does_is_said_to_be_left_out(make):
    """A sort is a function in C of which nothing can be evaluated: 0 transactions are no counts."""
    x = te.placeholder((4, 30), name="x")
    func = te.create_prim_func([x, make(x)], name="program")
    for run in (False, True):
        assert "is counted, nor is it in the time" in str(explain(func, "cuda", run=run))
    assert "is counted, nor" not in str(explain(PROGRAMS["softmax"], "cuda"))


def test_opencl_has_an_estimate():
    assert "what a driver of OpenCL does" in str(explain(PROGRAMS["softmax"], "opencl"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((PROGRAMS["softmax"], "c"), "target 'c.* is none: give 'cuda' or 'opencl'"),
        ((PROGRAMS["softmax"], TARGET, {"m": 3}), "'m' is not a symbolic size"),
        ((program,), "pass a PrimFunc, a Schedule, or what build returned"),
    ],
)
def test_what_cannot_be_explained(given, message):
    with pytest.raises(TensorIRError, match=message):
        explain(*given)


FILE = """
from schedule import Schedule
from schedule.library import gpu
from tensorir import ops, te

def turned(m=40):
    x = te.placeholder((m, 33), name="x")
    sch = Schedule(te.create_prim_func([x, ops.transpose(x, (1, 0), name="S")], name="turned"))
    gpu.transpose(sch, "S")
    return sch

def plain():
    x = te.placeholder((te.var("n"), 4), name="x")
    return [x, ops.relu(x)]
"""


def test_the_command(tmp_path, capsys):
    """Examples, operators and files; scheduled or not."""
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    for words, said in [
        (["softmax", "--shape", "m=40", "n=50", "--target", TARGET], "by its default schedule"),
        (["layer_norm:1", "--shape", "n=4"], "layer_norm_0: "),
        ([f"{file}:turned", "--run"], "as it is scheduled"),
        ([f"{file}:plain", "--target", "opencl"], "n counts as 256"),
    ]:
        assert main(["explain", *words]) == 0
        out = capsys.readouterr().out
        assert said in out and "occupancy" in out and "limit" in out
    for words, said in [
        (["soft"], "neither an example"),
        (["softmax", "--target", "c"], "--target cuda or opencl"),
        (["softmax", "--target", "gpu"], "gpu"),
        (["softmax", "--shape", "q=3"], "no size 'q'"),
        (["layer_norm:99"], "layer_norm:0 to layer_norm:"),
        (["layer_norm:1", "--shape", "q=3"], "no size 'q'"),
        (["layer_norm:1", "--run"], "--shape n=33"),
    ]:
        assert main(["explain", *words]) == 2
        assert said in capsys.readouterr().err
