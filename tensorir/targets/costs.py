"""What the steps of a processor cost, in cycles: what estimates of time are made of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Cycles of a core. Defaults are those of a server processor of 2022 with vectors of 512 bits.

    units      multiply-adds of 64 bytes that begin in a cycle; `ports`: likewise loads. Of shorter
               vectors more begin, but no more than `narrow` times as many
    latency    until a sum can be added to
    both       share of the smaller of arithmetic and loads that is not hidden behind the other
    piece      vectors of one of several rows that are stored in turns, where they reach into second
               lines: what is left of a line waits for the next turn
    spill      a sum that has no register, each step
    tile       beginning and ending a register tile, and `sum_` each of its vectors
    turn       of an innermost loop that begins again
    unaligned  times a load: of a vector that reaches into a second line; `strided`: of every other
               element
    masked     times a load in a loop, where padding is computed in place; `asked`: where each lane
               has to look for itself, since loads of its type take no masks
    convert    a vector that is used as another type than it has in memory
    transpose  turning a vector of results; `add`: the sum of one vector's lanes, of a row by itself
    stall      reading a vector that was just written in parts
    beside     share by which rows that are read side by side come later, each time they double
    l2, l3, memory   a line of 64 bytes from there, as it comes in order
    crowded    a line that comes from the second cache again: others share its set of the first one
    late       share of the time of such lines that requests ahead save, where hardly anything is
               computed meanwhile: some processors' own do so
    copy, copy_turned  an element that is packed in order, or against it, in vectors and near;
               `alone`: one that is moved by itself, `fill`: one of a padded image, `passed`: one
               that a thread computes and another one reads
    shared     a line that two cores write in turns
    hidden     share of the smaller of arithmetic and traffic that goes on beside the other
    tile_product   of two tiles of AMX; `tile_latency`: until its sums can be added to, `tile_row`:
               a row of a tile from the second cache, `tile_sums`: a vector of sums on its way to
               the result, `tile_start`: configuring tiles, and releasing them
    start      threads that begin to share tasks, and wait for each other
    """

    units: float = 1.0
    ports: float = 1.0
    narrow: float = 2.0
    latency: float = 4.0
    both: float = 0.2
    piece: float = 0.0
    spill: float = 10.0
    tile: float = 5.0
    sum_: float = 1.0
    turn: float = 11.0
    unaligned: float = 2.2
    strided: float = 3.3
    masked: float = 1.4
    asked: float = 14.0
    convert: float = 1.0
    transpose: float = 5.5
    add: float = 10.0
    stall: float = 40.0
    beside: float = 0.16
    l2: float = 0.05
    crowded: float = 0.5
    l3: float = 3.4
    memory: float = 28.0
    late: float = 0.0
    copy: float = 0.3
    copy_turned: float = 0.7
    alone: float = 12.0
    fill: float = 0.5
    passed: float = 3.0
    shared: float = 600.0
    hidden: float = 0.45
    tile_product: float = 24.0
    tile_latency: float = 52.0
    tile_row: float = 2.5
    tile_sums: float = 4.0
    tile_start: float = 400.0
    start: float = 8000.0


TWO_UNITS = Costs(units=2.0, ports=2.0, narrow=1.0, piece=7.5, late=0.5)
"""Of processors with arithmetic in half precision (Golden Cove and its successors): two units and
two ports of 64 bytes each. A stencil of two rows takes half as long again as one of single rows
where results begin 16 bytes into a line, as NumPy's do, and as long where they begin with one."""


def usual_costs(features: Collection[str]) -> Costs:
    """What steps cost on processors with these features (Target.features), where nobody says."""
    return TWO_UNITS if "avx512fp16" in features else Costs()
