"""lower: the passes for a target, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module

from tensorir.annotations import checked
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import Pass, chosen
from tensorir.targets.target import GPUS, Target

LISTS = {
    "c": "tensorir.passes.lower_cpu:cpu_passes",
    **dict.fromkeys(GPUS, "tensorir.passes.lower_gpu:gpu_passes"),
}
"""Where the list of passes of each kind of target is: a function of the target."""


def passes(target: Target) -> list[tuple[str, Pass]]:
    """The passes for `target` with their names, in order."""
    module, _, name = LISTS[target.kind].partition(":")
    return getattr(import_module(module), name)(target)  # type: ignore[no-any-return]


@checked
def lower(
    func: PrimFunc,
    target: Target,
    dump: Callable[[str, PrimFunc], object] | None = None,
    until: str | None = None,
    without: Collection[str] = (),
) -> PrimFunc:
    """`func` as For, Seq, Store, Let, If and Alloc over one-dimensional buffers, for `target`.

    `dump(name, func)` is called with the result of every pass. The pass called `until` is the last
    one, and those named `without` are left out. Raises TensorIRError for a name that no pass has.
    """
    for name, run in chosen(passes(target), until, without):
        func = run(func)
        if dump is not None:
            dump(name, func)
    return func
