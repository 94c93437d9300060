"""The compiled object of a C text: found in the cache, or made now."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from backends.c import compiler as cc
from backends.c.flags import compile_flags, kernel_flags, libraries
from backends.c.support import Support, split_support
from backends.c.threads import THREADS
from backends.c.workspace import WORKSPACE
from backends.cache import ObjectCache, object_key
from backends.commands import stop_commands
from backends.errors import BuildError, BuildMemoryError, BuildPlaceError, BuildTimeout

SUPPORT = (THREADS, WORKSPACE)
PART = "part"
"""Tells objects that others are linked with from those that are loaded."""

T = TypeVar("T")


class ObjectMaker:
    """Compiles with OpenMP, and without it for compilers that turn out to have none."""

    def __init__(self) -> None:
        self._without_openmp: set[cc.Compiler] = set()
        self._lock = threading.Lock()

    def make(
        self,
        store: ObjectCache,
        compiler: cc.Compiler,
        text: str,
        march: str | None,
        name: str,
        timeout: float,
    ) -> tuple[str, Path]:
        """The key and path of the object of `text`. Raises BuildError where it does not compile."""

        def with_flags(openmp: bool) -> tuple[str, Path]:
            flags = compile_flags(compiler, march, openmp)
            # "native" means another thing on another machine that shares the directory.
            machine = "\n".join(sorted(cc.macros(compiler, march))) if march else ""
            made_by = (*compiler.command, compiler.identity, *flags, machine)
            own, shared = split_support(text, SUPPORT)
            kernel = kernel_flags(compiler, march, openmp, own)
            linked = libraries(compiler, march)
            keys = [object_key(support.source, PART, *made_by) for support in shared]

            def part(key: str, support: Support) -> Path:
                def compile_to(draft: Path) -> None:
                    cc.compile_part(compiler, support.source, draft, flags, support.name)

                return _kept(store, key, compile_to)

            def compile_to(draft: Path) -> None:
                parts = tuple(map(part, keys, shared))
                try:
                    cc.compile_shared(compiler, own, draft, kernel, name, timeout, parts, linked)
                except BuildError as error:
                    if gone := [path for path in parts if not path.exists()]:
                        raise FileNotFoundError(errno.ENOENT, f"{gone[0]} was removed") from error
                    raise

            key = object_key(own, *keys, *made_by, *kernel, *linked)
            return key, _kept(store, key, compile_to)

        if compiler not in self._without_openmp:
            # Trying costs nothing where OpenMP is there; asking first costs a compilation.
            try:
                return with_flags(openmp=True)
            except (BuildTimeout, BuildMemoryError, BuildPlaceError):
                raise
            except BuildError:
                with self._lock:  # has_openmp warns once
                    if cc.has_openmp(compiler):
                        raise
                    self._without_openmp.add(compiler)
        return with_flags(openmp=False)


def _kept(store: ObjectCache, key: str, build: Callable[[Path], None]) -> Path:
    """The object of `key`; made where there is none."""
    return store.find(key) or store.add(key, build)


class Background(Generic[T]):
    """Work on a thread of its own, begun at once."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self) -> T:
        """Return or raise what the work did."""
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def stop(self) -> None:
        """End the compiler that the work runs: nobody waits for it any more."""
        stop_commands(self._thread)

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._errors.append(error)
