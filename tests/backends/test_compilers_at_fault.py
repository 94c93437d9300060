"""A compiler or a disk that fails is named, with the remedy; nothing else is blamed for it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from fake_compilers import GCC, failing, script
from test_commands import add_one

from backends import BuildError, ObjectCache, build, build_source, compiler_info, resolve
from backends.c import compiler as cc
from backends.errors import BuildMemoryError, BuildPlaceError

ONES = np.ones(4, np.float32)
FULL = "echo 'ld: final link failed: No space left on device' >&2; exit 1"


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """compiler(pattern, body): CC is gcc, but runs `body` for command lines that fit."""

    def use(pattern: str, body: str) -> str:
        path = failing(tmp_path / "cc", pattern, body)
        monkeypatch.setenv("CC", path)
        return path

    return use


BROKEN = [
    ("*", "exit 1", "cc does not work: asked with --version, it ended with exit status 1 and said"),
    ("*", "echo no licence >&2; exit 7", "exit status 7; correct or unset CC(?s:.*)no licence"),
    ("*", "kill -11 $$", "asked with --version, it died of SIGSEGV and said nothing"),
    ("*-dM*", "exit 1", "asked with -dM -E -x c -, it ended with exit status 1 and said nothing"),
    ("*-dM*", "kill -9 $$", "it died of SIGKILL, as when the system runs out of memory"),
    ("*-dM*", "head -c 1000 /dev/urandom", "no C compiler that can be used: .*prints none"),
    ("*-dM*", "echo; echo '#define'; echo x", "no C compiler that can be used: .*prints none"),
    ("*-shared*", "exit 1", "exit status 1 and said nothing; see whether CC is right"),
    ("*-shared*", "kill -11 $$", "it died of SIGSEGV and said nothing"),
    ("*-shared*", "exit 0", "cc ended without an error and wrote no object; correct or unset CC"),
    ("*-march=native*", "echo bad value >&2; exit 1", "does not know the processor -march=native"),
]


@pytest.mark.parametrize(("pattern", "body", "message"), BROKEN)
def test_a_compiler_that_does_not_work_is_named(compiler, tmp_path, pattern, body, message):
    compiler(pattern, body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # OpenMP above all
        with pytest.raises(BuildError, match=message) as caught:
            build(add_one(), cache=ObjectCache(tmp_path / "cache"))
    if "-march=native" not in message:
        assert "-march" not in caught.value.message and "OpenMP" not in str(caught.value)


@pytest.mark.parametrize("words", ["gcc 'x", 'gcc "', "gcc \\"])
def test_a_quote_in_cc_that_does_not_close(monkeypatch, words):
    monkeypatch.setenv("CC", words)
    for ask in (resolve, compiler_info):
        with pytest.raises(BuildError, match=r"CC is .*, which is no command \(no .*correct or un"):
            ask("c")


def test_a_file_that_is_no_program(monkeypatch, tmp_path):
    path = tmp_path / "cc"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(BuildError, match="cannot run .*cc --version: Exec format error"):
        resolve("c")


@pytest.mark.parametrize("pattern", ["--version", "*-dM*"])
def test_a_compiler_that_hangs_when_asked_is_asked_once(compiler, monkeypatch, tmp_path, pattern):
    monkeypatch.setattr(cc, "PROBE_SECONDS", 0.3)
    log = tmp_path / "log"
    compiler(pattern, f"echo $$ >> {log}; sleep 60")
    for ask in (resolve, compiler_info):
        with pytest.raises(BuildError, match=r"cc hangs: it gave no answer to .* for 0.3 s; corr"):
            ask("c")
    assert len(log.read_text().split()) == 1


def test_a_named_compiler_that_does_not_work(monkeypatch, tmp_path):
    failing(tmp_path / "mycc", "*-dM*", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BuildError, match="mycc does not work: asked with -dM"):
        resolve("c -cc=mycc -march=haswell")


def test_a_broken_cross_compiler_is_none(monkeypatch, tmp_path):
    script(tmp_path / "aarch64-linux-gnu-gcc", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BuildError, match="does not know the processor -march=armv9; if it is no"):
        resolve("c -march=armv9")


def test_a_passing_failure_is_not_remembered(compiler, tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    compiler("*-dM*", f'[ -e {flag} ] && exit 1; exec {GCC} "$@"')
    with pytest.raises(BuildError, match="does not work"):
        resolve("c")
    flag.unlink()
    assert resolve("c").features


def test_a_compiler_that_is_replaced_is_another_one(monkeypatch, tmp_path):
    """What it compiles is kept apart from what the old one did, and records name it."""
    path = tmp_path / "cc"

    def version(text):
        failing(path, "--version", f"echo {text}; exit 0")
        return cc.find_compiler()

    monkeypatch.setenv("CC", str(path))
    first, second = version("one 1.0"), version("two 2.00")
    assert (first.version, second.version) == ("one 1.0", "two 2.00")
    assert compiler_info("c -march=x86-64")["version"] == "two 2.00"
    path.unlink()
    assert cc.find_compiler() == second  # objects that it made are of use


@pytest.mark.parametrize("pattern", ["*-dM*", "*-shared*"])
def test_a_full_disk_is_named_and_nothing_else(compiler, tmp_path, pattern):
    compiler(pattern, FULL)
    with pytest.raises(BuildPlaceError, match=r"cc could not write its files \(no space") as caught:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            build(add_one(), cache=ObjectCache(tmp_path / "cache"))
    assert "-march" not in caught.value.message
    assert not any("OpenMP" in str(w.message) for w in told)
    assert "TMPDIR" in caught.value.message and "TENSORIR_CACHE" in caught.value.message


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from test_commands import add_one
from backends import BuildError, ObjectCache, build
from backends.errors import BuildPlaceError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    build(add_one(), cache=ObjectCache(sys.argv[2]))
except BuildPlaceError as error:
    print(error.message)
"""


