"""The shape of the project, asserted: who imports whom, how large things get, what is lazy."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from source_tree import (
    PACKAGES,
    ROOT,
    SOURCES,
    Edge,
    circle,
    functions,
    homes_of,
    imports_at_import_time,
    imports_of,
    label,
    run_time_imports,
    tree_of,
)

MAY_IMPORT = {
    "tensorir": {"tensorir"},
    "schedule": {"tensorir", "schedule"},
    "backends": {"tensorir", "backends"},
    "autotune": set(PACKAGES),
}
HEAVY = {"cupy", "cuda", "pyopencl", "xgboost", "sklearn", "matplotlib", "rich", "scipy", "pandas"}
NEEDS_ONLY_NUMPY = "tensorir"

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
LONG_FUNCTIONS: frozenset[str] = frozenset()

FOLDERS_WITH_TEXT = (*PACKAGES, "demo", "tests", "tutorials", "benchmarks", "docs", "tuning_logs")


def test_imports_run_one_way():
    wrong = [
        f"{label(path)}:{line} imports {module}"
        for path in SOURCES
        for module, line in imports_of(path)
        if module.split(".")[0] in PACKAGES
        and module.split(".")[0] not in MAY_IMPORT[label(path).split("/")[0]]
    ]
    assert not wrong


def test_the_packages_need_nothing_of_the_checkout_around_them():
    around = {"demo", "benchmarks", "tests", "docs", "tutorials"}
    assert not [
        f"{label(path)}:{line} imports {module}"
        for path in SOURCES
        for module, line in imports_of(path)
        if module.split(".")[0] in around
    ]


def test_other_packages_are_imported_from_their_roots():
    wrong = [
        f"{label(path)}:{line} imports {module}"
        for path in SOURCES
        for module, line in imports_of(path)
        if "." in module
        and module.split(".")[0] in PACKAGES
        and module.split(".")[0] != label(path).split("/")[0]
    ]
    assert not wrong


def test_tensorir_needs_only_numpy():
    allowed = {*sys.stdlib_module_names, "numpy", "tensorir"}
    wrong = [
        f"{label(path)}:{line} imports {module}"
        for path in SOURCES
        if label(path).startswith(NEEDS_ONLY_NUMPY)
        for module, line in imports_of(path)
        if module.split(".")[0] not in allowed
    ]
    assert not wrong


def test_heavy_packages_are_imported_by_the_function_that_needs_them():
    wrong = [
        f"{label(path)}:{line} imports {module}"
        for path in SOURCES
        for module, line in imports_at_import_time(tree_of(path))
        if module.split(".")[0] in HEAVY
    ]
    assert not wrong


IMPORTS = """
import sys
def count(frame, event, arg):
    global events
    events += 1
def measure():
    return events, len(sys.modules)
