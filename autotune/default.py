"""The schedule that needs no tuning, and the space of all that a search looks at."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autotune.arguments import check_func, check_names
from autotune.rules.generate import default_sketch, make_space, sketches
from backends import resolve
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, Costs, PrimFunc, Target, check_numerics, device_of

if TYPE_CHECKING:
    from autotune.space import Space


def default_schedule(
    func: PrimFunc,
    target: Target | str = "c",
    constants: Collection[str] = (),
    numerics: str = DEFAULT_NUMERICS,
    costs: Costs | str | None = None,
) -> Schedule:
    """A schedule of `func` for `target` by rules alone, made in milliseconds.

        kernel = build(default_schedule(func))

    It is where `tune` begins, and what tuned kernels are compared with.

    constants  names of the parameters that `build` will be given as constants: packing them then
               costs nothing in a call
    numerics   what the schedule may change in results, as for `tune`; algorithms that are not
               bitwise are not used in any case
    costs      what steps of the processor are estimated to cost: "measured" for those that
               `tensorir doctor --calibrate` found on this machine, or Costs(...). With None the
               schedule is the same on all machines of one target

    Raises BuildError where there is no compiler for `target`, and TensorIRError for a target that
    is not understood, a name in `constants` that is no parameter, or unknown `numerics` or `costs`.
    """
    check_func(func)
    constants = check_names(func, constants)
    check_numerics(numerics)
    resolved = resolve(target)
    device = device_of(resolved) if costs is None else device_of(resolved, _costs(costs, resolved))
    first = default_sketch(sketches(func, device, numerics), constants)
    return first.build(first.values(constants))


def _costs(costs: Costs | str, target: Target) -> Costs:
    from autotune.calibration.stored import costs_of  # few programs need it

    return costs_of(costs, target)


def search_space(
    func: PrimFunc, target: Target | str = "c", numerics: str = DEFAULT_NUMERICS, seed: int = 0
) -> Space:
    """The space of schedules of `func` for `target` that `tune` searches.

        print(search_space(func).describe())

    numerics   what its schedules may change in results, as for `tune`
    seed       which combinations of plans are looked at, where a program has more than are sketches

    Raises as `default_schedule` does.
    """
    check_func(func)
    check_numerics(numerics)
    return make_space(func, device_of(resolve(target)), numerics, seed)
