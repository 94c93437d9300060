"""However a program is written, the kernels that it gets on a GPU take as long, by the estimate."""

from __future__ import annotations

import pytest

from autotune import default_schedule
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from benchmarks.general.rewritings import forms_of
from tensorir import PrimFunc, Target, device_of, ops, te

TARGET = Target.parse("cuda-emulator -arch=sm_90a")
LONGER = 1.08
"""Times the plain program that a form may take: results whose neighbours are read far apart fill
the sectors that they are in one by one."""

KINDS = ("permuted", "split", "fused", "unit", "scaled")


def program(make, *shapes) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


FORMS = {
    "depthwise, channels last": (
        program(
            lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout="NHWC"),
            (32, 56, 56, 64), (3, 3, 1, 64),
        ), ("permuted reversed", "permuted last first", "permuted first last"),
    ),
    "depthwise": (
        program(
            lambda x, w: ops.depthwise_conv2d(x, w, padding=1), (16, 64, 56, 56), (64, 1, 3, 3)
        ), ("permuted reversed", "permuted last first", "permuted first last"),
    ),
    "convolution, turned": (
        program(
            lambda x, w: ops.conv2d_transpose(x, w, stride=2, padding=1),
            (16, 128, 28, 28), (128, 64, 4, 4),
        ), ("permuted reversed", "permuted last first", "permuted first last"),
    ),
    "padding of short rows": (
        program(lambda x: ops.pad(x, ((0, 2), (1, 2), (2, 2), (1, 0), (0, 2))), (2, 865, 1, 7, 5)),
        ("permuted reversed", "permuted last first", "permuted first last"),
    ),
    "product": (program(ops.matmul, (512, 256), (256, 512)), ("scaled by k", "scaled by row")),
    "attention": (
        program(ops.attention, *[(2, 16, 512, 64)] * 3),
        ("split last", "split reduce", "split reduce, inputs too", "unit first", "unit last",
         "fused output"),
    ),
}  # fmt: skip
"""Programs, and forms of them, which are all there."""


def taken(func: PrimFunc) -> float:
    """Cycles of the kernels of the default schedule."""
    device = device_of(TARGET)
    return cycles(works_of(default_schedule(func, TARGET).func, device), device)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMS)
def test_forms_take_as_long_as_the_plain_program(name):
    func, names = FORMS[name]
    forms = [form for form in forms_of(func, KINDS) if form.name in names]
    assert {form.name for form in forms} == {*names}
    plain = taken(func)
    for form in forms:
        assert taken(form.func) <= LONGER * plain, form.name
