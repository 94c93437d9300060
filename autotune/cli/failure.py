"""Errors of the command line, with the status that the process ends with."""

from __future__ import annotations

from autotune.cli.start import STOPPED as STOPPED
from tensorir import TensorIRError

OK, NOTHING, WRONG_USE = 0, 1, 2


class Failure(TensorIRError):
    """What was asked for is not there: status 1."""


class WrongUse(TensorIRError):
    """The command line itself makes no sense: status 2."""
