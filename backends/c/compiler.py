"""The C compiler of this machine: finding it, asking it, running it.

A processor that a compiler does not know is told from a compiler, a disk or a machine that fails:
each is an error class of `backends/errors.py`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from backends.commands import describe_status, run_command
from backends.errors import BuildError, BuildMemoryError, BuildPlaceError, BuildTimeout

CANDIDATES = {"CC": ("gcc", "clang", "cc"), "CXX": ("g++", "clang++", "c++")}
"""By the environment variable that names another one."""

DEFAULT_TIMEOUT = 120.0
PROBE_SECONDS = 30.0
"""How long a compiler may take to say who it is, or to compile one line."""

NO_MEMORY = re.compile(
    "out of memory|memory exhausted|cannot allocate memory|bad_alloc|MemoryError|"
    "Killed signal terminated",
    re.IGNORECASE,
)
NO_PLACE = re.compile(
    "no space left on device|quota exceeded|file too large|file size limit exceeded|"
    "read-only file system|cannot create temporary file|input/output error",
    re.IGNORECASE,
)
"""What compilers, assemblers and linkers say when the machine is at fault, and no kernel."""

_hanging: set[tuple[str, ...]] = set()
"""Compilers that gave no answer; they are not waited for again."""


@dataclass(frozen=True)
class Compiler:
    """A compiler command and what `--version` says, which tells compilers apart."""

    command: tuple[str, ...]
    identity: str
    variable: str = "CC"
    """The environment variable that names another one."""

    @property
    def version(self) -> str:
        """The first line of `--version`."""
        return self.identity.splitlines()[0] if self.identity else "unknown"

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


class UnknownProcessor(BuildError):
    """A compiler that works does not know the processor that -march names."""


def find_compiler() -> Compiler:
    """The compiler in CC (which may hold arguments), else gcc, else clang, else cc.

    Raises BuildError where there is none, or where CC names none.
    """
    return _find(
        "CC",
        "no C compiler found: install gcc or clang (Debian/Ubuntu: apt install gcc; "
        "Fedora: dnf install gcc; macOS: xcode-select --install), or name one in CC",
    )


def find_cxx_compiler() -> Compiler:
    """The C++ compiler in CXX (which may hold arguments), else g++, else clang++, else c++.

    Raises BuildError where there is none, or where CXX names none.
    """
    return _find(
        "CXX",
        "no C++ compiler found, which the emulator of GPUs needs: install g++ or clang++ "
        "(Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select "
        "--install), or name one in CXX",
    )


def _find(variable: str, none_found: str) -> Compiler:
    found = _found(variable, os.environ.get(variable, ""), os.environ.get("PATH"), none_found)
    return named_compiler(*found)


@cache
def _found(
    variable: str, text: str, path: str | None, none_found: str
) -> tuple[tuple[str, ...], str, str]:
    """The command that `text` names, or the first one in the folders of `path`, as named_compiler
    takes it. Each build asks several times, and looking through the folders was an eighth of
    loading a kernel; one that went away since is missed where it is run."""
    try:
        chosen = shlex.split(text)
    except ValueError as error:
        reason = str(error).lower()
        raise BuildError(
            f"{variable} is {text!r}, which is no command ({reason}); correct or unset {variable}"
        ) from None
    if chosen and shutil.which(chosen[0], path=path) is None:
        raise BuildError(
            f"{variable} is {' '.join(chosen)!r}, and there is no such command; correct or unset "
            f"{variable}"
        )
    names = (tuple(chosen),) if chosen else tuple((name,) for name in CANDIDATES[variable])
    for command in names:
        place = shutil.which(command[0], path=path)
        if place is not None:
            return command, variable, place
    raise BuildError(none_found)


def named_compiler(command: tuple[str, ...], variable: str = "CC", place: str = "") -> Compiler:
    """The compiler of that command, which is asked again where its file, at `place`, is another one
    now: what an updated one compiles would be kept under the name of the old one. Raises BuildError
    for one that does not say who it is."""
    with suppress(OSError):  # it went away, or no place is told
        file = os.stat(place)
        _files[command, variable] = file.st_ino, file.st_mtime_ns, file.st_size
    return _identified(command, variable, _files.get((command, variable)))


_files: dict[tuple[tuple[str, ...], str], tuple[int, int, int]] = {}
"""What tells the file of each command from one that takes its place."""


@cache
def _identified(
    command: tuple[str, ...], variable: str, file: tuple[int, int, int] | None
) -> Compiler:
    compiler = Compiler(command, "", variable)
    done = _probe(compiler, ("--version",))
    if done.returncode:
        raise _useless(compiler, "--version", done)
    return replace(compiler, identity=done.stdout.strip())


def macros(compiler: Compiler, march: str | None) -> frozenset[str]:
    """The names that the compiler defines for processor `march`, such as __AVX2__.

    None stands for the compiler's own default.

    Raises UnknownProcessor where the compiler works, and does not know the processor; BuildError
    where it does not work.
    """
    found = _macros(compiler, march)
    if isinstance(found, frozenset):
        return found
    message = f"{compiler.name} does not know the processor -march={march}"
    raise UnknownProcessor(message, tuple(map(str, found.args)), found.stderr)


def knows(compiler: Compiler, march: str) -> bool:
    """Whether a compiler makes code for -march. Raises BuildError for one that does not work."""
    try:
        macros(compiler, march)
    except UnknownProcessor:
        return False
    return True


@cache
def _macros(
    compiler: Compiler, march: str | None
) -> frozenset[str] | subprocess.CompletedProcess[str]:
    """The macros, or what a compiler says that has some only without -march."""
    options = (*march_option(march), "-dM", "-E", "-x", "c", "-")
    for _ in range(2):  # what one failure says would be kept for good
        done = _probe(compiler, options)
        if not done.returncode:
            break
        _raise_cause(compiler.name, done, "one line of C")
    if done.returncode:
        if march is None:
            raise _useless(compiler, "-dM -E -x c -", done)
        macros(compiler, None)
        return done
    lines = [line.split() for line in done.stdout.splitlines()]
    found = frozenset(words[1] for words in lines if len(words) > 1 and words[0] == "#define")
    if not found:
        raise BuildError(
            f"{shlex.join(compiler.command)} is no C compiler that can be used: asked for its "
            f"macros (-dM -E), it prints none; correct or unset {compiler.variable}",
            tuple(map(str, done.args)),
            done.stdout[:1000],
        )
    return found


@cache
def has_openmp(compiler: Compiler) -> bool:
    """Whether programs can be compiled and linked with -fopenmp; warns once where they cannot.

    Raises BuildError where they cannot without it either.
    """
    with_openmp = "int omp_get_max_threads(void);\nint f(void) { return omp_get_max_threads(); }\n"
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "probe.so")
            tail = ("-fPIC", "-shared", "-o", str(path), "-x", "c", "-")
            for _ in range(2):  # what one failure says would be kept for good
                try:
                    _compile(compiler, ("-fopenmp", *tail), with_openmp, "openmp", PROBE_SECONDS)
                    return True
                except (BuildTimeout, BuildMemoryError, BuildPlaceError):
                    raise
                except BuildError:  # a compiler that fails at this too lacks more than OpenMP
                    _compile(compiler, tail, "int f(void) { return 0; }\n", "probe", PROBE_SECONDS)
    except OSError as error:
        raise BuildPlaceError(
            f"no temporary folder can be written ({error.strerror or error}); make room, or name "
            "another one in TMPDIR"
        ) from error
    warnings.warn(
        f"{' '.join(compiler.command)} has no OpenMP (-fopenmp fails): parallel loops run on "
        "one thread; install libomp or use gcc",
        stacklevel=2,
    )
    return False


def march_option(march: str | None) -> tuple[str, ...]:
    """What names a processor to a compiler; nothing for the compiler's own default."""
    return () if march is None else (f"-march={march}",)


