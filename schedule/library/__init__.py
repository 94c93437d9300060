"""Derived schedules, written only with primitives."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.library import gpu as gpu
    from schedule.library.contraction import Access as Access
    from schedule.library.contraction import Axis as Axis
    from schedule.library.contraction import Contraction as Contraction
    from schedule.library.contraction import Digit as Digit
    from schedule.library.contraction import Move as Move
    from schedule.library.contraction import MovedPlan as MovedPlan
    from schedule.library.contraction import NestPlan as NestPlan
    from schedule.library.contraction import Operand as Operand
    from schedule.library.contraction import Pack as Pack
    from schedule.library.contraction import Partial as Partial
    from schedule.library.contraction import adding_up as adding_up
    from schedule.library.contraction import find_again as find_again
    from schedule.library.contraction import find_contraction as find_contraction
    from schedule.library.contraction import groupings as groupings
    from schedule.library.contraction import in_axes as in_axes
    from schedule.library.contraction import lanes as lanes
    from schedule.library.contraction import left_by as left_by
    from schedule.library.contraction import make_moved_nest as make_moved_nest
    from schedule.library.contraction import make_nest as make_nest
    from schedule.library.contraction import on_axes as on_axes
    from schedule.library.contraction import pack as pack
    from schedule.library.contraction import panel as panel
    from schedule.library.contraction import partial_sums as partial_sums
    from schedule.library.contraction import parts as parts
    from schedule.library.contraction import plain_form as plain_form
    from schedule.library.contraction import shared_parts as shared_parts
    from schedule.library.contraction import stage_axes as stage_axes
    from schedule.library.contraction import with_panel as with_panel
    from schedule.library.contraction import with_partial as with_partial
    from schedule.library.contraction import with_result_on_axes as with_result_on_axes
    from schedule.library.gpu.cooperative_fetch import cooperative_fetch as cooperative_fetch
    from schedule.library.tensorized_matmul import TensorizedMatmul as TensorizedMatmul
    from schedule.library.tensorized_matmul import tensorized_matmul as tensorized_matmul
    from schedule.library.tensorized_roles import Roles as Roles
    from schedule.library.tensorized_roles import find_dot_product as find_dot_product
    from schedule.library.tensorized_tile import STRIP as STRIP
    from schedule.library.tile import tile as tile
    from schedule.library.winograd import Winograd as Winograd
    from schedule.library.winograd import WinogradPlan as WinogradPlan
    from schedule.library.winograd import find_winograd as find_winograd
    from schedule.library.winograd import make_winograd as make_winograd

__all__ = lazy_names(
    __name__,
    {
        "schedule.library": "gpu",
        "schedule.library.contraction": (
            "Access Axis Contraction Digit Move MovedPlan NestPlan Operand Pack Partial adding_up "
            "find_again find_contraction groupings in_axes lanes left_by make_moved_nest "
            "make_nest on_axes pack panel partial_sums parts plain_form "
            "shared_parts stage_axes with_panel with_partial with_result_on_axes"
        ),
        "schedule.library.gpu.cooperative_fetch": "cooperative_fetch",
        "schedule.library.tensorized_matmul": "TensorizedMatmul tensorized_matmul",
        "schedule.library.tensorized_roles": "Roles find_dot_product",
        "schedule.library.tensorized_tile": "STRIP",
        "schedule.library.tile": "tile",
        "schedule.library.winograd": "Winograd WinogradPlan find_winograd make_winograd",
    },
)
