"""Contractions: blocks described by what they access, and moves that schedule them."""

from schedule.library.contraction.axes import Access, Axis, Contraction, Digit, Operand
from schedule.library.contraction.find import find_contraction
from schedule.library.contraction.nest import make_inner_nest, make_nest
from schedule.library.contraction.plan import NestPlan, Pack

__all__ = [
    "Access",
    "Axis",
    "Contraction",
    "Digit",
    "NestPlan",
    "Operand",
    "Pack",
    "find_contraction",
    "make_inner_nest",
    "make_nest",
]
