"""Derived schedules, written only with primitives."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.library import gpu
    from schedule.library.contraction.again import loads_of
    from schedule.library.contraction.ahead import ahead, as_stage, factors_ahead, with_parts_packed
    from schedule.library.contraction.axes import NEAR, Access, Axis, Contraction, Digit, Operand
    from schedule.library.contraction.copies import copy_ahead, with_panel
    from schedule.library.contraction.factors import groupings, shared_parts
    from schedule.library.contraction.find import find_again, find_contraction, read_by
    from schedule.library.contraction.move import Move, MovedPlan, left_by, make_moved_nest
    from schedule.library.contraction.moves import lanes, panel, parts
    from schedule.library.contraction.nest import make_nest, prepare
    from schedule.library.contraction.partial import add_lanes, partial_sums, with_partial
    from schedule.library.contraction.places import NoContraction, own_loops
    from schedule.library.contraction.plain import in_axes, on_axes, plain_form, with_result_on_axes
    from schedule.library.contraction.plan import NestPlan, Pack, Partial
    from schedule.library.contraction.stage import contiguous_run, placed_loads, stage_axes
    from schedule.library.gpu.cooperative_fetch import cooperative_fetch
    from schedule.library.tensorized_matmul import TensorizedMatmul, tensorized_matmul
    from schedule.library.tensorized_roles import TILE_SIDE, Roles, Shape, find_products, has_tiles
    from schedule.library.tensorized_tile import STRIP
    from schedule.library.tile import one_loop, tile
    from schedule.library.tiled_rows import matrix_form
    from schedule.library.winograd.find import find_winograd
    from schedule.library.winograd.nests import WinogradPlan, make_winograd
    from schedule.library.winograd.stages import Winograd

__all__ = lazy_names(__name__)
