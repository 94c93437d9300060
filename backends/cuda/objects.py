"""The machine code of a CUDA text: found in the cache, or made now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from backends.c.compiler import DEFAULT_TIMEOUT
from backends.cache import ObjectCache, default_cache, object_key
from backends.cuda.nvrtc import OPTIONS, Cubin, compile_cubin, version
from backends.cuda.resources import read_resources

_BOUNDS = re.compile(r"\b__launch_bounds__\((\d+)(?:, (\d+))?\) (\w+)\(")
"""Kernels that say how many threads a block has, and maybe how many blocks shall have room."""


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

    Compilers keep to as many registers as leave room for some blocks, and spill rather than take
    more: kernels that spill are compiled again with room for one less.

    The key holds the version of NVRTC, since another one makes other code. Raises what
    `compile_cubin` raises.
    """
    store = default_cache() if cache is None else cache
    known = "nvrtc {}.{}, room for all that spills".format(*version())
    key = object_key(source, known, arch, *OPTIONS, *options)
    found = store.find(key)
    if found is not None:
        try:
            return Cubin.from_bytes(found.read_bytes())
        except FileNotFoundError:  # another process made room in this moment
            pass
    made = compile_cubin(source, arch, options, name, timeout)
    roomy = _BOUNDS.sub(lambda head: _with_room(head, made.log), source)
    if roomy != source:
        other = compile_cubin(roomy, arch, options, name, timeout)
        made = min(made, other, key=_spilled)

    def write(draft: Path) -> None:
        draft.write_bytes(made.to_bytes())

    store.add(key, write)
    return made


def _with_room(head: re.Match[str], log: str) -> str:
    """The head of a kernel; where the log says that it spills with room for one block less."""
    threads, kernel = int(head[1]), head[3]
    found = read_resources(log).get(kernel)
    if found is None or not found.spills:
        return head[0]
    blocks = max(1, int(head[2] or found.blocks_at_once(threads)) - 1)
    return f"__launch_bounds__({threads}, {blocks}) {kernel}("


def _spilled(made: Cubin) -> int:
    """Bytes that all kernels spill."""
    return sum(found.spill_stores for found in read_resources(made.log).values())
