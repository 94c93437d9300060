"""Derived schedules, written only with primitives."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.library import gpu as gpu
    from schedule.library.contraction.again import loads_of as loads_of
    from schedule.library.contraction.ahead import ahead as ahead
    from schedule.library.contraction.ahead import factors_ahead as factors_ahead
    from schedule.library.contraction.ahead import with_parts_packed as with_parts_packed
    from schedule.library.contraction.axes import NEAR as NEAR
    from schedule.library.contraction.axes import Access as Access
    from schedule.library.contraction.axes import Axis as Axis
    from schedule.library.contraction.axes import Contraction as Contraction
    from schedule.library.contraction.axes import Digit as Digit
    from schedule.library.contraction.axes import Operand as Operand
    from schedule.library.contraction.copies import copy_ahead as copy_ahead
    from schedule.library.contraction.copies import with_panel as with_panel
    from schedule.library.contraction.factors import groupings as groupings
    from schedule.library.contraction.factors import shared_parts as shared_parts
    from schedule.library.contraction.find import find_again as find_again
    from schedule.library.contraction.find import find_contraction as find_contraction
    from schedule.library.contraction.find import read_by as read_by
    from schedule.library.contraction.move import Move as Move
    from schedule.library.contraction.move import MovedPlan as MovedPlan
    from schedule.library.contraction.move import left_by as left_by
    from schedule.library.contraction.move import make_moved_nest as make_moved_nest
    from schedule.library.contraction.moves import lanes as lanes
    from schedule.library.contraction.moves import panel as panel
    from schedule.library.contraction.moves import parts as parts
    from schedule.library.contraction.nest import make_nest as make_nest
    from schedule.library.contraction.nest import prepare as prepare
    from schedule.library.contraction.partial import add_lanes as add_lanes
    from schedule.library.contraction.partial import partial_sums as partial_sums
    from schedule.library.contraction.partial import with_partial as with_partial
    from schedule.library.contraction.places import NoContraction as NoContraction
    from schedule.library.contraction.places import own_loops as own_loops
    from schedule.library.contraction.plain import in_axes as in_axes
    from schedule.library.contraction.plain import on_axes as on_axes
    from schedule.library.contraction.plain import plain_form as plain_form
    from schedule.library.contraction.plain import with_result_on_axes as with_result_on_axes
    from schedule.library.contraction.plan import NestPlan as NestPlan
    from schedule.library.contraction.plan import Pack as Pack
    from schedule.library.contraction.plan import Partial as Partial
    from schedule.library.contraction.stage import contiguous_run as contiguous_run
    from schedule.library.contraction.stage import placed_loads as placed_loads
    from schedule.library.contraction.stage import stage_axes as stage_axes
    from schedule.library.gpu.cooperative_fetch import cooperative_fetch as cooperative_fetch
    from schedule.library.tensorized_matmul import TensorizedMatmul as TensorizedMatmul
    from schedule.library.tensorized_matmul import tensorized_matmul as tensorized_matmul
    from schedule.library.tensorized_roles import TILE_SIDE as TILE_SIDE
    from schedule.library.tensorized_roles import Roles as Roles
    from schedule.library.tensorized_roles import Shape as Shape
    from schedule.library.tensorized_roles import find_products as find_products
    from schedule.library.tensorized_roles import has_tiles as has_tiles
    from schedule.library.tensorized_tile import STRIP as STRIP
    from schedule.library.tile import one_loop as one_loop
    from schedule.library.tile import tile as tile
    from schedule.library.tiled_rows import matrix_form as matrix_form
    from schedule.library.winograd.find import find_winograd as find_winograd
    from schedule.library.winograd.nests import WinogradPlan as WinogradPlan
    from schedule.library.winograd.nests import make_winograd as make_winograd
    from schedule.library.winograd.stages import Winograd as Winograd

__all__ = lazy_names(
    __name__,
    {
        "schedule.library": "gpu",
        "schedule.library.contraction.again": "loads_of",
        "schedule.library.contraction.ahead": "ahead factors_ahead with_parts_packed",
        "schedule.library.contraction.axes": "NEAR Access Axis Contraction Digit Operand",
        "schedule.library.contraction.copies": "copy_ahead with_panel",
        "schedule.library.contraction.factors": "groupings shared_parts",
        "schedule.library.contraction.find": "find_again find_contraction read_by",
        "schedule.library.contraction.move": "Move MovedPlan left_by make_moved_nest",
        "schedule.library.contraction.moves": "lanes panel parts",
        "schedule.library.contraction.nest": "make_nest prepare",
        "schedule.library.contraction.partial": "add_lanes partial_sums with_partial",
        "schedule.library.contraction.places": "NoContraction own_loops",
        "schedule.library.contraction.plain": "in_axes on_axes plain_form with_result_on_axes",
        "schedule.library.contraction.plan": "NestPlan Pack Partial",
        "schedule.library.contraction.stage": "contiguous_run placed_loads stage_axes",
        "schedule.library.gpu.cooperative_fetch": "cooperative_fetch",
        "schedule.library.tensorized_matmul": "TensorizedMatmul tensorized_matmul",
        "schedule.library.tensorized_roles": "Roles Shape TILE_SIDE find_products has_tiles",
        "schedule.library.tensorized_tile": "STRIP",
        "schedule.library.tile": "one_loop tile",
        "schedule.library.tiled_rows": "matrix_form",
        "schedule.library.winograd.find": "find_winograd",
        "schedule.library.winograd.nests": "WinogradPlan make_winograd",
        "schedule.library.winograd.stages": "Winograd",
    },
)
