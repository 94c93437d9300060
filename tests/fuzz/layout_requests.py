"""Random requests to the primitives that change the layout of buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedule import share_read
from schedule.requests.candidates import candidates
from tensorir import Buffer, Let, const, known_algorithms, written

if TYPE_CHECKING:
    from random_schedules import Stress

    from schedule import Schedule

MAPS = {
    1: ["i: i // 4, i % 4", "i: i % 2, i // 2", "i: i * 2", "i: i // 2"],
    2: [
        "i, j: j, i",
        "i, j: i, j // 4, j % 4",
        "i, j: j // 2, i, j % 2",
        "i, j: i // 2, j // 3, i % 2, j % 3",
        "i, j: i * {1} + j",
        "i, j: i + j, j",
        "i, j: i + j",
    ],
    3: ["i, j, k: k, i, j", "i, j, k: j // 3, k, i, j % 3", "i, j, k: i, j * {2} + k"],
    4: ["i, j, k, l: l, i, k, j", "i, j, k, l: i * {1} + j, k, l"],
}


def _pick_buffer(stress: Stress, sch: Schedule) -> Buffer | None:
    """Mostly an intermediate: parameters are always refused."""
    buffers = sch.func.buffers if sch.func.buffers and stress.pick([True] * 9 + [False]) else ()
    return stress.pick(list(buffers or sch.func.params))


def _user(stress: Stress, sch: Schedule, buffer: Buffer) -> str:
    found = [b for b in sch.get_blocks() if f"{buffer.name}[" in str(sch.state.block(b))]
    return stress.pick(found or sch.get_blocks())


def transform_layout(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    buffer = _pick_buffer(stress, sch)
    if buffer is None or buffer.ndim not in MAPS:
        return None
    text = stress.pick(MAPS[buffer.ndim]).format(*buffer.shape)
    pad = stress.pick([None, 0, 3])
    return _user(stress, sch, buffer), buffer.name, text, pad


def narrow(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    """Mostly of a stage of which others read a part."""
    made = {str(name): written(sch.state.block(name)) for name in sch.get_blocks()}
    less = [n for n, stored in made.items() if any(share_read(sch.state, b) < 1 for b in stored)]
    return (stress.pick(less or list(made)),)


def transform_block_layout(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    """Mostly of a block alone in its loops, by maps of as many parameters as it has variables."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    alone = [b for b in blocks if len(sch.get_loops(b.name)) == len(b.iters)]
    block = stress.pick(alone or blocks)
    if len(block.iters) not in MAPS:
        return None
    sizes = [it.extent for it in block.iters]
    return block.name, stress.pick(MAPS[len(sizes)]).format(*sizes)


def storage_align(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    buffer = _pick_buffer(stress, sch)
    if buffer is None:
        return None
    axis, factor = stress.pick([0, -2, 1]), stress.pick([1, 4, 16, 5])
    return _user(stress, sch, buffer), buffer.name, axis, factor, stress.pick([0, 1, 3])


def swizzle(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    buffer = _pick_buffer(stress, sch)
    if buffer is None:
        return None
    bits, base, shift = stress.pick([1, 2, 3]), stress.pick([0, 1, 2]), stress.pick([1, 3, 0])
    return _user(stress, sch, buffer), buffer.name, bits, base, shift


def reindex(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    return stress.block(sch), stress.pick([0, 1, 2]), stress.pick(["global", "local"])


def pad_einsum(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    block = stress.block(sch)
    reductions = [b for b in sch.get_blocks() if sch.state.block(b).is_reduction]
    if reductions and stress.pick([True, True, False]):
        block = stress.pick(reductions)
    return block, [stress.pick([1, 2, 4, 3]) for _ in sch.state.block(block).iters]


def use_algorithm(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    """Mostly of a sum over images or a reduction of tuples: there are algorithms for those."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    likely = [b.name for b in blocks if len(b.iters) == 7 or isinstance(b.body, Let)]
    if not likely and stress.pick([True] * 9 + [False]):
        return None
    block = stress.pick(likely or sch.get_blocks())
    of_images = len(sch.state.block(block).iters) == 7
    names = [n for n in sorted(known_algorithms()) if n.startswith("winograd") == of_images]
    return block, stress.pick(names)


def decompose_padding(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    padded = [b for b in sch.get_blocks() if "select(" in str(sch.state.block(b))]
    block = stress.pick(padded) if padded else stress.block(sch)
    loops = sch.get_loops(block)
    return (block, stress.pick(loops)) if loops else None


def regroup(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    """Of a product of several factors, in one of the ways that are proposed."""
    found = list(candidates(sch.state, "regroup"))
    return stress.pick(found) if found else None


def reassociate(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    found = list(candidates(sch.state, "reassociate"))
    return stress.pick(found) if found else None


def cache_value(stress: Stress, sch: Schedule) -> tuple[Any, ...] | None:
    """Of any part of a value, also of those that no sensible request is for."""
    block, part = stress.block(sch), list[int]()
    found = getattr(sch.state.block(block).body, "value", const(0))
    while found.operands and (not part or stress.pick([True, True, False])):
        part.append(stress.pick(list(range(len(found.operands)))))
        found = found.operands[part[-1]]
    return block, part, stress.pick(["global", "local"])
