"""Algorithm: a rule that recognises what a block computes and says another way to compute it.

It looks at the block's body, whoever wrote it. `use_algorithm` puts the other expressions in as a
step of the trace like any other, so records replay and carry no second program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.func import PrimFunc
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor


@dataclass(frozen=True)
class Alternative:
    """Another way to compute what a block computes.

    outputs   the buffers of the block that it fills; others that the block wrote are needed no more
    inputs    the buffers that it reads
    compute   from a tensor for each of `inputs` to one for each of `outputs`, which are to have the
              names that are given, and to be prefixes of those of other stages
    replaced  blocks that made what only this block read, and that go with it
    """

    outputs: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    compute: Callable[[Sequence[Tensor], Sequence[str]], Sequence[Tensor]]
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Algorithm:
    """A named algorithm for one kind of block.

    about      what it is and where it is from, in a sentence
    recognise  the alternative for a block of a program; raises Mismatch, which says why, where the
               block is something else or of sizes that the algorithm is not for. It may look at the
               bodies of blocks and not at the loops around them.
    examples   programs with the name of a block that it takes, on which it is checked
    numerics   what it does to floating-point results, NUMERICS of tensorir/numbers/numerics.py
    preferred  whether default schedules may use it that are asked for no class, where its estimate
               is less
    always     whether it is better wherever it fits, and used there if numerics allow
    kinds      the kinds of devices whose rules know what to make of it; None is all. Elsewhere it
               is for schedules by hand
    needs      whether a target with these features has what it is for, as an instruction; None is
               any target
    """

    name: str
    about: str
    recognise: Callable[[PrimFunc, Block], Alternative]
    examples: Callable[[], Sequence[tuple[PrimFunc, str]]]
    numerics: str = "algebraic"
    preferred: bool = False
    always: bool = False
    kinds: tuple[str, ...] | None = None
    needs: Callable[[Collection[str]], bool] | None = None

    def is_for(self, features: Collection[str]) -> bool:
        """Whether a target with these features has what it is for. Intrinsics are parsed to know
        that: it is asked of what was recognised alone."""
        return self.needs is None or self.needs(features)
