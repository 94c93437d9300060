"""Under which conditions a time was taken: what decides it besides program, target and machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from backends import compiler_info, host_threads
from tensorir import Target, TensorIRError

WARM, COLD = "warm", "cold"


@dataclass(frozen=True)
class Conditions:
    """None is what is not known, as of records of earlier versions: it equals nothing.

    sizes     the numbers that symbolic sizes had; empty where there are none
    threads   threads of parallel loops
    compiler  name and version, as the compiler tells them; `flags` what it was called with
    caches    "warm": each call finds in the caches what the one before left there; "cold": nothing
    """

    sizes: Mapping[str, int] | None = None
    threads: int | None = None
    compiler: str | None = None
    flags: str | None = None
    caches: str | None = None

    @classmethod
    def here(
        cls,
        target: Target | str,
        sizes: Mapping[str, int] | None = None,
        threads: int | None = None,
        cold: bool = False,
    ) -> Conditions:
        """Those of a kernel for `target` that is measured here and now.

        `threads` is what the settings ask for; options of the target go before it, and without
        either OMP_NUM_THREADS counts, or else all processors. Where there is no compiler for the
        target, the compiler is not known.
        """
        found: dict[str, Any] = {"sizes": dict(sizes or {}), "caches": COLD if cold else WARM}
        try:
            parsed = Target.parse(target)
            found["threads"] = parsed.threads or threads or _runtime_threads()
            compiler = _compiler(compiler_info(parsed))
            if compiler["flags"] is None and compiler["compiler"] is not None:
                compiler["flags"] = ""  # those for GPUs tell of none, and all of them are known
            found.update(compiler)
        except TensorIRError:
            pass
        return cls(**found)

    @classmethod
    def of_schema_1(cls, data: Mapping[str, Any]) -> Conditions:
        """What the first format of records (as JSON) tells."""
        shapes = [shape for _, shape, _ in data["workload"]["shapes"]]
        symbolic = any(isinstance(size, str) for shape in shapes for size in shape)
        threads = data.get("settings", {}).get("threads")
        try:
            threads = Target.parse(data["target"]).threads or threads
        except TensorIRError:
            pass
        return cls(
            sizes=None if symbolic else {},
            threads=threads if isinstance(threads, int) else None,
            caches=WARM,
            **_compiler(data.get("toolchain", {}).get("compiler", {})),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Conditions:
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _compiler(info: Any) -> dict[str, str | None]:
    """The compiler's part of conditions, of what `backends.compiler_info` gives."""
    if not isinstance(info, Mapping) or not isinstance(info.get("version"), str):
        return {"compiler": None, "flags": None}
    flags = info.get("flags")
    text = " ".join(map(str, flags)) if isinstance(flags, (list, tuple)) else None
    return {"compiler": info["version"], "flags": text}


def _runtime_threads() -> int:
    """Threads that OpenMP starts where nobody asks for a number."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else host_threads()