SHARED = ("-shared", *(() if os.uname().sysname == "Darwin" else ("-Wl,-Bsymbolic",)))
"""What calls a function of the object means that one, whatever functions of its name the process
has: those of Python, of BLAS, of other kernels."""

LIBRARIES = ("-lm",)
"""The options by which what is compiled is linked with what it calls, unless others are given."""


def compile_shared(
    compiler: Compiler,
    source: str,
    path: Path,
    flags: tuple[str, ...],
    name: str,
    timeout: float = DEFAULT_TIMEOUT,
    objects: tuple[Path, ...] = (),
    libraries: tuple[str, ...] = LIBRARIES,
) -> None:
    """Compile C text to a shared object at `path`; BuildError says what the compiler said."""
    link = (*SHARED, "-x", "none", *map(str, objects)) if objects else SHARED
    compile_object(
        compiler, source, path, flags, name, timeout, link=link, libraries=libraries
    )


def compile_part(
    compiler: Compiler, source: str, path: Path, flags: tuple[str, ...], name: str
) -> None:
    """Compile C text to an object that shared ones are linked with; raises BuildError."""
    compile_object(compiler, source, path, flags, name, link=("-c",))


def compile_object(
    compiler: Compiler,
    source: str,
    path: Path,
    flags: tuple[str, ...],
    name: str,
    timeout: float = DEFAULT_TIMEOUT,
    *,
    language: str = "c",
    link: tuple[str, ...] = SHARED,
    libraries: tuple[str, ...] = LIBRARIES,
) -> None:
    """Compile and link a text to `path`; BuildError says what the compiler said.

    language   as the compiler calls it: "c++" for a C++ compiler
    link       what makes a shared object of it, with others; or the options of a program
    libraries  options in place of LIBRARIES
    """
    # The assembler reads what the compiler writes meanwhile, and no file lies between.
    tail: tuple[str, ...] = (
        "-pipe", *link, "-o", str(path), "-x", language, "-", *libraries,
    )  # fmt: skip
    if os.uname().sysname == "Darwin":  # symbols of Python are found when the object is loaded
        tail = ("-undefined", "dynamic_lookup", *tail)
    _compile(compiler, (*flags, *tail), source, name, timeout)
    if not path.exists() or not path.stat().st_size:
        raise BuildError(
            f"{name}: {shlex.join(compiler.command)} ended without an error and wrote no object; "
            f"correct or unset {compiler.variable}"
        )


