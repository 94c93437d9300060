"""Reductions whose threads share the terms: along rows, along columns, and to few values."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.rules.gpu.move import MovePlan
from autotune.rules.group import Group, body_loads, instances, stride_in
from autotune.rules.plan import Plan
from schedule import Schedule
from tensorir import Block, Gpu, IterKind

WARPS = (1, 2, 4, 8, 16)
PARTS = (1, 4, 16, 64)
BLOCKS = (32, 64, 128, 256, 512)


def reduction_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The ways to share the terms of a reduction: warps or blocks of threads for rows of what is
    contiguous, lanes for columns, and two kernels where there are few results."""
    block = sch.state.block(group.block)
    if not block.is_reduction or instances(block, IterKind.REDUCE) < gpu.warp:
        return []
    return [plan for plan in _plans(sch.copy(), group, gpu, block) if plan.works]


def _plans(sch: Schedule, group: Group, gpu: Gpu, block: Block) -> Iterator[MovePlan]:
    results, terms = (instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    warps = tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)
    few = results < 2 * gpu.multiprocessors
    if few and terms >= 64 * gpu.warp:
        blocks = max(BLOCKS[0], 4 * gpu.multiprocessors // max(1, results))
        yield MovePlan(
            "few_values", group, gpu, sch, _few_values, {"blocks": BLOCKS, "warps": warps},
            [{"blocks": blocks, "warps": 8}], "reassociated",
        )  # fmt: skip
    if _contiguous(block) is IterKind.SPATIAL:
        yield MovePlan(
            "columns", group, gpu, sch, _columns, {"warps": warps, "parts": PARTS},
            [{"warps": 8, "parts": 1}], "reassociated",
        )  # fmt: skip
        return
    by = "warp" if terms <= 16 * gpu.warp and not few else "block"
    shared = max(1, min(8, terms // (4 * gpu.warp)))
    likely = {"by": by, "warps": 8 if by == "warp" else 1 << (shared.bit_length() - 1)}
    yield MovePlan(
        "rows", group, gpu, sch, _rows, {"by": ("warp", "block"), "warps": warps},
        [likely], "reassociated",
    )  # fmt: skip


def _contiguous(block: Block) -> IterKind | None:
    """Of what kind the variable is along which neighbours in what is read are neighbours too."""
    for it in reversed(block.iters):
        if any(stride_in(load, it.var, block) == 1 for load in body_loads(block)):
            return it.kind
    return None


def _inline_padding(sch: Schedule, group: Group) -> None:
    for pad in group.padding:
        sch.compute_inline(pad)


def _rows(sch: Schedule, group: Group, by: str, warps: int) -> None:
    from schedule import library

    _inline_padding(sch, group)
    last = group.epilogue or group.block
    library.gpu.rows(sch, last, by=by, warps=warps, stages=[group.block])


def _columns(sch: Schedule, group: Group, warps: int, parts: int) -> None:
    from schedule import library

    _inline_padding(sch, group)
    library.gpu.columns(sch, group.block, warps=warps, parts=parts, epilogue=group.epilogue)


def _few_values(sch: Schedule, group: Group, blocks: int, warps: int) -> None:
    from schedule import library

    _inline_padding(sch, group)
    library.gpu.whole(sch, group.block, blocks=blocks, warps=warps)
    if group.epilogue is not None:
        library.gpu.elementwise(sch, group.epilogue)
