"""The C compiler of this machine: finding it, asking it, running it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from backends.errors import BuildError, BuildTimeout

CANDIDATES = ("gcc", "clang", "cc")

FLAGS = (
    "-O2",
    "-std=gnu11",
    "-fPIC",
    "-fwrapv",  # integers wrap, as in NumPy
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Werror=implicit-function-declaration",
    "-Wno-psabi",  # vectors wider than the processor's are passed to static helpers only
)
"""No -ffast-math: results keep IEEE meaning (contraction of a * b + c into one step is allowed)."""

GCC_ARM_FLAGS = ("-fno-schedule-insns",)
"""Before it allocates registers, gcc 12 moves loads up so far that sums in registers are spilled;
for x86 it does not by default."""

DEFAULT_TIMEOUT = 120.0


@dataclass(frozen=True)
class Compiler:
    """A compiler command and what `--version` says, which tells compilers apart."""

    command: tuple[str, ...]
    identity: str

    @property
    def version(self) -> str:
        """The first line of `--version`."""
        return self.identity.splitlines()[0] if self.identity else "unknown"

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


def find_compiler() -> Compiler:
    """The compiler in CC (which may hold arguments), else gcc, else clang, else cc.

    Raises BuildError where there is none.
    """
    chosen = shlex.split(os.environ.get("CC", ""))
    if chosen and shutil.which(chosen[0]) is None:
        raise BuildError(
            f"CC is {' '.join(chosen)!r}, and there is no such command; correct or unset CC"
        )
    names = (tuple(chosen),) if chosen else tuple((name,) for name in CANDIDATES)
    for command in names:
        if shutil.which(command[0]) is not None:
            return named_compiler(command)
    raise BuildError(
        "no C compiler found: install gcc or clang (Debian/Ubuntu: apt install gcc; "
        "Fedora: dnf install gcc; macOS: xcode-select --install), or name one in CC"
    )


@cache
def named_compiler(command: tuple[str, ...]) -> Compiler:
    """The compiler of that command, which has to exist."""
    done = _run((*command, "--version"), "", DEFAULT_TIMEOUT)
    return Compiler(command, done.stdout.strip())


@cache
def macros(compiler: Compiler, march: str | None) -> frozenset[str]:
    """The names that the compiler defines for processor `march`, such as __AVX2__.

    None stands for the compiler's own default.

    Raises BuildError where the compiler does not know the processor.
    """
    command = (*compiler.command, *_march(march), "-dM", "-E", "-x", "c", "-")
    done = _run(command, "", DEFAULT_TIMEOUT)
    if done.returncode:
        message = f"{compiler.name} does not know the processor -march={march}"
        raise BuildError(message, command, done.stderr)
    return frozenset(line.split()[1] for line in done.stdout.splitlines())


@cache
def has_openmp(compiler: Compiler) -> bool:
    """Whether programs can be compiled and linked with -fopenmp; warns once where they cannot."""
    source = "int omp_get_max_threads(void);\nint f(void) { return omp_get_max_threads(); }\n"
    with tempfile.TemporaryDirectory() as folder:
        command = (*compiler.command, "-fopenmp", "-fPIC", "-shared", "-x", "c", "-")
        done = _run((*command, "-o", str(Path(folder, "probe.so"))), source, DEFAULT_TIMEOUT)
    if done.returncode:
        warnings.warn(
            f"{' '.join(compiler.command)} has no OpenMP (-fopenmp fails): parallel loops run on "
            "one thread; install libomp or use gcc",
            stacklevel=2,
        )
    return done.returncode == 0


def compile_flags(compiler: Compiler, march: str | None, openmp: bool) -> tuple[str, ...]:
    """The flags of everything compiled for `march`."""
    known = macros(compiler, march) if march else ()  # the runtime is fast without flags of its own
    gcc_for_arm = "__aarch64__" in known and "__clang__" not in known
    own = GCC_ARM_FLAGS if gcc_for_arm else ()
    return (*FLAGS, *own, *_march(march), *(("-fopenmp",) if openmp else ()))


def _march(march: str | None) -> tuple[str, ...]:
    return () if march is None else (f"-march={march}",)


def compile_shared(
    compiler: Compiler,
    source: str,
    path: Path,
    flags: tuple[str, ...],
    name: str,
    timeout: float = DEFAULT_TIMEOUT,
) -> None:
    """Compile C text to a shared object at `path`; BuildError says what the compiler said."""
    # The assembler reads what the compiler writes meanwhile, and no file lies between.
    tail: tuple[str, ...] = ("-pipe", "-shared", "-o", str(path), "-x", "c", "-", "-lm")
    if os.uname().sysname == "Darwin":  # symbols of Python are found when the object is loaded
        tail = ("-undefined", "dynamic_lookup", *tail)
    _compile(compiler, (*compiler.command, *flags, *tail), source, name, timeout)


def assembly(
    compiler: Compiler,
    source: str,
    flags: tuple[str, ...],
    name: str,
    timeout: float = DEFAULT_TIMEOUT,
) -> str:
    """The assembly text that the compiler makes of `source`. Raises BuildError."""
    command = (*compiler.command, *flags, "-S", "-o", "-", "-x", "c", "-")
    return _compile(compiler, command, source, name, timeout)


def _compile(
    compiler: Compiler, command: tuple[str, ...], source: str, name: str, timeout: float
) -> str:
    try:
        done = _run(command, source, timeout)
    except subprocess.TimeoutExpired:
        message = f"{name}: {compiler.name} took longer than {timeout:g} s; raise timeout= or "
        message += "unroll less"
        raise BuildTimeout(message, command, "", source) from None
    if done.returncode:
        message = f"{name}: {compiler.name} could not compile the kernel"
        raise BuildError(message, command, done.stderr, source)
    return done.stdout


def _run(command: tuple[str, ...], source: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run in a process group of its own: a driver that is killed leaves its children running."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(source, timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
