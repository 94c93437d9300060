"""The schedule that needs no tuning, and the space of all that a search looks at."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING

from autotune.arguments import LARGEST_SEED, check_func, check_names, instance, integer
from autotune.calibration.device import device_for
from autotune.collecting import collected_seldom
from autotune.rules import choose, default_candidate, make_space
from schedule import Refusal, Schedule
from tensorir import DEFAULT_NUMERICS, Costs, Device, PrimFunc, Target, check_numerics

if TYPE_CHECKING:
    from autotune.space import Space

DEFINITIONS_OWN = "reassociated"
"""The class of stored schedules that stand for the definition's own algorithm."""


def default_schedule(
    func: PrimFunc,
    target: Target | str = "c",
    constants: Collection[str] = (),
    numerics: str | None = None,
    costs: Costs | str | None = None,
    shipped: bool = False,
) -> Schedule:
    """A schedule of `func` for `target` by rules alone, made in milliseconds.

        kernel = build(default_schedule(func))

    It is where `tune` begins, if that is asked for the same numerics.

    constants  names of the parameters that `build` will be given as constants: packing them then
               costs nothing in a call
    numerics   what the schedule may change in results:

               | None | the definition's own algorithm: its sums in any order, and products of
                        bfloat16 by the processor's instructions for them |
               | "bitwise" | nothing |
               | "reassociated" | the order of sums and products; also that of algorithms that
                        change no more, such as convolutions as products of matrices |
               | "algebraic" | algorithms too that are equal in exact arithmetic, Winograd's: larger
                        errors, by a bound of their own |
               | "mixed" | instructions of less precision too; what `tune` allows |

               Of the algorithms that are allowed, each block is computed by the one of the least
               estimated time. `numerics` of the schedule says what became of it
    costs      what steps of the processor are estimated to cost: "measured" for those that
               `tensorir doctor --calibrate` found on this machine, or Costs(...). With None the
               schedule is the same on all machines of one target
    shipped    take the schedule of a record that ships with the project in place of one by rules,
               where there is one of this program and of this kind of machine

    Raises BuildError where there is no compiler for `target`, and TensorIRError for a target that
    is not understood, a name in `constants` that is no parameter, or unknown `numerics` or `costs`.
    """
    check_func(func)
    constants = check_names(func, constants)
    if numerics is not None:
        check_numerics(numerics)
    instance("shipped", shipped, bool, "True or False")
    if shipped:
        from autotune.tuning.shipped import shipped_schedule  # what asks a database is heavy

        known = shipped_schedule(func, target, constants, numerics or DEFINITIONS_OWN)
        if known is not None:
            return known
    with collected_seldom():
        device = device_for(target, costs)
        sketch = choose(func, device, numerics, constants).sketch
        try:
            return sketch.build(sketch.values(constants))
        except Refusal as error:
            return _next_best(func, device, numerics or DEFINITIONS_OWN, constants, error)


def _next_best(
    func: PrimFunc, device: Device, numerics: str, constants: Collection[str], refused: Refusal
) -> Schedule:
    """Where primitives refuse all nests that plans put first: the first sketch of the space that
    they take, which ends with the program as it was written. Its `describe` tells the others."""
    warnings.warn(
        f"{func.name}: the schedule of the least estimated time is refused "
        f"({refused.headline}); another one is taken",
        stacklevel=3,
    )
    space = make_space(func, device, numerics, 0, constants)
    return space.build(default_candidate(space, constants))


def search_space(
    func: PrimFunc,
    target: Target | str = "c",
    numerics: str = DEFAULT_NUMERICS,
    seed: int = 0,
    constants: Collection[str] = (),
    costs: Costs | str | None = None,
) -> Space:
    """The space of schedules of `func` for `target` that `tune` searches.

        print(search_space(func).describe())

    numerics   what its schedules may change in results, as for `tune`
    seed       which combinations of plans are looked at, where a program has more than are sketches
    constants  names of the parameters that `build` will be given as constants: which algorithms its
               first sketch uses may depend on them
    costs      of the processor's steps, as for `default_schedule`

    Raises as `default_schedule` does.
    """
    check_func(func)
    check_numerics(numerics)
    seed = integer("seed", seed, 0, LARGEST_SEED)
    constants, device = check_names(func, constants), device_for(target, costs)
    with collected_seldom():
        return make_space(func, device, numerics, seed, constants)
