"""The whole OpenCL text of a lowered program."""

from __future__ import annotations

from backends.gpu.emitter import Shared
from backends.gpu.launches import Launches
from backends.gpu.text import grouped
from backends.opencl.emitter import OpenCLEmitter
from tensorir import ExternFunc, PrimFunc, Target

HEAD = """\
#pragma OPENCL FP_CONTRACT ON
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif"""


def opencl_text(
    func: PrimFunc, target: Target, *before: PrimFunc | None, trial: ExternFunc | None = None
) -> str:
    """The text with all kernels of the programs `before`, if there are any, and of `func`.

    `trial` is an extern function that is being checked, and not yet known.
    Raises BuildError where the program is not in SPMD form or uses what OpenCL does not have.
    """
    shared = Shared(trial=trial)
    kernels: list[list[str]] = []
    for each in (*before, func):
        if each is not None:
            for kernel in Launches.of(each).kernels:
                kernels.append(OpenCLEmitter(each, target, kernel, shared).text())
    lines = [f"// {func.name}, generated for {target}", *HEAD.splitlines()]
    for group in grouped(shared.declarations):
        lines += ["", *group.splitlines()]
    for text in kernels:
        lines += ["", *text]
    return "\n".join(lines) + "\n"
