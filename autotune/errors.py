"""Errors of measuring and of the tuning database."""

from __future__ import annotations

from tensorir import TensorIRError


class MeasureError(TensorIRError):
    """Nothing can be measured: a broken set-up, as opposed to a candidate that fails."""


class DatabaseError(TensorIRError):
    """A tuning database or an export cannot be opened, read or written."""
