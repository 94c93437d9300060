"""A file of what was measured on this machine, in the user's cache folder.

Entries are plain JSON, each with the key of the machine that it was measured on. A file that cannot
be read costs another measurement and no more; processes that write at once replace it whole.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune.machine.machine import this_machine
from backends import compiler_info, default_cache, object_key
from tensorir import Target


def entry_key(what: tuple[str, ...], target: Target) -> str:
    """The key of `what` on this machine, in kernels for `target` by its compiler of today."""
    made_with = json.dumps(compiler_info(target), sort_keys=True)
    return object_key(*what, this_machine().key, str(target), made_with)


class MeasuredFile:
    """The entries of the file called `name`, by their keys."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def path(self) -> Path:
        return default_cache().place / self.name

    def read(self) -> tuple[dict[str, Any], str]:
        """The entries, and what is wrong with the file; "" where nothing is, or where none is."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}, ""
        except (OSError, ValueError, RecursionError) as error:
            return {}, f"{self.path} is not read: {error}"
        if not isinstance(found, dict):
            return {}, f"{self.path} is not read: it holds no mapping"
        entries = {key: entry for key, entry in found.items() if isinstance(entry, Mapping)}
        word = f"{self.path} has entries that are none" if len(entries) < len(found) else ""
        return entries, word

    def entries(self) -> dict[str, Any]:
        return self.read()[0]

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Store an entry beside the others; nothing happens where the folder is not to be written
        to."""
        path, draft = self.path, None
        entries = {**self.entries(), key: dict(entry)}
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{path.stem}", dir=path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(entries, stream, indent=1)
            os.replace(draft, path)
        except OSError:
            if draft is not None:
                Path(draft).unlink(missing_ok=True)
