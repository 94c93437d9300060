"""The schedule that needs no tuning, and the space of all that a search looks at."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autotune.arguments import check_func, check_names
from autotune.rules.generate import (
    PlannedSketch,
    default_sketch,
    make_space,
    sketches,
    sketches_by_algorithm,
)
from backends import resolve
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, Costs, Device, PrimFunc, Target, check_numerics, device_of

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
    first = default_sketch(sketches(func, _device(target, costs), numerics), constants)
    return first.build(first.values(constants))


def winograd_schedule(
    func: PrimFunc,
    target: Target | str = "c",
    constants: Collection[str] = (),
    costs: Costs | str | None = None,
) -> Schedule | None:
    """A schedule of `func` by Winograd's algorithm in all blocks that it is for, with the tiles of
    the least estimated time; None where it is for none of them.

        kernel = build(winograd_schedule(func))

    The algorithm has fewer products than the definition and larger errors (`numerics` of the
    schedule is "algebraic"), so `default_schedule` leaves it to its caller to ask. Arguments and
    errors are those of `default_schedule`.
    """
    from autotune.rules.winograd import WinogradStages

    check_func(func)
    constants = check_names(func, constants)
    best: tuple[float, PlannedSketch] | None = None
    for made in sketches_by_algorithm(func, _device(target, costs), "algebraic"):
        sketch = default_sketch(made, constants)
        plans = [plan for plan in sketch.plans if isinstance(plan, WinogradStages)]
        cycles = sum(plan.plans(constants)[0][0] for plan in plans)
        if sketch.algorithm and plans and (best is None or cycles < best[0]):
            best = (cycles, sketch)
    return None if best is None else best[1].build(best[1].values(constants))


def _device(target: Target | str, costs: Costs | str | None) -> Device:
    resolved = resolve(target)
    if costs is None:
        return device_of(resolved)
    from autotune.calibration.stored import costs_of  # few programs need it

    return device_of(resolved, costs_of(costs, resolved))


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
