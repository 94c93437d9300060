"""Lines of JSON that are only ever added to: what a command that may be killed has done so far."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """The entries of a file, in order. A last line that was cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            whole, line_end, torn = path.read_bytes().rpartition(b"\n")
            self.entries = [json.loads(line) for line in whole.splitlines()]
            if torn:
                os.truncate(path, len(whole + line_end))

    def add(self, **entry: Any) -> None:
        """Store one entry; it is in the file when this returns."""
        self.entries.append(entry)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, separators=(",", ":")) + "\n")
