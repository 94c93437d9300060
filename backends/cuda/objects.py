"""The machine code of a CUDA text: found in the cache, or made now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backends.c.compiler import DEFAULT_TIMEOUT
from backends.cache import ObjectCache, default_cache, object_key
from backends.cuda.nvrtc import OPTIONS, Cubin, compile_cubin, version


def cubin_of(
    source: str,
    arch: str,
    options: Sequence[str] = (),
    *,
    name: str = "kernel",
    cache: ObjectCache | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Cubin:
    """What `compile_cubin` makes of `source`, unless the cache has it.

    The key holds the version of NVRTC, since another one makes other code. Raises what
    `compile_cubin` raises.
    """
    store = default_cache() if cache is None else cache
    known = "nvrtc {}.{}".format(*version())
    key = object_key(source, known, arch, *OPTIONS, *options)
    found = store.find(key)
    if found is not None:
        try:
            return Cubin.from_bytes(found.read_bytes())
        except FileNotFoundError:  # another process made room in this moment
            pass
    made = compile_cubin(source, arch, options, name, timeout)

    def write(draft: Path) -> None:
        draft.write_bytes(made.to_bytes())

    store.add(key, write)
    return made
