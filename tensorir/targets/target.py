"""Target: what a program is compiled for, as `c -march=haswell -threads=2`, `cuda -arch=sm_90a`.

Schedules, rules and features ask for properties: lanes, registers, threads, caches.
`backends.resolve` asks the compiler and the machine for them; what is not known, as of another
machine, has the defaults of `Processor`. What the machine was found to have is no part of the text,
which is the key of tuning records; options are. GPUs have no caches of cores, vector registers or
worker threads, and asking for these is an error. Without `-arch`, `cuda` is the device at hand, or
`sm_80` where there is none; the emulator is always `sm_80`, so that its texts are the same on every
machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tensorir import dtype as dt
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from tensorir.targets.architectures import Architecture

OPTIONS: dict[str, tuple[str, ...]] = {
    "c": ("march", "threads", "vector_bits", "l1d", "l2", "l3", "features", "cc"),
    "cuda": ("arch",),
    "cuda-emulator": ("arch", "check", "seed"),
    "opencl": (),
}
"""The kinds of target and the options each understands, in the order they are printed."""

GPUS = ("cuda", "cuda-emulator", "opencl")
"""The kinds whose programs are kernels of blocks and threads."""

WITH_SHUFFLES = ("cuda", "cuda-emulator")
"""The kinds of them whose warps are known: OpenCL does not say which work-items make one."""

CHECKS = ("alignment", "bounds", "counts", "divergence", "lanes", "races", "uninitialised")
"""What the emulator can be asked to look for."""

VECTOR_BITS = (128, 256, 512)

LANE_BITS = 128
"""Vectors of a target that does not know its own: every machine has these. A thread of a GPU reads
and writes at most so many bits at once."""


@dataclass(frozen=True)
class Processor:
    """What is found, not asked for: threads that run at once, and sizes of data caches in bytes.

    The defaults stand for machines that are not at hand.

    l1d, l2   of one core
    l3        of all cores that share it
    """

    threads: int = 4
    l1d: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 16 << 20


@dataclass(frozen=True)
class Target:
    """What a program is compiled for. Equal targets have equal text, and `parse` reads it back.

    Schedules for processors ask `lanes`, `vector_registers`, `thread_count` and `l1d_bytes` to
    `l3_bytes`, those for GPUs `lanes` and `architecture`; the answers are true of a target that
    `backends.resolve` returned. The others are errors where they do not apply.

    march        the processor as the C compiler names it; "native" is the one at hand, and one of
                 another kind, such as "armv8.2-a+dotprod", chooses a cross compiler
    threads      worker threads of parallel loops; None means all that the machine offers
    vector_bits  width of vector registers; None until `backends.resolve` asked the compiler
    l1d, l2, l3  bytes of the data caches, to schedule for others than those of the processor
    arch         CUDA architecture such as "sm_90a"; None means that of the device at hand, and
                 sm_80 where there is none, as for the emulator always
    check        what the emulator looks for, of CHECKS, sorted; empty for nothing but results
    seed         of the order in which the emulator runs threads; None for that of their indices
    features     instruction set extensions of a processor, sorted; empty until resolved. Those of a
                 GPU follow from its architecture
    cc           the compiler's command; None means the one that is found (CC, gcc, clang)
    processor    what `backends.resolve` found of the machine; no part of the text, and equal
                 targets may differ in it, so records made on machines of one kind stay together
    """

    kind: str = "c"
    march: str = "native"
    threads: int | None = None
    vector_bits: int | None = None
    arch: str | None = None
    check: tuple[str, ...] = ()
    seed: int | None = None
    features: tuple[str, ...] = ()
    cc: str | None = None
    l1d: int | None = None
    l2: int | None = None
    l3: int | None = None
    processor: Processor = field(default=Processor(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in OPTIONS:
            raise TensorIRError(f"unknown target kind {self.kind!r}; known are {_names(OPTIONS)}")
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default and name not in OPTIONS[self.kind]:
                raise TensorIRError(_unknown_option(self.kind, name))
            _check_value(name, value)
        for name in _LISTS:
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))

    @classmethod
    def parse(cls, text: TargetLike) -> Target:
        """The target written as `kind -option=value ...`; a Target is returned as it is.

        Raises TensorIRError for an unknown kind or option (naming the known ones), an option
        given twice, and a value that the option cannot take.
        """
        if isinstance(text, Target):
            return text
        if not isinstance(text, str) or not text.strip():
            raise TensorIRError(
                f"{text!r} is not a target; write for example 'c' or 'c -threads=2'"
            )
        kind, *words = text.split()
        if kind not in OPTIONS:
            raise TensorIRError(f"unknown target kind {kind!r}; known are {_names(OPTIONS)}")
        given: dict[str, Any] = {}
        for word in words:
            name, value = _parse_option(kind, word)
            if name in given:
                raise TensorIRError(f"target option -{name} is given twice in {text!r}")
            given[name] = value
        return cls(kind, **given)

    def __str__(self) -> str:
        words = [self.kind]
        for name in OPTIONS[self.kind]:
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                words.append(f"-{name}={','.join(value) if name in _LISTS else value}")
        return " ".join(words)

    @property
    def on_gpu(self) -> bool:
        """Whether programs are kernels of blocks and threads."""
        return self.kind in GPUS

    @property
    def has_shuffles(self) -> bool:
        """Whether lanes of a warp can exchange values without memory."""
        return self.kind in WITH_SHUFFLES

    @property
    def architecture(self) -> Architecture:
        """Limits and rates of the GPU: registers, warps, shared memory, a typical card."""
        if "arch" not in OPTIONS[self.kind]:
            raise TensorIRError(f"target {str(self)!r} has no CUDA architecture; ask a cuda target")
        from tensorir.targets.architectures import DEFAULT_ARCH, find_architecture

        return find_architecture(self.arch or DEFAULT_ARCH)

    @property
    def instructions(self) -> tuple[str, ...]:
        """What tensor intrinsics can need: the features of a processor, the architectures whose
        code a CUDA target runs."""
        return self.architecture.runs if "arch" in OPTIONS[self.kind] else self.features

    def _asked(self, what: str) -> None:
        if self.on_gpu:
            raise TensorIRError(
                f"schedules that ask for {what} are for processors, and target {str(self)!r} is a "
                "GPU: target.architecture has the limits of a CUDA one"
            )

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of `dtype` in a vector register, or in the widest access of a GPU's thread."""
        return (self.vector_bits or LANE_BITS) // dt.bits(dtype)

    @property
    def vector_registers(self) -> int:
        """Registers that vectors of this target can be in.

        32 with AVX-512, in its full width or with AVX512VL in any, and on AArch64; else 16.
        """
        self._asked("vector registers")
        if "arm_neon" in self.features:
            return 16 if self.march.startswith(("armv6", "armv7")) else 32
        return 32 if self.vector_bits == 512 or "avx512vl" in self.features else 16

    @property
    def thread_count(self) -> int:
        """Threads of a parallel loop: those asked for, else all that the machine offers."""
        self._asked("worker threads")
        return self.processor.threads if self.threads is None else self.threads

    @property
    def l1d_bytes(self) -> int:
        """Bytes of the first-level data cache of a core."""
        self._asked("the caches of a core")
        return self.processor.l1d if self.l1d is None else self.l1d

    @property
    def l2_bytes(self) -> int:
        """Bytes of the second-level cache of a core."""
        self._asked("the caches of a core")
        return self.processor.l2 if self.l2 is None else self.l2

    @property
    def l3_bytes(self) -> int:
        """Bytes of the third-level cache that cores share."""
        self._asked("the caches of cores")
        return self.processor.l3 if self.l3 is None else self.l3


