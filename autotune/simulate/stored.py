"""The builder of the recorder: kernels from source texts that were compiled before.

What is measured is named by a file, which has the definition and the source text. The compiled
object is in the cache beside it, so loading takes a millisecond.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import backends
from backends import CompiledKernel, ObjectCache
from tensorir import PrimFunc, parse

LOADER = "autotune.simulate.stored:load"


def cache_beside(folder: Path) -> ObjectCache:
    """The objects of a folder; none is pruned."""
    return ObjectCache(folder / "objects", limit_bytes=1 << 40)


def keep(folder: Path, kernel: CompiledKernel, definition: str) -> str:
    """Write the source text of a kernel; returns the name of the file."""
    digest = hashlib.blake2b(kernel.source.encode(), digest_size=16).hexdigest()
    place = folder / "sources" / f"{digest}.json.gz"
    place.parent.mkdir(exist_ok=True)
    text = json.dumps({"definition": definition, "source": kernel.source})
    place.write_bytes(gzip.compress(text.encode(), 3, mtime=0))
    return place.name


def load(text: str, target: str) -> Any:
    """The kernel of a file that `keep` wrote; `text` is its path."""
    place = Path(text)
    stored = json.loads(gzip.decompress(place.read_bytes()))
    cache = cache_beside(place.parent.parent)
    func = _parse_once(stored["definition"])
    return backends.build_source(func, stored["source"], target, cache=cache)


@lru_cache(maxsize=2)
def _parse_once(text: str) -> PrimFunc:
    return parse(text)
