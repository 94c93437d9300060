"""Whether everything that tuning needs is here, and what to do about what is not.

Nothing of the project is imported before a check asks for it, so that this file also runs alone
(`python autotune/doctor.py`) where the packages cannot even be imported.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PYTHON = (3, 10)
OWN = ("tensorir", "schedule", "backends", "autotune")
DEFAULT_DATABASE = "tuning_logs/tuning.db"

PACKAGES = (
    ("numpy", "numpy", "fail", "nothing works without it"),
    ("platformdirs", "platformdirs", "fail", "it finds the cache folder"),
    ("xgboost", "xgboost-cpu", "ok", "only `cost_model=\"xgboost\"` needs it"),
    ("sklearn", "scikit-learn", "warn", "the demo and `cost_model=\"sklearn\"` need it"),
    ("rich", "rich", "warn", "progress and tables are plain text"),
    ("matplotlib", "matplotlib", "ok", "only `report --plot` needs it"),
)
"""Import name, distribution, level of its absence, and what is different without it."""

FOR_A_GPU = ("cupy", "nvrtc", "headers", "gpu")
"""What a machine with an NVIDIA GPU ought to have; the rest is for those who ask for it."""


@dataclass(frozen=True)
class Check:
    """What one check found: `level` is "ok", "warn" or "fail"; `remedy` says what to do."""

    name: str
    level: str
    text: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def examine(database: str = DEFAULT_DATABASE, calibrate: bool = False) -> Iterator[Check]:
    """All checks, in order. A check that breaks is a failure, and the next one runs.

    calibrate  measure the peaks and the costs of this machine anew, in about ten seconds
    """
    yield python()
    own = packages_of_the_project()
    yield own
    yield from other_packages()
    if own.level == "fail":
        return
    compiles = _tried("compiler", compiler)
    yield compiles
    if compiles.level != "fail":
        yield _tried("openmp", kernel)
        yield _tried("peaks", lambda: peaks(calibrate))
        yield _tried("costs", lambda: costs(calibrate))
        yield _tried("cross", cross_compiler)
    yield _tried("cpu", processor)
    yield _tried("load", load)
    yield from gpus()
    yield _tried("cache", cache)
    yield _tried("database", lambda: tuning_database(database))


def _tried(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {error}")


def python() -> Check:
    """The interpreter, and whether it is in a virtual environment."""
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < PYTHON:
        return Check("python", "fail", text, "use Python 3.10 or newer")
    if sys.prefix == sys.base_prefix:
        remedy = "use a virtual environment: PyPI has an unrelated package named schedule"
        return Check("python", "warn", f"{text}, not in a virtual environment", remedy)
    return Check("python", "ok", text)


def packages_of_the_project() -> Check:
    """Whether the four packages are ours, and come from one place."""
    places: dict[str, Path] = {}
    for name in OWN:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            broken = find_spec(name)
            where = f" ({broken.origin})" if broken is not None and broken.origin else ""
            remedy = "pip install -e . in the project's folder, in a virtual environment of its own"
            return Check("packages", "fail", f"cannot import {name}{where}: {error}", remedy)
        places[name] = Path(module.__file__ or "").parent
        if name == "schedule" and not hasattr(module, "Schedule"):
            return Check(
                "packages", "fail",
                f"schedule is the unrelated job scheduler of PyPI, from {places[name]}",
                "pip uninstall schedule, or use a virtual environment without it",
            )  # fmt: skip
    parents = sorted({str(place.parent) for place in places.values()})
    if len(parents) > 1:
        found = ", ".join(f"{name} from {place.parent}" for name, place in places.items())
        return Check("packages", "warn", found, "remove all copies of the project but one")
    return Check("packages", "ok", f"{', '.join(OWN)} from {parents[0]}")


def other_packages() -> Iterator[Check]:
    """The packages that are used, with their versions."""
    for module, distribution, level, without in PACKAGES:
        if find_spec(module) is None:
            remedy = "" if level == "ok" else f"pip install {distribution}"
            yield Check(module, level, f"not installed: {without}", remedy)
        else:
            yield Check(module, "ok", _version(module, distribution))


def _version(module: str, distribution: str) -> str:
    for name in (distribution, module):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "installed"


def compiler() -> Check:
    """The C compiler, and its flags."""
    from backends import BuildError, compiler_info

    try:
        info = compiler_info("c")
    except BuildError as error:
        return Check("compiler", "fail", error.message, "install gcc or clang, or set CC")
    path = shutil.which(info["command"][0])
    return Check("compiler", "ok", f"{path}: {info['version']}, {' '.join(info['flags'])}")


def cross_compiler() -> Check:
    """The compiler for processors of the other common kind."""
    from backends import BuildError, compiler_info

    other = "x86-64" if platform.machine() in ("aarch64", "arm64") else "armv8-a"
    try:
        info = compiler_info(f"c -march={other}")
    except BuildError:
        return Check("cross", "ok", f"no compiler for -march={other}; only other machines need it")
    return Check("cross", "ok", f"-march={other}: {info['command'][0]}, {info['version']}")


KERNEL = """\
#ifdef _OPENMP
#include <omp.h>
#endif
int doctor(const float *restrict data, float *restrict out) {
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 4096; i++) {
        out[i] = 1;
#ifdef _OPENMP
        out[i] = omp_get_num_threads();
#endif
    }
    return 0;
}
void doctor_release(void) {}
"""


def kernel() -> Check:
    """Compiles and runs a kernel with a parallel loop, past the cache."""
    import numpy as np

    from backends import BuildError, ObjectCache, build_source, host_share
    from tensorir import te

    data = te.placeholder((4096,), "float32", name="data")
    out = te.compute((4096,), lambda i: data[i], name="out")
    func = te.create_prim_func([data, out], name="doctor")
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = build_source(func, KERNEL, cache=ObjectCache(folder))(np.zeros(4096, "f4"))
    except BuildError as error:
        return Check("openmp", "fail", str(error), "reinstall the compiler, or set CC")
    except OSError as error:
        return Check("openmp", "fail", str(error), "name a folder you can write to in TMPDIR")
    threads, cores = int(result[0]), _cores()
    text = f"a kernel was compiled and ran on {threads} of {cores} processors"
    share = host_share() or threads
    if share < threads:
        remedy = f"set OMP_NUM_THREADS={max(1, int(share))}: more threads stop each other"
        return Check("openmp", "warn", f"{text}, with the time of {share:g}", remedy)
    if threads >= cores:
        return Check("openmp", "ok", text)
    remedy = "install libomp, or use gcc"
    if "OMP_NUM_THREADS" in os.environ:
        remedy = f"unset OMP_NUM_THREADS, which is {os.environ['OMP_NUM_THREADS']!r}"
    return Check("openmp", "warn", text, remedy)


def _cores() -> int:
    from autotune.machine.machine import this_machine

    return this_machine().cores


def processor() -> Check:
    """What decides the speed of kernels."""
    from autotune.machine.machine import this_machine
    from backends import have_compiler, resolve

    machine = this_machine()
    parts = [machine.cpu, f"{machine.cores} processors"]
    if have_compiler("c"):
        target = resolve("c")
        parts.append(f"{target.vector_bits}-bit vectors ({' '.join(target.features)})")
    parts += [f"{name} {size >> 10} KiB" for name, size in machine.caches.items()]
    return Check("cpu", "ok", ", ".join([*parts, f"{machine.ram_gib} GiB", f"key {machine.key}"]))


def load() -> Check:
    """Whether other programs disturb measurements."""
    if not hasattr(os, "getloadavg"):
        return Check("load", "ok", "not known on this system")
    load, cores = os.getloadavg()[0], _cores()
    text = f"{load:.1f} programs want {cores} processors"
    if load > max(1.0, cores / 2):
        return Check("load", "warn", text, "measure when nothing else runs")
    return Check("load", "ok", text)


def gpus() -> Iterator[Check]:
    """What GPU targets need. Where there is no GPU, nothing of it has to be here."""
    from backends import gpu_software

    wanted = bool(shutil.which("nvidia-smi")) or Path("/dev/nvidiactl").exists()
    try:
        for each in gpu_software():
            level = "warn" if each.remedy and wanted and each.name in FOR_A_GPU else "ok"
            yield Check(each.name, level, each.text, each.remedy)
    except Exception as error:
        yield Check("gpu", "fail", f"{type(error).__name__}: {error}")


def cache() -> Check:
    """The folder of compiled objects."""
    from backends import default_cache

    store = default_cache()
    folder = store.directory
    sizes = [path.stat().st_size for path in folder.glob("??/*.so")]
    text = f"{folder}: {len(sizes)} objects, {sum(sizes) / 1e6:.1f} MB"
    chosen = os.environ.get("TENSORIR_CACHE")
    if store.place != folder:
        remedy = f"make {chosen or 'the cache folder'} writable, or name another in TENSORIR_CACHE"
        return Check("cache", "warn", f"{text}; it cannot be written", remedy)
    return Check("cache", "ok", text)


def tuning_database(path: str) -> Check:
    """Whether records can be stored in the database at `path`. It is not created."""
    from autotune.database.database import Database
    from autotune.errors import DatabaseError

    file = Path(path)
    if not file.exists():
        return _place_of(file)
    try:
        with Database(file) as db:
            stats = db.stats()
    except DatabaseError as error:
        return Check("database", "fail", str(error), "name another with --database")
    text = f"{path}: {stats['records']} records of {stats['workloads']} workloads"
    if not os.access(file, os.W_OK):
        return Check("database", "warn", f"{text}, read-only", f"chmod u+w {path}")
    return Check("database", "ok", text)


def _place_of(file: Path) -> Check:
    folder = file.parent
    while not folder.exists():
        folder = folder.parent
    if folder.is_dir() and os.access(folder, os.W_OK):
        return Check("database", "ok", f"{file} does not exist yet; the first run makes it")
    remedy = "name one in a folder you can write to with --database"
    return Check("database", "warn", f"{file} cannot be made in {folder}", remedy)


def peaks(calibrate: bool) -> Check:
    """The best rates of this machine, which results are compared with."""
    from autotune.calibration.peak import known_peaks, memory_gbps, peak_gflops

    if calibrate:
        for threads in sorted({1, _cores()}):
            peak_gflops(threads, calibrate=True)
        memory_gbps(calibrate=True)
    known = known_peaks()
    if not known:
        return Check("peaks", "ok", "not measured yet; the first run does, or --calibrate")
    return Check("peaks", "ok", "; ".join(describe_peak(what, rate) for what, rate in known))


def costs(calibrate: bool) -> Check:
    """What the steps of this processor cost, in cycles, beside what is assumed elsewhere."""
    from autotune.calibration.measure import OTHERS
    from autotune.calibration.stored import calibrate as measure
    from autotune.calibration.stored import known_costs
    from autotune.errors import MeasureError
    from backends import resolve
    from tensorir import usual_costs

    if calibrate:
        try:
            measure()
        except MeasureError as error:
            return Check(
                "costs", "warn", str(error), "tensorir doctor --calibrate, on an idle machine"
            )
    found, word = known_costs()
    if found is None:
        remedy = "tensorir doctor --calibrate" if word else ""
        text = word or "not measured; --calibrate does. The defaults are used"
        return Check("costs", "warn" if word else "ok", text, remedy)
    usual = usual_costs(resolve("c").features)
    parts = [f"{name} {cost:.3g} ({getattr(usual, name):g})" for name, cost in found.costs.items()]
    parts += [f"{name} {value:.3g}" for name, value in found.others.items() if name != OTHERS]
    told = f"cycles, and defaults: {', '.join(parts)}; used where costs=\"measured\" asks for them"
    if OTHERS not in found.others:
        return Check("costs", "ok", told)
    told += f"; {OTHERS} used {found.others[OTHERS]:.0%} of the processors while they were measured"
    return Check("costs", "warn", told, "tensorir doctor --calibrate, on an idle machine")


def describe_peak(what: str, rate: float) -> str:
    """("gflops float32 2", 233.1) -> "float32, 2 threads: 233 GFLOP/s"."""
    kind, *words, threads = what.split()
    subject = words[0] if words else "memory"
    unit = "GFLOP/s" if kind == "gflops" else "GB/s"
    return f"{subject}, {threads} thread{'s' if threads != '1' else ''}: {rate:.0f} {unit}"


def lines(checks: list[Check]) -> Iterator[str]:
    """The checks as text, each with its remedy below it."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.level:4}  {check.name.ljust(width)}  {check.text}"
        if check.remedy:
            yield f"{'':4}  {'':{width}}  -> {check.remedy}"


def main(argv: Any = None) -> int:
    """Print all checks; 1 if something essential is missing."""
    checks = list(examine())
    print("\n".join(lines(checks)))
    return int(any(check.level == "fail" for check in checks))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which is none to import from
    sys.exit(main())
