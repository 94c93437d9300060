"""Records of a damaged database file, page by page, without SQLite.

SQLite gives up where a page does not lead to the next one. Pages with rows are found by their form
here, whatever led to them, and a record is known by its id, the hash of its content, so that
nothing wrong is taken for one. The layout is that of https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.database.records import Record
from autotune.database.rows import decode
from autotune.errors import DatabaseError

SIZES = tuple(1 << shift for shift in range(9, 17))
"""Sizes that a page may have, bytes."""

TABLE_LEAF = 0x0D
WAL_HEADER, FRAME_HEADER = 32, 24


@dataclass(frozen=True)
class Found:
    """A record, its row number, and the pages that it was read from."""

    row: int
    record: Record
    pages: tuple[int, ...]


def salvage(path: Path) -> list[Found]:
    """All whole records of the file, and of the write-ahead log beside it, by row number.

    Raises OSError where the file cannot be read.
    """
    data = path.read_bytes()
    told = int.from_bytes(data[16:18], "big")
    layouts = [(65536 if told == 1 else told, data[20] if len(data) > 20 else 0)]
    layouts += [(size, 0) for size in (4096, *SIZES)]  # the head of the file may be what is damaged
    known = [
        (size, spare) for size, spare in dict.fromkeys(layouts) if size in SIZES and spare < 64
    ]
    found = (_Pages(data, size, spare, _log(path, size)).records() for size, spare in known)
    return max(found, key=len)


def _log(path: Path, size: int) -> dict[int, bytes]:
    """The newest version of each page in the write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        return {}
    data, pages = log.read_bytes(), {}
    for at in range(WAL_HEADER, len(data) - FRAME_HEADER - size + 1, FRAME_HEADER + size):
        salt = data[at + 8 : at + 16]
        if salt == data[16:24]:  # others are left over from before the last checkpoint
            number = int.from_bytes(data[at : at + 4], "big")
            pages[number] = data[at + FRAME_HEADER : at + FRAME_HEADER + size]
    return pages


class _Pages:
    def __init__(self, data: bytes, size: int, spare: int, log: dict[int, bytes]) -> None:
        self._data, self._size, self._log = data, size, log
        self._usable = size - spare
        self._count = max(-(-len(data) // size), *log, 0)

    def records(self) -> list[Found]:
        unused = self._unused()
        found: dict[str, Found] = {}
        for number in range(1, self._count + 1):
            if number not in unused:
                for each in self._rows(number):
                    found.setdefault(each.record.id, each)
        return sorted(found.values(), key=lambda each: each.row)

    def page(self, number: int) -> bytes:
        return self._log.get(number) or self._data[(number - 1) * self._size : number * self._size]

    def _unused(self) -> set[int]:
        """Pages in the list of free ones, which keep rows that were deleted.

        A list that is not as long as it should be is not believed.
        """
        head = self.page(1)
        found: set[int] = set()
        trunk, length = int.from_bytes(head[32:36], "big"), int.from_bytes(head[36:40], "big")
        while 0 < trunk <= self._count and trunk not in found:
            page = self.page(trunk)
            found.add(trunk)
            leaves = min(int.from_bytes(page[4:8], "big"), self._usable // 4)
            numbers = (page[at : at + 4] for at in range(8, 8 + 4 * leaves, 4))
            found.update(int.from_bytes(number, "big") for number in numbers)
            trunk = int.from_bytes(page[:4], "big")
        whole = trunk == 0 and len(found) == length and all(n <= self._count for n in found)
        return found if whole else set()

    def _rows(self, number: int) -> Iterator[Found]:
        """The records in the rows of a page; none if it is no page of rows."""
        page = self.page(number)
        start = 100 if number == 1 else 0
        if len(page) < start + 8 or page[start] != TABLE_LEAF:
            return
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        for at in range(start + 8, min(start + 8 + 2 * cells, len(page) - 1), 2):
            cell = int.from_bytes(page[at : at + 2], "big")
            try:
                length, cell = _varint(page, cell)
                row, cell = _varint(page, cell)
                row -= (row >> 63) << 64
                content, pages = self._content(page, cell, length)
            except (IndexError, ValueError):
                continue
            record = _record(content)
            if record is not None:
                yield Found(row, record, (number, *pages))

    def _content(self, page: bytes, at: int, length: int) -> tuple[bytes, list[int]]:
        """The bytes of a row and the further pages that they lie in; ValueError if some lack."""
        usable = self._usable
        if length <= usable - 35:
            return page[at : at + length], []
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = least if local > usable - 35 else local
        parts, left, pages = [page[at : at + local]], length - local, []
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        while left > 0:
            more = self.page(following) if following and following not in pages else b""
            if len(more) < min(left + 4, usable):
                raise ValueError("a part of the row is missing")
            pages.append(following)
            parts.append(more[4 : min(left + 4, usable)])
            left -= len(parts[-1])
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts), pages


def _record(content: bytes) -> Record | None:
    """The record among the values of a row."""
    try:
        at_end, at = _varint(content, 0)
        kinds = []
        while at < at_end:
            kind, at = _varint(content, at)
            kinds.append(kind)
    except IndexError:
        return None
    for kind in kinds:
        size = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else max((kind - 12) // 2, 0)
        value, at = content[at : at + size], at + size
        if kind >= 12 and value.startswith(b"{"):
            try:
                return decode(value)
            except DatabaseError:
                continue
    return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where it ends; IndexError if the data ends before."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9
