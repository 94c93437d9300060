"""What is found of this machine, and what a resolved target has of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from emulator import ARM, needs_compiler

from autotune.machine.machine import this_machine
from backends import host, resolve
from tensorir import Processor


def cache_folder(root: Path, caches: list[tuple[str, str, str]]) -> Path:
    for number, facts in enumerate(caches):
        folder = root / f"index{number}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), facts):
            (folder / name).write_text(text + "\n")
    return root


def test_data_and_unified_caches_count(tmp_path):
    listed = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")]
    folder = cache_folder(tmp_path, [*listed, ("3", "Unified", "32M"), ("4", "Unified", "?")])
    assert host.cache_sizes(folder) == {"L1d": 48 << 10, "L2": 1 << 20, "L3": 32 << 20}
    (folder / "index2" / "size").unlink()
    assert "L2" not in host.cache_sizes(folder)
    assert host.cache_sizes(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "150000 100000"}, 1.5), ({"cpu.max": "max 100000"}, None), ({}, None),
        ({"cpu.max": "?"}, None), ({"cpu.max": "1 0"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000"}, None),
    ],
)  # fmt: skip
def test_the_time_that_a_container_may_use(files, share, tmp_path):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert host.host_share(tmp_path) == share


def test_what_a_machine_does_not_tell_is_the_usual_size(monkeypatch):
    monkeypatch.setattr(host, "host_caches", lambda: {"L2": 1 << 19})
    usual = Processor()
    found = host.host_processor()
    assert found == Processor(host.host_threads(), usual.l1d, 1 << 19, usual.l3)


@pytest.mark.parametrize(
    ("processors", "told", "found"), [(2, 480, 32), (2, 32, 32), (64, 256, 256)]
)
def test_a_guest_counts_on_its_share_of_the_last_cache(monkeypatch, processors, told, found):
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(host, "host_caches", lambda: {"L3": told << 20})
    assert host.host_processor().l3 == found << 20


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinity masks")
def test_threads_are_those_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert resolve("c").thread_count == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert resolve("c").thread_count == len(allowed)


def test_a_resolved_target_knows_this_machine():
    target, machine = resolve("c -vector_bits=128"), this_machine()
    assert target.l2_bytes == machine.caches.get("L2", Processor().l2)
    assert target.l1d_bytes == machine.caches.get("L1d", Processor().l1d)
    assert resolve("c -l2=524288 -threads=3").l2_bytes == 524288
    assert resolve("c -threads=3").thread_count == 3


@needs_compiler
def test_a_target_of_another_machine_has_the_defaults():
    assert resolve(ARM).processor == Processor()
    assert resolve(ARM).vector_registers == 32