@pytest.mark.parametrize("largest", [512, 8192])
def test_files_that_may_not_grow(tmp_path, largest):
    """The assembler fails at 512 bytes, the linker at 8 KiB, as on a disk that fills up."""
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root}/tests/backends"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", LIMITED, str(Path(__file__).parent),
         str(tmp_path), str(largest)],
        env={**env, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert "could not write its files (file" in done.stdout, done.stderr


def test_memory_that_runs_out_is_named(compiler, tmp_path):
    compiler("*-O2*", "echo 'cc1: out of memory allocating 65536 bytes' >&2; exit 1")
    with pytest.raises(BuildMemoryError, match="add_one: cc ran out of memory; unroll less"):
        build(add_one(), cache=ObjectCache(tmp_path / "cache"))


def test_a_full_cache_is_done_without(compiler, tmp_path):
    place = tmp_path / "cache"
    compiler(f"*{place}*", FULL)
    store = ObjectCache(place)
    with pytest.warns(UserWarning, match=r"the cache folder .* written \(no room") as told:
        kernels = [build(add_one(), name=name, cache=store) for name in ("one", "two")]
    assert all((kernel(ONES) == 2).all() for kernel in kernels)
    assert len(told) == 1 and not list(place.rglob("*.so"))
    assert store.place != place


def test_a_cache_without_room_for_a_name(monkeypatch, tmp_path):
    store = ObjectCache(tmp_path / "cache")
    make = tempfile.mkstemp

    def mkstemp(suffix=None, prefix=None, dir=None, text=False):
        if dir is not None and str(store.directory) in str(dir):
            raise OSError(errno.ENOSPC, "No space left on device")
        return make(suffix, prefix, dir, text)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    with pytest.warns(UserWarning, match=r"cannot be written \(No space left on device\): what is"):
        kernel = build(add_one(), cache=store)
    assert (kernel(ONES) == 2).all()


def test_a_cache_that_only_reads_is_still_read(tmp_path, monkeypatch):
    place = tmp_path / "cache"
    build(add_one(), cache=ObjectCache(place))
    (path,) = [p for p in place.rglob("*.so") if b"add_one" in p.read_bytes()]

    def refuse(*args, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as read_only:
        read_only.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.warns(UserWarning, match=r"cannot be written \(Read-only file system\)"):
            store = ObjectCache(place)
    key = path.name.split(".")[0]
    assert store.find(key) == path
    os.unlink(path)  # not written over: it is mapped
    path.write_bytes(b"damaged")
    monkeypatch.setattr(Path, "unlink", refuse)
    assert store.find(key) is None and store.find(key) is None


def test_no_folder_at_all_is_an_error_that_names_both(tmp_path, monkeypatch):
    (tmp_path / "file").touch()

    def refuse(*args, **options):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(BuildPlaceError, match=r"neither in the cache folder .*cache nor in any"):
        ObjectCache(tmp_path / "file" / "cache")


def test_openmp_is_not_blamed_for_a_missing_temporary_folder(monkeypatch, tmp_path):
    def refuse(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("CC", failing(tmp_path / "cc", "never", "exit 1"))
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(BuildPlaceError, match=r"no temporary folder can be written \(No space"):
        cc.has_openmp(cc.find_compiler())


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        ("*-march=native*-dM*", lambda gcc: cc.knows(gcc, "native")),
        ("*-dM*", lambda gcc: "__GNUC__" in cc.macros(gcc, None)),
        ("*-fopenmp*probe.so*", cc.has_openmp),
    ],
)
def test_what_fails_once_is_not_believed_for_good(compiler, tmp_path, pattern, known):
    """All candidates of a search failed after one probe of their worker's compiler had."""
    seen = tmp_path / "seen"
    compiler(pattern, f'if [ -e {seen} ]; then exec {GCC} "$@"; fi; touch {seen}; exit 1')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert known(cc.find_compiler())
    assert seen.exists()


def test_half_written_objects_of_the_dead_go(tmp_path):
    store = ObjectCache(tmp_path)
    (tmp_path / "ab").mkdir()
    old, new = tmp_path / "ab" / "x.tmp", tmp_path / "ab" / "y.tmp"
    old.touch()
    new.touch()
    os.utime(old, (1000, 1000))
    store.prune()
    assert not old.exists() and new.exists()


def test_text_that_does_not_compile_is_still_its_own_fault(tmp_path):
    assert shutil.which("gcc")
    with pytest.raises(BuildError, match="could not compile the kernel") as caught:
        build_source(add_one(), "int add_one(", cache=ObjectCache(tmp_path))
    assert type(caught.value) is BuildError and caught.value.source
