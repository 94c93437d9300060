"""Runs the CUDA text of this project on the CPU, and checks what its threads do."""

from backends.cuda.emulator.check import Findings
from backends.cuda.emulator.emulator import Emulator
from backends.cuda.emulator.launch import Launch
from backends.cuda.emulator.report import Count, EmulationError, Report

__all__ = ["Count", "EmulationError", "Emulator", "Findings", "Launch", "Report"]
