"""Contractions: blocks described by what they access, and moves that schedule them."""

from schedule.library.contraction.axes import Access, Axis, Contraction, Digit, Factors, Operand
from schedule.library.contraction.copies import pack, with_panel
from schedule.library.contraction.factors import groupings, shared_parts
from schedule.library.contraction.find import find_again, find_contraction
from schedule.library.contraction.move import Move, MovedPlan, left_by, make_moved_nest
from schedule.library.contraction.moves import adding_up, lanes, panel, parts
from schedule.library.contraction.nest import make_inner_nest, make_nest
from schedule.library.contraction.partial import partial_sums, with_partial
from schedule.library.contraction.plain import (
    in_axes,
    on_axes,
    plain_form,
    with_result_on_axes,
)
from schedule.library.contraction.plan import NestPlan, Pack, Partial
from schedule.library.contraction.stage import stage_axes

__all__ = [
    "Access",
    "Axis",
    "Contraction",
    "Digit",
    "Factors",
    "Move",
    "MovedPlan",
    "NestPlan",
    "Operand",
    "Pack",
    "Partial",
    "adding_up",
    "find_again",
    "find_contraction",
    "groupings",
    "in_axes",
    "lanes",
    "left_by",
    "make_inner_nest",
    "make_moved_nest",
    "make_nest",
    "on_axes",
    "pack",
    "panel",
    "partial_sums",
    "parts",
    "plain_form",
    "shared_parts",
    "stage_axes",
    "with_panel",
    "with_partial",
    "with_result_on_axes",
]
