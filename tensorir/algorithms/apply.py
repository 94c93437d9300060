"""Putting an alternative in the place of the blocks that compute the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.parts import replace_buffers, touched
from tensorir.stmt import Block, For, Seq, Stmt, seq
from tensorir.tensorize.match import Mismatch
from tensorir.visit import walk

APPLIED_ALGORITHMS = "algorithms"
"""The attribute of a program that holds, by block, the algorithms that were applied to it."""


@dataclass(frozen=True)
class Applied:
    """A program in which `alternative` computes what a block did; its last block is `block`."""

    func: PrimFunc
    block: str
    alternative: Alternative


def apply_algorithm(func: PrimFunc, block: Block, algorithm: Algorithm) -> Applied:
    """`func` with the nest of `block`, and of what is computed for it alone, done by `algorithm`.

    Raises Mismatch where the algorithm is not for that block.
    """
    try:
        alternative = algorithm.recognise(func, block)
        return _replaced(func, block, alternative, algorithm.name)
    except Mismatch:
        raise
    except TensorIRError as error:  # sizes that the other expression refuses
        raise Mismatch(str(error)) from error


def _replaced(func: PrimFunc, block: Block, other: Alternative, name: str) -> Applied:
    nests = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    gone = {*other.replaced, block.name}
    kept = [stmt for stmt in nests if not gone & set(_block_names(stmt))]
    made, last = _program(func, block, kept, other)
    for result, output in zip(made.params[len(other.inputs) :], other.outputs, strict=True):
        same = len(result.shape) == len(output.shape) and result.dtype == output.dtype
        if not same or any(a is not b for a, b in zip(result.shape, output.shape)):
            raise Mismatch(f"{name} makes {result!r} of it and not {output!r}")
    mapping = dict(zip(made.params, (*other.inputs, *other.outputs)))
    body = replace_buffers(made.body, mapping)
    place = next(stmt for stmt in nests if block.name in _block_names(stmt))
    stmts = [body if stmt is place else stmt for stmt in nests if stmt is place or stmt in kept]
    written = {b for stmt in kept for s in walk(stmt) for b, _, write in touched(s) if write}
    buffers = [b for b in func.buffers if b in written or b in other.outputs]
    applied = {**func.attrs.get(APPLIED_ALGORITHMS, {}), last: name}
    whole = replace(
        func,
        buffers=(*buffers, *made.buffers),
        body=seq(*stmts),
        attrs={**func.attrs, APPLIED_ALGORITHMS: applied},
    )
    return Applied(whole, last, other)


def _program(
    func: PrimFunc, block: Block, kept: list[Stmt], other: Alternative
) -> tuple[PrimFunc, str]:
    """The alternative as a program of its own, with names that the kept part does not have, and
    the name of its last block.

    A block that makes one result keeps its name. Buffers of what it shares with the kept part are
    exchanged afterwards, so their names here do not matter.
    """
    from tensorir import te
    from tensorir.te.create import create_named_blocks
    from tensorir.te.tensor import ComputeOp

    given = [te.placeholder(b.shape, b.dtype, name=b.name) for b in other.inputs]
    free = Names(name for stmt in kept for name in _block_names(stmt))
    wanted = [b.name for b in other.outputs] if len(other.outputs) > 1 else [block.name]
    names = [free.unique(name) for name in wanted]
    results = other.compute(given, names)
    taken = _taken(func, kept) - {*names, *(b.name for b in other.inputs)}
    made, blocks = create_named_blocks([*given, *results], func.name, taken)
    last = results[-1].op
    assert isinstance(last, ComputeOp)
    return made, blocks[last]


def _taken(func: PrimFunc, kept: list[Stmt]) -> set[str]:
    found = {b.name for b in (*func.params, *func.buffers)} | {v.name for v in func.size_vars}
    for stmt in kept:
        for node in walk(stmt):
            if isinstance(node, (For, Block)):
                found.add(node.name)
    return found


def _block_names(stmt: Stmt) -> list[str]:
    return [node.name for node in walk(stmt) if isinstance(node, Block)]
