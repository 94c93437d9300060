"""What decides whether threads may use a buffer as they do: what of a kernel touches it."""

from __future__ import annotations

from tensorir.analysis.touching import touching
from tensorir.buffer import Buffer
from tensorir.stmt import Stmt
from tensorir.verifier.kernels import Kernel, Use


def part_of(kernel: Kernel, buffer: Buffer) -> Stmt:
    """The statements of a kernel that touch `buffer`, and the loops and conditions around them.

    All statements stay where memory is read to find out where it is touched: any of them may
    write that. Loops have no annotations, and unrolled ones are as serial ones.
    """
    asks = any([_asks_memory(use) for use in kernel.uses[buffer]])
    part = touching(kernel.stmt, None if asks else buffer)
    assert part is not None
    return part


def _asks_memory(use: Use) -> bool:
    block = use.access.block
    asked = [block.predicate, *(it.binding for it in block.iters), *use.access.indices]
    return any([e.has_loads for e in asked]) or any([x.extent.has_loads for x in use.loops])
