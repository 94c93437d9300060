"""What machine this is: facts that decide how fast a kernel runs, and a short key made of them.

Found with the standard library only. Two rented machines of one type have the same key, so the
key leaves out what does not make them differ in speed: host name, kernel release, exact memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from backends import host_caches, host_threads

KEY_FIELDS = ("cpu", "arch", "cores", "caches", "isa", "system", "gpu")
"""The fields of Machine that enter its key."""

ISA_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_bf16", "amx_int8", "amx_tile",
    "asimd", "asimdhp", "asimddp", "sve", "sve2", "i8mm", "bf16",
)  # fmt: skip
"""The processor flags worth recording, as /proc/cpuinfo spells them."""


@dataclass(frozen=True)
class Machine:
    """Facts about one machine.

    cpu      model name as the operating system tells it
    arch     x86_64, aarch64, ...
    cores    logical processors this process may use
    caches   "L1d" -> bytes, likewise "L2" and "L3"
    isa      vector instruction sets, a subset of ISA_FLAGS
    ram_gib  memory in GiB, rounded
    system   Linux, Darwin, Windows
    release  kernel release
    gpu      name of the GPU, for records of a GPU target
    """

    cpu: str
    arch: str
    cores: int
    caches: Mapping[str, int]
    isa: tuple[str, ...]
    ram_gib: int
    system: str
    release: str
    gpu: str | None = None

    @property
    def key(self) -> str:
        """A short key, readable at its head: equal for machines of one kind."""
        facts = {name: value for name, value in self.to_json().items() if name in KEY_FIELDS}
        text = json.dumps(facts, sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"{self.arch}-{self.cores}t-{digest}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "caches": dict(self.caches), "isa": list(self.isa)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Machine:
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**{**known, "isa": tuple(known.get("isa", ()))})


@cache
def this_machine(gpu: str | None = None) -> Machine:
    """The machine this process runs on."""
    info = _cpuinfo()
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return Machine(
        cpu=_cpu_name(info),
        arch=platform.machine(),
        cores=host_threads(),
        caches=host_caches(),
        isa=tuple(flag for flag in ISA_FLAGS if flag in flags),
        ram_gib=_ram_gib(),
        system=platform.system(),
        release=platform.release(),
        gpu=gpu,
    )


def _cpuinfo() -> dict[str, str]:
    """The lines of the first processor in /proc/cpuinfo; empty where there is no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _cpu_name(info: Mapping[str, str]) -> str:
    name = info.get("model name") or platform.processor()
    if not name and "CPU part" in info:
        name = f"implementer {info.get('CPU implementer')} part {info['CPU part']}"
    return re.sub(r"\s+", " ", name or "unknown")


def _ram_gib() -> int:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3)
    except (ValueError, OSError, AttributeError):
        return 0
