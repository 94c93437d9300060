"""What an access of a warp moves: sectors of global memory, turns of the banks of shared memory."""

from __future__ import annotations

import numpy as np

from autotune.gpu.lanes import Values
from tensorir import Gpu


def sectors_of(address: Values, running: Values, bytes_each: int, gpu: Gpu) -> tuple[float, float]:
    """Sectors that the running lanes touch, and how many their bytes would fill."""
    places = np.sort(np.where(running, address, -1), axis=1)
    count = _distinct(places).sum(axis=1)
    ends = [address, address + bytes_each - 1] if bytes_each > 1 else [address]
    found = [np.where(running, end // gpu.sector_bytes, -1) for end in ends]
    sectors = _distinct(np.sort(np.concatenate(found, axis=1), axis=1)).sum()
    return float(sectors), float((-(-count * bytes_each // gpu.sector_bytes)).sum())


def wavefronts_of(
    address: Values, running: Values, bytes_each: int, gpu: Gpu
) -> tuple[float, float]:
    """Turns of the banks of shared memory, and how many there would be without conflicts: all lanes
    at once, or halves or quarters where each has 8 or 16 bytes. Warps that differ by where they
    begin alone, as most do, meet in as many banks: one of them is looked at."""
    least = address.min(axis=1, keepdims=True)
    beyond = address - least // gpu.bank_bytes * gpu.bank_bytes
    alike = len(address) if running.all() and (beyond == beyond[:1]).all() else 1
    if alike > 1:
        address, running = beyond[:1], running[:1]
    parts = max(1, bytes_each // gpu.bank_bytes)
    words = np.where(running, address // gpu.bank_bytes, -1).astype(np.int32)  # half to sort
    if parts > 1:
        each = words[:, :, None] + np.arange(parts, dtype=np.int32) * (words[:, :, None] >= 0)
        words = each.reshape(-1, gpu.warp)
    words = np.sort(words, axis=1)
    first = _distinct(words)
    bank = words % gpu.banks + gpu.banks * np.arange(len(words))[:, None]
    turns = np.bincount(bank[first], minlength=gpu.banks * len(words))
    most = turns.reshape(-1, gpu.banks).max(axis=1)
    return float(alike * most.sum()), float(alike * (most > 0).sum())


def _distinct(rows: Values) -> Values:
    """Where the sorted rows have numbers for the first time; -1 is none."""
    first = np.ones(rows.shape, bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return first & (rows >= 0)