TargetLike = Target | str

_DEFAULTS: dict[str, Any] = {
    f.name: f.default for f in fields(Target) if f.compare and f.name != "kind"
}
_COUNTS = ("threads", "l1d", "l2", "l3")
_INTEGERS = ("vector_bits", "seed", *_COUNTS)
_LISTS = ("features", "check")
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.+\-]*"


def _names(known: Any) -> str:
    return ", ".join(map(repr, known))


def _unknown_option(kind: str, name: str) -> str:
    known = ", ".join(f"-{option}" for option in OPTIONS[kind]) or "none"
    return f"target {kind!r} has no option -{name}; it has {known}"


def _parse_option(kind: str, word: str) -> tuple[str, Any]:
    name, equals, text = word.lstrip("-").partition("=")
    if not word.startswith("-") or not equals:
        raise TensorIRError(f"target option {word!r} is not of the form -option=value")
    if name not in OPTIONS[kind]:
        raise TensorIRError(_unknown_option(kind, name))
    if name in _LISTS:
        return name, tuple(filter(None, text.split(",")))
    if name not in _INTEGERS:
        return name, text
    try:
        return name, int(text)
    except ValueError:
        raise TensorIRError(f"target option -{name}={text!r} is not an integer") from None


def _check_value(name: str, value: Any) -> None:
    if name == "vector_bits" and value not in (None, *VECTOR_BITS):
        known = ", ".join(map(str, VECTOR_BITS))
        raise TensorIRError(f"target option -vector_bits={value!r} is not one of {known}")
    if name in _COUNTS and value is not None and (type(value) is not int or value < 1):
        raise TensorIRError(f"target option -{name}={value!r} is not a positive integer")
    if name == "seed" and value is not None and (type(value) is not int or value < 0):
        raise TensorIRError(f"target option -seed={value!r} is not an integer of 0 or more")
    # These words reach a compiler's command line and are split at spaces and commas when read back.
    words = value if name in _LISTS else (value,) if name in ("march", "arch", "cc") else ()
    for word in words:
        if word is not None and not (isinstance(word, str) and re.fullmatch(_WORD, word)):
            raise TensorIRError(f"target option -{name}={word!r} is not a plain word")
        if name == "check" and word not in CHECKS:
            raise TensorIRError(f"target option -check={word!r} is not one of {', '.join(CHECKS)}")
    if name == "arch" and value is not None:
        from tensorir.targets.architectures import find_architecture

        find_architecture(value)
