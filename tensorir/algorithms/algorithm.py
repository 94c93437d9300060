"""Algorithm: a rule that recognises what a block computes and says another way to compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.func import PrimFunc
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor


@dataclass(frozen=True)
class Alternative:
    """Another way to compute what a block computes.

    inputs    the buffers that it reads
    compute   from a tensor for each of `inputs`, and the name of the result, which other stages
              may carry as a prefix, to a tensor with the values of the block
    replaced  blocks that made what only this block read, and that go with it
    """

    inputs: tuple[Buffer, ...]
    compute: Callable[[Sequence[Tensor], str], Tensor]
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Algorithm:
    """A named algorithm for one kind of block.

    about      what it is and where it is from, in a sentence
    recognise  the alternative for a block of a program; raises Mismatch, which says why, where the
               block is something else or of sizes that the algorithm is not for. It may look at the
               bodies of blocks and not at the loops around them.
    examples   programs with the name of a block that it takes, on which it is checked
    numerics   what it does to floating-point results, one of NUMERICS in tensorir/numerics.py
    """

    name: str
    about: str
    recognise: Callable[[PrimFunc, Block], Alternative]
    examples: Callable[[], Sequence[tuple[PrimFunc, str]]]
    numerics: str = "algebraic"
