"""Sums of which data tell the elements on GPUs: each term is added where it belongs, by threads
with sums of their own, where that takes less time than asking each element for each term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod
from typing import Any

from autotune.rules.gpu.draft import WARP_WAITS, Draft, moved, quickest
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

AHEAD = (1, 4, 8, 16)
"""Terms that are read together: nothing else is done while they are waited for."""

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
    drafted = list(_points(block, chosen, gpu, moved(sch, group.blocks)))
    if not drafted:
        return []
    points = [point for point, _ in drafted]
    likely, left, bounds = quickest(points, [draft for _, draft in drafted], gpu)
    options = {"elements": tuple(sorted({point["elements"] for point in points}))}
    options |= {"warps": WARPS, "parts": PARTS, "ahead": AHEAD}
    floats = any(dtype.is_float(buffer.dtype) for buffer in written(block))
    numerics = "reassociated" if floats else "bitwise"
    plan = MovePlan(
        "scattered", group, gpu, sch.copy(), _scattered, options, likely, numerics,
        otherwise=left, bounds=bounds,
    )  # fmt: skip
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


def _points(
    block: Block, chosen: tuple[str, ...], gpu: Gpu, bytes_moved: int
) -> Iterator[tuple[Mapping[str, Any], Draft]]:
    """Blocks that fill shared memory, or hold all elements, with warps for each of these, and their
    drafts."""
    near = library.gpu.columns_of(block)
    wide = near >= library.gpu.COLUMNS
    extents = {it.var.name: size(it.extent) for it in block.spatial}
    among = prod(extents[name] for name in chosen)
    own = sum(dtype.itemsize(buffer.dtype) for buffer in written(block))
    beside = 1 if wide else near  # sums of a thread for each element
    rest = prod(extents.values()) // (among * beside)
    terms = instances(block, IterKind.REDUCE)
    for warps in LIKELY:
        sums = own * warps * Gpu.warp * beside  # bytes for each element
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
        each_warp = terms / (parts * warps)
        ahead = max(n for n in AHEAD if n == 1 or (wide and n <= each_warp))
        point = {"warps": warps, "elements": elements, "parts": parts, "ahead": ahead}
        draft = _draft(
            block, bytes_moved, ranges=ranges, there=there, sums=elements * beside, parts=parts,
            warps=warps, ahead=ahead,
        )  # fmt: skip
        yield point, draft


def _draft(
    block: Block, bytes_moved: int, *, ranges: int, there: int, sums: int, parts: int, warps: int,
    ahead: int,
) -> Draft:  # fmt: skip
    """What both kernels ask for at least: so many ranges of elements pass over all terms, `there`
    blocks of threads of each for what else results have, with so many sums of each thread."""
    from autotune.gpu.waits import UNROLLED
    from autotune.gpu.work import Work

    wide = library.gpu.columns_of(block) >= library.gpu.COLUMNS
    own = sum(dtype.itemsize(buffer.dtype) for buffer in written(block))
    results, terms = (instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    stored, read = parts * results * own, max(0, bytes_moved - results * own)
    share = warps if wide else warps * Gpu.warp  # threads that share terms
    lanes = library.gpu.terms_at_once(block) if len(block.reduced) == 1 else 1
    lanes = ahead if wide else lanes
    steps = terms / (parts * share * lanes)
    added = sums / warps  # results of a warp, each the sum of what threads have
    again = 2 * warps if wide else 1  # sectors that a warp reads and writes as often
    touched = ranges * there * terms / (1 if wide else Gpu.warp)
    kept = parts * warps * results / (Gpu.warp if wide else 1)
    first = Work(
        parts * ranges * there, warps * Gpu.warp, bytes=bytes_moved + stored,
        shared=own * sums * warps * Gpu.warp,
        sectors=(ranges * read + again * stored) / Gpu.sector_bytes,
        wavefronts=2 * (touched + kept),
        rounds=(steps + added if wide else steps) / UNROLLED,
        waits=1 if wide else 1 + WARP_WAITS * added,
    )  # fmt: skip
    combining = library.gpu.COMBINING
    second = Work(
        ceil(results / Gpu.warp), combining * Gpu.warp, bytes=stored,
        rounds=ceil(parts / (combining * UNROLLED)), waits=1,
    )  # fmt: skip
    return first, second


def _scattered(sch: Schedule, group: Group, **options: int) -> None:
    for pad in group.padding:
        sch.compute_inline(pad)
    library.gpu.scattered(sch, group.block, epilogue=group.epilogue, **options)
