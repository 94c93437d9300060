"""The machine code of a kernel without names: kernels of the same code take the same time.

An object is an ELF file (the "System V Application Binary Interface", chapters 4 and 5). What names
reach in it are tables of symbols and strings; instructions, constants and data have none.
"""

from __future__ import annotations

import struct

from backends import CompiledKernel
from backends.cache import default_cache

PARTS = (b".text", b".rodata", b".data")
"""Sections that begin so are what a kernel does; `.rela` and `.dynsym` say whom it calls."""

_HEADER = struct.Struct("<40xQ12xHH")
"""Of the file: where the headers of sections are, how many, and which one has their names."""

_SECTION = struct.Struct("<II16xQQ8x8x8x")
"""Of a section: the place of its name, its kind, where it is in the file, its bytes."""

_NO_BITS = 8


def machine_code(kernel: CompiledKernel) -> bytes | None:
    """Instructions, constants and names of called functions; None where no ELF file is kept."""
    path = default_cache().find(kernel.object_key) if kernel.object_key else None
    return None if path is None else nameless(path.read_bytes())


def nameless(data: bytes) -> bytes | None:
    """What an ELF file of 64 bits does; None of another file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    sections = _sections(data)
    called = _called(sections)
    return b"\0".join([*(s for n, s in sections.items() if n.startswith(PARTS)), *called])


def _sections(data: bytes) -> dict[bytes, bytes]:
    start, count, names = _HEADER.unpack_from(data)
    headers = [_SECTION.unpack_from(data, start + n * 64) for n in range(count)]
    text = headers[names][2]
    found = {}
    for name, kind, at, size in headers:
        begin = text + name
        bits = b"" if kind == _NO_BITS else data[at : at + size]
        found[data[begin : data.index(b"\0", begin)]] = bits
    return found


def _called(sections: dict[bytes, bytes]) -> list[bytes]:
    """The functions that calls lead to, in the order of their places: code has only these."""
    symbols, strings = sections.get(b".dynsym", b""), sections.get(b".dynstr", b"")
    table = sections.get(b".rela.plt", b"")
    places = [struct.unpack_from("<I", table, at + 12)[0] for at in range(0, len(table), 24)]
    names = [struct.unpack_from("<I", symbols, place * 24)[0] for place in places]
    return [strings[name : strings.index(b"\0", name)] for name in names]