events = 0
import numpy
before = measure()
sys.setprofile(count)
import {packages}
packages = measure()
from tensorir import te; from schedule import Schedule; from backends import build
from autotune import Database, default_schedule, tune
names = measure()
sys.setprofile(None)
found = [b - a for after in (packages, names) for a, b in zip(before, after)]
print(*found, *sys.modules)
"""


@dataclass(frozen=True)
class ImportRun:
    """What the imports of the packages take beyond NumPy's, and those of the names by which they
    are used: calls and returns, modules. And the names of all modules."""

    events: tuple[int, int]
    modules: tuple[int, int]
    loaded: frozenset[str]


@pytest.fixture(scope="module")
def import_run(tmp_path_factory) -> ImportRun:
    """The second run counts: the first one keeps its bytecode, somewhere else where it should not
    beside the sources."""
    environment = dict(os.environ)
    if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
        environment["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("bytecode"))
    for _ in range(2):
        command = [sys.executable, "-c", IMPORTS.format(packages=", ".join(PACKAGES))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
    events, modules, more_events, more_modules, *loaded = done.stdout.split()
    return ImportRun(
        (int(events), int(more_events)), (int(modules), int(more_modules)), frozenset(loaded)
    )


def test_importing_everything_loads_nothing_heavy(import_run):
    assert not {module.split(".")[0] for module in import_run.loaded} & HEAVY


def test_importing_everything_is_quick(import_run):
    """About 30 ms for the packages and 200 for the names, on a machine that has nothing else to
    do: counted, since what else runs there changes no count."""
    assert import_run.events[0] < 10_000 and import_run.events[1] < 375_000
    assert import_run.modules[0] < 20 and import_run.modules[1] < 480


def test_schedules_for_processors_load_nothing_for_gpus():
    """Which takes as long as making the schedule of a small program does."""
    code = (
        "import sys; from autotune import default_schedule;"
        "from autotune.examples import EXAMPLES, make_example;"
        "made = [default_schedule(make_example(name), 'c -threads=2') for name in EXAMPLES];"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = [m for m in done.stdout.split() if {"gpu", "cuda", "opencl"} & set(m.split("."))]
    assert [m for m in loaded if not m.startswith("tensorir.")] == []  # targets, names of axes


def test_lazy_packages_find_what_type_checkers_do():
    for path in SOURCES:
        names = homes_of(path)
        package = import_module(".".join(Path(label(path)).parent.parts)) if names else None
        assert set(names) <= set(package.__all__ if package else ())  # te has more of its own
        for name, module in names.items():
            inside = module == package.__name__
            home = import_module(f"{module}.{name}" if inside else module)
            assert getattr(package, name) is (home if inside else getattr(home, name)), name


def test_names_of_a_lazy_package():
    code = (
        "import sys, tensorir; assert 'tensorir.interpreter.interpret' not in sys.modules;"
        "import tensorir.interpreter.interpret; assert callable(tensorir.interpret);"
        "from tensorir import dtype, interpret, reference; assert callable(reference);"
        "import tensorir.reference; assert tensorir.reference is reference;"
        "assert 'parse' in dir(tensorir); assert dtype is sys.modules['tensorir.dtype'];"
        "print(getattr(tensorir, 'nothing', 'absent'));"
        "from tensorir import nothing"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "absent\n"
    assert "cannot import name 'nothing' from 'tensorir'" in done.stderr


MAX_LOOSE_FILES = 20
REGISTRIES = {"tensorir/ops", "schedule/primitives", "schedule/library", "autotune/rules"}
"""Folders of many files of one kind, which nobody reads in one go."""


def test_folders_stay_small():
    """More than twenty files side by side are a crowd: who looks for something reads all names."""
    loose: dict[str, int] = {}
    for path in SOURCES:
        folder = label(path.parent)
        loose[folder] = loose.get(folder, 0) + (path.name != "__init__.py")
    assert set(loose) >= REGISTRIES
    crowds = {folder for folder, count in loose.items() if count > MAX_LOOSE_FILES}
    assert not crowds - REGISTRIES


BACK_EDGES: dict[Edge, str] = {
    ("tensorir.expr", "tensorir.text.printer"): "repr of a node is its text",
    ("tensorir.stmt", "tensorir.text.printer"): "repr of a node is its text",
    ("tensorir.func", "tensorir.text.printer"): "repr of a program is its text",
    ("tensorir.expr", "tensorir.te.promotion"): "operators of nodes promote their types",
    ("tensorir.sugar", "tensorir.te.math"): "operators of tensors are functions of te",
    ("tensorir.func", "tensorir.te.statements"): "a program is called as a stage of another one",
    ("tensorir.func", "tensorir.verifier.inout"): "a program declares what it needs of its outputs",
    ("tensorir.te.tensor", "tensorir.te.math"): "operators of tensors",
    ("tensorir.te.tensor", "tensorir.te.whole"): "operators of tensors",
    ("tensorir.te.tensor", "tensorir.ops.matmul"): "the operator @ of tensors",
    ("tensorir.externs.extern", "tensorir.externs.built_in"): "the registry finds what comes along",
    ("tensorir.tensorize.tensor_intrin", "tensorir.tensor_intrins"): "as for externs",
    ("tensorir.ops.registry", "tensorir.ops.built_in"): "as for externs",
    ("schedule.schedule", "schedule.debug.validate"): "a schedule with debug=True checks itself",
    ("schedule.schedule", "schedule.requests.moves"): "legal_moves and explain try primitives",
    ("backends.build", "backends.gpu.externs"): "externs for GPUs are checked when first built",
    ("backends.gpu.externs", "backends.register"): "what checks an extern is a kernel",
    ("autotune.cli.start", "autotune.cli.entry"): "an interrupt while it is imported is quiet",
}
"""Imports by functions that close a circle, each with its reason: what is low asks for what stands
on it, once that is there. No module is needed for the import of another one in a circle."""


def test_no_circles_of_imports():
    first, later = run_time_imports()
    assert len(first) > 1000 and len(later) > 50
    assert not circle(first)
    assert not circle((first | later) - set(BACK_EDGES))


def test_folders_stand_on_floors():
    """Folders and loose files of a package, one on the other: none needs what stands on it."""

    def floor(module: str) -> str:
        return ".".join(module.split(".")[:2])

    first, _ = run_time_imports()
    across = {(floor(a), floor(b)) for a, b in first if floor(a) != floor(b)}
    assert len(across) > 300
    assert not circle(across)


def test_listed_circles_are_there():
    first, later = run_time_imports()
    rest = (first | later) - set(BACK_EDGES)
    assert set(BACK_EDGES) <= later
    assert not [edge for edge in BACK_EDGES if not circle(rest | {edge})]


def test_files_stay_short():
    lengths = {label(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert not {name: n for name, n in lengths.items() if n > MAX_FILE_LINES}


FOR_PROCESSORS = ("autotune/rules/", "schedule/library/"), 11_523
"""Folders that make schedules for processors, and the lines that they have without those for GPUs:
what is added takes the place of something."""


def test_what_makes_schedules_for_processors_stays_small():
    folders, most = FOR_PROCESSORS
    mine = [p for p in SOURCES if label(p).startswith(folders) and "gpu" not in p.parts]
    lines = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in mine)
    assert 0.97 * most < lines <= most


def test_functions_stay_short():
    wrong = [
        f"{label(path)}:{f.lineno} {f.name} has {f.end_lineno - f.lineno + 1} lines"
        for path in SOURCES
        for f in functions(tree_of(path))
        if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES
        and f"{label(path)}:{f.name}" not in LONG_FUNCTIONS
    ]
    assert not wrong


def primitives() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted((ROOT / "schedule" / "primitives").glob("*.py")):
        for f in functions(tree_of(path)):
            names = [ast.unparse(d).split("(")[0].split(".")[-1] for d in f.decorator_list]
            if "primitive" in names:
                yield path, f


def test_there_are_primitives():
    assert {"split", "fuse", "reorder"} <= {f.name for _, f in primitives()}


def test_a_primitive_says_what_it_rewrites_and_requires():
    wrong = [
        f"{label(path)}: {f.name} lacks {word!r}"
        for path, f in primitives()
        for word in ("rewrite:", "requires:")
        if word not in (ast.get_docstring(f) or "")
    ]
    assert not wrong


SEVERAL_PRIMITIVES = frozenset({"schedule/primitives/loop_kind.py"})
"""parallel, vectorize, unroll and the like: one idea, one row each."""


def test_one_primitive_per_file():
    by_file: dict[str, list[str]] = {}
    for path, f in primitives():
        by_file.setdefault(label(path), []).append(f.name)
    assert not {
        name: found
        for name, found in by_file.items()
        if len(found) > 1 and name not in SEVERAL_PRIMITIVES
    }


def test_every_folder_of_sources_is_packaged():
    folders = {p.parent for p in SOURCES}
    assert not [label(f) for f in folders if not (f / "__init__.py").exists()]


def test_no_drawer_for_everything():
    names = {"utils.py", "util.py", "common.py", "misc.py", "helper.py"}
    assert not [label(p) for p in SOURCES if p.name in names]


def test_init_files_only_reexport():
    allowed = (ast.Import, ast.ImportFrom)
    wrong = []
    for path in SOURCES:
        if path.name != "__init__.py":
            continue
        for index, node in enumerate(tree_of(path).body):
            is_docstring = index == 0 and isinstance(node, ast.Expr)
            # `exp = FUNCTIONS["exp"]` gives a row of a table its name.
            is_name = isinstance(node, ast.Assign) and (
                ast.unparse(node.targets[0]) == "__all__"
                or isinstance(node.value, (ast.Subscript, ast.Name))
            )
            is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not (is_docstring or is_name or is_for_types or isinstance(node, allowed)):
                wrong.append(f"{label(path)}:{node.lineno}")
    assert not wrong


def test_module_docstrings():
    assert not [label(p) for p in SOURCES if not ast.get_docstring(tree_of(p))]


def test_no_paths_of_one_machine():
    machine_path = re.compile(r"(?<![\w.])/(?:work|home/\w+|root|Users/\w+)/")
    suffixes = {".py", ".md", ".cfg", ".toml", ".ipynb", ".jsonl", ".txt", ".c", ".h", ".cu"}
    files = [p for folder in FOLDERS_WITH_TEXT for p in (ROOT / folder).rglob("*")]
    files += [p for p in ROOT.iterdir() if p.name in ("Makefile", "README.md", "setup.cfg")]
    wrong = [
        f"{label(path)}:{number}"
        for path in files
        if path.is_file() and (path.suffix in suffixes or path.name == "Makefile")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if machine_path.search(line)
    ]
    assert not wrong


def test_no_notes_to_self():
    note = re.compile(r"#\s*(?:TODO|FIXME|XXX|HACK)\b")
    assert not [label(p) for p in SOURCES if note.search(p.read_text(encoding="utf-8"))]


MAX_WORDS_OF_THE_MAP = 2500


def test_the_map_stays_a_map():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_WORDS_OF_THE_MAP


def test_the_map_shows_every_folder():
    """And every file that lies loose in a package. It names none that is not there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for package in PACKAGES:
        table = text.partition(f"| `{package}/` |")[2].partition("\n\n")[0]
        named = set(re.findall(r"`([\w/]+/)`", table))
        folders = {label(p.parent).partition("/")[2].split("/")[0] for p in SOURCES}
        folders = {f"{f}/" for f in folders if (ROOT / package / f).is_dir() and f}
        files = {p.name for p in SOURCES if p.parent == ROOT / package and p.name[:2] != "__"}
        listed = named | set(re.findall(r"`([\w/]+\.py)`", table))
        assert not (folders | files) - listed, package
        assert not [name for name in listed if not (ROOT / package / name).exists()], package
    for name in re.findall(r"`((?:tensorir|schedule|backends|autotune)/[\w/]+(?:\.py|/))`", text):
        assert (ROOT / name).exists() or name.endswith("x.py"), name


def paths_of_the_readme() -> dict[str, tuple[list[str], int]]:
    """What README says is a path through the code: its files and the lines that they may have."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Small enough to read")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| ([^|]+) \| (\d+) \|$", section, re.MULTILINE)
    return {name: (re.findall(r"`([^`]+)`", files), int(most)) for name, files, most in rows}


def test_paths_through_the_code_stay_short():
    """What makes a path longer goes into a file beside it. Blank lines do not count."""
    paths = paths_of_the_readme()
    assert len(paths) >= 5 and paths["from an expression to a kernel"][1] == 1400
    for name, (files, most) in paths.items():
        texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
        lines = sum(1 for text in texts for line in text.splitlines() if line.strip())
        assert 0.75 * most < lines <= most, f"{name}: {lines} lines, {most} allowed"
