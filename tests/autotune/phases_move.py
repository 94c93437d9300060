"""A move as users write them: an operand that is read at every `step`-th place, in phases."""

from __future__ import annotations

from math import prod

from schedule.library import Move, find_again


def steps(c, device):
    """(operand, step, threads) where neighbouring results read `step` apart, terms side by side."""
    for n, operand in enumerate(c.operands):
        if operand.dims and None not in operand.shape:
            last = operand.dims[-1]
            apart = {last[m] for m in c.spatial} - {0}
            if len(apart) == 1 and None not in apart and 1 in [last[m] for m in c.reduced]:
                threads = device.worth_threads(prod(operand.shape))
                yield (n, apart.pop(), threads)


def whole(c, option):
    n, step, _ = option
    operand = c.operands[n]
    terms = [c.axes[m].extent for m in c.reduced if operand.dims[-1][m] == 1]
    if step < 2:
        return "results that read neighbours have one phase"
    if operand.pad or sum(o.buffer == operand.buffer for o in c.operands) > 1:
        return f"{operand.buffer!r} is padded here, or read at several places"
    if any(size is None or size % step for size in (operand.shape[-1], *terms)):
        return f"{operand.shape[-1]} elements and {terms} terms are no multiples of the step {step}"
    return None


def by_phases(sch, c, option):
    n, step, threads = option
    copy = sch.cache_read(c.block, c.operands[n].buffer, "global")
    old = [f"d{at}" for at in range(len(c.operands[n].shape))]
    new = [*old[:-1], f"{old[-1]} % {step}", f"{old[-1]} // {step}"]
    buffer = sch.state.block(copy).body.buffer.name
    sch.transform_layout(copy, buffer, f"{', '.join(old)}: {', '.join(new)}")
    *rows, last = sch.get_loops(copy)
    block, lane, phase = sch.split(last, [None, 64, step])
    sch.reorder(phase, lane)
    sch.unroll(phase)
    sch.vectorize(lane)
    if threads:
        sch.parallel(sch.fuse(*rows, block) if rows else block)
    return find_again(sch, c)


def copying(c, option, device, constants):
    n, _, threads = option
    if c.operands[n].buffer in constants:
        return 0
    loads = prod(c.operands[n].shape)  # each is apart from the next one
    return loads / device.threads + device.costs.start if threads else loads


phases = Move("phases", by_phases, whole, steps, copying)
