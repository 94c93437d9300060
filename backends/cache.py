"""A directory of compiled objects, found by the hash of everything that went into them.

The name of a file is `<key>.<digest of its content>.so`, so a file that was cut short or damaged is
noticed and made again. Files appear by renaming, so any number of processes may share a directory.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

LIMIT_BYTES = 1 << 30
PRUNE_EVERY = 64


class ObjectCache:
    """Compiled objects under `directory`; above `limit_bytes` the least recently used ones go.

    Where `directory` cannot be written, a temporary directory of this process takes its place.
    """

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = _writable(Path(directory))
        self.limit_bytes = limit_bytes
        self._added = 0

    def find(self, key: str) -> Path | None:
        """The intact object of `key`, or None. A damaged one is removed."""
        for path in sorted(self._shard(key).glob(f"{key}.*.so")):
            try:
                intact = _digest(path.read_bytes()) == path.name.split(".")[1]
            except OSError:  # pruned by another process this moment
                continue
            if intact:
                _touch(path)
                return path
            path.unlink(missing_ok=True)
        return None

    def add(self, key: str, build: Callable[[Path], None]) -> Path:
        """Let `build(path)` write the object of `key`; returns the path under which it is kept.

        Nothing is kept when `build` raises.
        """
        shard = self._shard(key)
        shard.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".tmp", dir=shard)
        os.close(handle)
        draft = Path(name)
        try:
            build(draft)
            path = shard / f"{key}.{_digest(draft.read_bytes())}.so"
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        if self._added % PRUNE_EVERY == 0:
            self.prune(keep=path)
        self._added += 1
        return path

    def discard(self, key: str) -> None:
        """Forget the object of `key`, if there is one."""
        for path in self._shard(key).glob(f"{key}.*.so"):
            path.unlink(missing_ok=True)

    def prune(self, keep: Path | None = None) -> int:
        """Remove the least recently used objects until the rest fits; returns how many went."""
        found = []
        for path in self.directory.glob("??/*.so"):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in found) - self.limit_bytes
        removed = 0
        for _, size, path in sorted(found):
            if excess <= 0:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                excess -= size
                removed += 1
        return removed

    def _shard(self, key: str) -> Path:
        return self.directory / key[:2]


def object_key(*parts: str) -> str:
    """The key of an object made from `parts`; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:40]


def default_cache() -> ObjectCache:
    """The cache in TENSORIR_CACHE, or else in the user's cache directory."""
    chosen = os.environ.get("TENSORIR_CACHE")
    if not chosen:
        from platformdirs import user_cache_dir

        chosen = user_cache_dir("tensorir")
    return _cache_at(chosen)


@cache
def _cache_at(directory: str) -> ObjectCache:
    return ObjectCache(directory)


def _writable(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        fallback = tempfile.mkdtemp(prefix="tensorir-")
        atexit.register(shutil.rmtree, fallback, ignore_errors=True)
        return Path(fallback)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # another user's cache, or pruned this moment
        return
