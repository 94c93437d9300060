"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to write what takes the place of the file `path` when it is complete: if the disk is
    full, or the process ends, that is as it was. Through a symbolic link it is the file that it
    leads to. A pipe or a device, which nothing can replace, is written to itself.

    Raises OSError where the folder cannot be written to.
    """
    given = Path(path)
    if given.exists() and not given.is_file():
        yield given  # no link is followed: that of /dev/stdout to a pipe leads nowhere by name
        return
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{os.urandom(6).hex()}{target.suffix}")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
