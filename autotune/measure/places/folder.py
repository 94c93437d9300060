"""The folder where workers and their compilers write, and what to do where there is no room."""

from __future__ import annotations

import tempfile

from autotune.errors import MeasureError
from backends import ScratchFolder


def working_folder() -> ScratchFolder:
    """A new folder of one measurer; MeasureError, with the remedy, where there can be none."""
    try:
        return ScratchFolder()
    except OSError as error:
        raise no_room(error) from error


def no_room(error: OSError) -> MeasureError:
    """The error where nothing can be written."""
    try:
        place = f"the temporary folder {tempfile.gettempdir()}"
    except OSError:
        place = "any temporary folder"
    return MeasureError(
        f"measuring cannot write to {place} ({error.strerror or error}); make room, or name "
        "another one in TMPDIR"
    )
