"""Sums of which data tell the elements on GPUs: each term is added where it belongs, by threads
with sums of their own, where that takes less time than asking each element for each term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from autotune.rules.gpu.move import MovePlan
from autotune.rules.gpu.product import product_plans
from autotune.rules.gpu.sums.reductions import reduction_plans
from autotune.rules.group import Group, instances, size
from autotune.rules.plan import Plan
from schedule import Schedule, library
from tensorir import Block, Gpu, IterKind, dtype, written

WARPS, LIKELY = (1, 2, 4, 8, 16), (2, 4, 16)
"""Of a block of threads: the more, the fewer elements it has room for."""

PARTS = tuple(2**n for n in range(1, 13))

ASKS = 2.0
"""Operations of asking an element for a term at least: comparing, and adding up."""

STEPS = 4
"""Times that a thread has terms, at least."""


def scattered_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The plan for a sum of which data tell the elements, if it takes less than asking each."""
    block = sch.state.block(group.block)
    chosen = library.gpu.chosen_by_data(block) if block.is_reduction else ()
    if not chosen:
        return []
    points = list(_points(block, chosen, gpu))
    if not points:
        return []
    options = {"elements": tuple(sorted({point["elements"] for point in points}))}
    options |= {"warps": WARPS, "parts": PARTS}
    floats = any(dtype.is_float(buffer.dtype) for buffer in written(block))
    numerics = "reassociated" if floats else "bitwise"
    plan = MovePlan("scattered", group, gpu, sch.copy(), _scattered, options, points, numerics)
    return [plan] if plan.works and _takes_less(plan, block) else []


def _takes_less(plan: MovePlan, block: Block) -> bool:
    """Whether a plan takes less time than asking each element for each term."""
    from autotune.gpu.work import architecture_of

    sch, group, gpu, takes = plan.base, plan.group, plan.gpu, plan.cycles(plan.default())
    asked = prod(instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    arch = architecture_of(gpu)
    if takes < ASKS * asked / (arch.fp32_lanes * arch.card.sms):
        return True
    for rule in (product_plans, reduction_plans):
        for other in rule(sch.copy(), group, gpu)[:1]:
            least = other.estimate() if other.works else None
            return least is None or takes < least
    return False


def _points(block: Block, chosen: tuple[str, ...], gpu: Gpu) -> Iterator[Mapping[str, Any]]:
    """Blocks that fill shared memory, or hold all elements, with warps for each of these."""
    near = library.gpu.columns_of(block)
    wide = near >= library.gpu.COLUMNS
    extents = {it.var.name: size(it.extent) for it in block.spatial}
    among = prod(extents[name] for name in chosen)
    own = sum(dtype.itemsize(buffer.dtype) for buffer in written(block))
    rest = prod(extents.values()) // (among * (1 if wide else near))
    terms = instances(block, IterKind.REDUCE)
    for warps in LIKELY:
        sums = own * warps * Gpu.warp * (1 if wide else near)  # bytes for each element
        elements, fits = among, gpu.shared_most // sums
        if fits < among:
            if len(chosen) > 1 or fits < warps:
                continue
            each = -(-among // -(-among // fits))  # of as many ranges as there have to be
            elements = min(-(-each // warps), fits // warps) * warps
        ranges = -(-among // elements)
        at_once = min(gpu.shared_most // (sums * elements), 64 // warps)
        there = -(-rest // Gpu.warp) if wide else rest
        wanted = at_once * gpu.multiprocessors / (there * ranges)
        most = terms / (STEPS * (warps if wide else warps * Gpu.warp))
        parts = max([n for n in PARTS if n <= min(wanted, most)], default=PARTS[0])
        yield {"warps": warps, "elements": elements, "parts": parts}


def _scattered(sch: Schedule, group: Group, warps: int, elements: int, parts: int) -> None:
    for pad in group.padding:
        sch.compute_inline(pad)
    library.gpu.scattered(
        sch, group.block, parts=parts, warps=warps, elements=elements, epilogue=group.epilogue
    )
