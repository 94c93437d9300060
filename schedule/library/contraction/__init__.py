"""Contractions: blocks described by what they access, and moves that schedule them."""

from schedule.library.contraction.added import adding_up, make_partial_nest
from schedule.library.contraction.axes import Access, Axis, Contraction, Digit, Operand
from schedule.library.contraction.copies import with_panel
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.nest import make_inner_nest, make_nest
from schedule.library.contraction.partial import partial_sums, with_partial
from schedule.library.contraction.plan import NestPlan, Pack, Partial, PartialPlan

__all__ = [
    "Access",
    "Axis",
    "Contraction",
    "Digit",
    "NestPlan",
    "Operand",
    "Pack",
    "Partial",
    "PartialPlan",
    "adding_up",
    "find_contraction",
    "make_inner_nest",
    "make_nest",
    "make_partial_nest",
    "partial_sums",
    "with_panel",
    "with_partial",
]
