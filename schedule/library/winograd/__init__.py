"""Winograd's algorithm: its stages in a program, and their schedule."""

from schedule.library.winograd.find import find_winograd
from schedule.library.winograd.nests import WinogradPlan, make_winograd
from schedule.library.winograd.stages import Winograd

__all__ = ["Winograd", "WinogradPlan", "find_winograd", "make_winograd"]
