"""A directory of compiled objects, found by the hash of everything that went into them.

The name of a file is `<key>.<digest of its content>.so`, so a file that was cut short or damaged is
noticed and made again. Files appear by renaming, so any number of processes may share a directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from backends.errors import BuildError, BuildPlaceError
from backends.scratch import ScratchFolder

LIMIT_BYTES = 1 << 30
PRUNE_EVERY = 64
PRUNED, PRUNE_SECONDS = "pruned", 600.0
"""What is touched by whoever looks through all objects: a process that adds its first one does so
where nobody has for that long. Most add a few."""

DRAFT, DRAFT_SECONDS = ".tmp", 24 * 3600.0
"""How files end that are being written, and when they are old enough to belong to nobody."""


class ObjectCache:
    """Compiled objects under `directory`; above `limit_bytes` the least recently used ones go.

    Where `directory` cannot be written, as on a full disk, what is made is kept in a temporary
    folder until this process ends; a warning says so once.
    """

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = Path(directory)
        self.limit_bytes = limit_bytes
        self._added = 0
        self._spare: ScratchFolder | None = None
        self._useless: set[Path] = set()
        self._lock = threading.RLock()  # what is built may add the parts that it is made of
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory):
                pass
        except OSError as error:
            self._give_up(self._spare_folder(error), error)

    @property
    def place(self) -> Path:
        """Where new objects go: `directory`, or the temporary folder in its place."""
        return self.directory if self._spare is None else self._spare.path

    def find(self, key: str) -> Path | None:
        """The intact object of `key`, or None. A damaged one is removed."""
        for path in self._objects(key):
            try:
                intact = _digest(path.read_bytes()) == path.name.split(".")[1]
            except OSError:  # pruned by another process this moment
                continue
            if intact:
                _touch(path)
                return path
            self._remove(path)
        return None

    def add(self, key: str, build: Callable[[Path], None]) -> Path:
        """Let `build(path)` write the object of `key`; returns the path under which it is kept.

        Nothing is kept when `build` raises. Raises BuildPlaceError where no folder can be written.
        """
        try:
            try:
                path = self._write(self.place, key, build)
            except FileNotFoundError:  # somebody removed the folder, or a part, meanwhile
                path = self._write(self.place, key, build)
        except (OSError, BuildPlaceError) as error:
            path = self._write_elsewhere(key, build, error)
        if self._added % PRUNE_EVERY == 0 and (self._added or self._is_due()):
            self.prune(keep=path)
        self._added += 1
        return path

    def _write(self, place: Path, key: str, build: Callable[[Path], None]) -> Path:
        shard = place / key[:2]
        shard.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=DRAFT, dir=shard)
        os.close(handle)
        draft = Path(name)
        try:
            build(draft)
            path = shard / f"{key}.{_digest(draft.read_bytes())}.so"
            os.replace(draft, path)
        except BuildError as error:
            if shard.is_dir():
                raise
            reason = f"{shard} was removed while it was in use"
            raise FileNotFoundError(errno.ENOENT, reason) from error
        finally:
            draft.unlink(missing_ok=True)
        return path

    def _write_elsewhere(
        self, key: str, build: Callable[[Path], None], error: OSError | BuildPlaceError
    ) -> Path:
        """Write where no cache is needed; from now on, if that helps. Parts go there too."""
        with self._lock:
            known = self._spare  # since another thread failed; or it fails itself
            spare = self._spare = known or self._spare_folder(error)
            try:
                path = self._write(spare.path, key, build)
            except (OSError, BuildPlaceError) as second:
                if known is None:
                    self._spare = None
                    spare.close()
                if isinstance(second, OSError):
                    raise _no_place(self.directory, second) from second
                raise
            finally:
                if known is None and self._spare is spare:
                    self._give_up(spare, error)
        return path

    def _spare_folder(self, error: OSError | BuildPlaceError) -> ScratchFolder:
        try:
            return ScratchFolder()
        except OSError as second:
            raise _no_place(self.directory, second) from error

    def _give_up(self, spare: ScratchFolder, error: OSError | BuildPlaceError) -> None:
        self._spare = spare
        warnings.warn(
            f"the cache folder {self.directory} cannot be written ({_reason(error)}): what is "
            "compiled is kept until this process ends; make room there or make it writable, or "
            "name another one in TENSORIR_CACHE",
            stacklevel=2,
        )

    def discard(self, key: str) -> None:
        """Forget the object of `key`, if there is one."""
        for path in self._objects(key):
            self._remove(path)

    def prune(self, keep: Path | None = None) -> int:
        """Remove the least recently used objects until the rest fits; returns how many went.

        What killed processes left half written goes as well.
        """
        with suppress(OSError):
            (self.directory / PRUNED).touch()
        for draft in self.directory.glob(f"??/*{DRAFT}"):
            with suppress(OSError):
                if time.time() - _used(draft) > DRAFT_SECONDS:
                    draft.unlink()
        found = []
        for path in self.directory.glob("??/*.so"):
            with suppress(OSError):
                found.append((_used(path), path.stat().st_size, path))
        excess = sum(size for _, size, _ in found) - self.limit_bytes
        removed = 0
        for _, size, path in sorted(found):
            if excess <= 0:
                break
            if path != keep:
                self._remove(path)
                excess -= size
                removed += 1
        return removed

    def _is_due(self) -> bool:
        """Whether no process has looked through the objects for a while."""
        try:
            return time.time() - _used(self.directory / PRUNED) > PRUNE_SECONDS
        except OSError:
            return True

    def _objects(self, key: str) -> list[Path]:
        """The objects of a key, damaged ones among them, as far as they are of use."""
        places = dict.fromkeys((self.place, self.directory))
        found = [path for place in places for path in sorted((place / key[:2]).glob(f"{key}.*.so"))]
        return [path for path in found if path not in self._useless]

    def _remove(self, path: Path) -> None:
        """Remove an object; what cannot be removed is not looked at again."""
        try:
            path.unlink(missing_ok=True)
        except OSError:
            self._useless.add(path)


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


def _no_place(directory: Path, error: OSError | BuildPlaceError) -> BuildPlaceError:
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        temporary = "any temporary folder"
    return BuildPlaceError(
        f"compiled objects can be kept neither in the cache folder {directory} nor in {temporary} "
        f"({_reason(error)}); make room, or name other folders in TENSORIR_CACHE and TMPDIR"
    )


def _reason(error: OSError | BuildPlaceError) -> str:
    if isinstance(error, BuildPlaceError):
        return "no room for what the compiler writes"
    return error.strerror or str(error)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _used(path: Path) -> float:
    """When a file was used last, in seconds since 1970. What a wrong clock has dated in the future
    is dated now: it would be young for as long."""
    dated, now = path.stat().st_mtime, time.time()
    if dated > now:
        _touch(path)
    return min(dated, now)


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # another user's cache, or pruned this moment
        return