def assembly(
    compiler: Compiler,
    source: str,
    flags: tuple[str, ...],
    name: str,
    timeout: float = DEFAULT_TIMEOUT,
) -> str:
    """The assembly text that the compiler makes of `source`. Raises BuildError."""
    return _compile(compiler, (*flags, "-S", "-o", "-", "-x", "c", "-"), source, name, timeout)


def _compile(
    compiler: Compiler, options: tuple[str, ...], source: str, name: str, timeout: float
) -> str:
    """What the compiler prints. Raises BuildError, with the class of what is at fault."""
    command = (*compiler.command, *options)
    try:
        done = run_command(command, source, timeout)
    except subprocess.TimeoutExpired:
        message = f"{name}: {compiler.name} took longer than {timeout:g} s; raise timeout= or "
        message += "unroll less"
        raise BuildTimeout(message, command, "", source) from None
    if done.returncode:
        _raise_cause(compiler.name, done, name, source)
        message = f"{name}: {compiler.name} could not compile the kernel"
        if not done.stderr.strip() or done.returncode < 0:
            message += f": it {describe_status(done.returncode)}"
            if not done.stderr.strip():
                message += f" and said nothing; see whether {compiler.variable} is right"
        raise BuildError(message, command, done.stderr, source)
    return done.stdout


def _raise_cause(
    compiler: str, done: subprocess.CompletedProcess[str], name: str, source: str = ""
) -> None:
    """Raise the BuildError for a compiler that failed because the machine has no room for it."""
    command = tuple(map(str, done.args))
    place = NO_PLACE.search(done.stderr)
    if place is not None:
        temporary = os.environ.get("TMPDIR") or "/tmp"
        raise BuildPlaceError(
            f"{name}: {compiler} could not write its files ({place[0].lower()}); make room or name "
            f"other folders: for temporary files in TMPDIR, now {temporary}, and for objects in "
            "TENSORIR_CACHE", command, done.stderr, source,
        )  # fmt: skip
    if NO_MEMORY.search(done.stderr):
        raise BuildMemoryError(
            f"{name}: {compiler} ran out of memory; unroll less, or give it more",
            command, done.stderr, source,
        )  # fmt: skip


def _probe(compiler: Compiler, options: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Ask a compiler something that needs no time."""
    command = compiler.command
    if command not in _hanging:
        try:
            return run_command((*command, *options), "", PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            _hanging.add(command)
    raise BuildTimeout(
        f"{shlex.join(command)} hangs: it gave no answer to {' '.join(options)} for "
        f"{PROBE_SECONDS:g} s; correct or unset {compiler.variable}, and start again",
        (*command, *options),
    )


def _useless(
    compiler: Compiler, question: str, done: subprocess.CompletedProcess[str]
) -> BuildError:
    said = done.stderr.strip() or done.stdout.strip()
    return BuildError(
        f"{shlex.join(compiler.command)} does not work: asked with {question}, it "
        f"{describe_status(done.returncode)}{'' if said else ' and said nothing'}; correct or "
        f"unset {compiler.variable}, or reinstall the compiler",
        tuple(map(str, done.args)),
        said,
    )
