"""Errors of measuring and of the tuning database."""

from __future__ import annotations

from pathlib import Path

from tensorir import TensorIRError


class MeasureError(TensorIRError):
    """Nothing can be measured: a broken set-up, as opposed to a candidate that fails."""


class DatabaseError(TensorIRError):
    """A tuning database or an export cannot be opened, read or written."""


def line_in(file: str | Path, error: BaseException) -> str:
    """The last line of a source file that led to an error, as "line 4"; "" where none did."""
    wanted, line, at = Path(file).absolute(), "", error.__traceback__
    while at is not None:
        if Path(at.tb_frame.f_code.co_filename).absolute() == wanted:
            line = f"line {at.tb_lineno}"
        at = at.tb_next
    return line
