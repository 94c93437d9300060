"""The schedule that needs no tuning."""

from __future__ import annotations

from collections.abc import Collection

from autotune.rules.generate import default_candidate, machine_of, make_space
from backends import resolve
from schedule import Schedule
from tensorir import PrimFunc, Target, check_constants


def default_schedule(
    func: PrimFunc, target: Target | str = "c", constants: Collection[str] = ()
) -> Schedule:
    """A schedule of `func` for `target` by rules alone, made in milliseconds.

        kernel = build(default_schedule(func))

    It is where `tune` begins, and what tuned kernels are compared with.

    constants  names of the parameters that `build` will be given as constants: packing them then
               costs nothing in a call

    Raises BuildError where there is no compiler for `target`, and TensorIRError for a target that
    is not understood or a name in `constants` that is no parameter.
    """
    check_constants(func, constants)
    space = make_space(func, machine_of(resolve(target)))
    return space.build(default_candidate(space, constants))
