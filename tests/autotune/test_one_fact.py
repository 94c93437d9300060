"""What a device has is said once: rules and library ask its description, and have no numbers of
their own for bytes, lines, lanes, registers, cycles or threads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.rules.effort import one_thread
from tensorir import Costs, Cpu, PrimFunc, Target, blocks, ops, te

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path for name in ("autotune/rules", "schedule/library") for path in (ROOT / name).rglob("*.py")
)

OF_DEVICES = re.compile(
    r"\b(bytes|threads?|caches?|registers|lanes|lines?|pages?|cycles|multiply-adds|multipliers)\b",
    re.I,
)
"""Words by which a constant's name or text tells that it is of a device."""

MODEL = "a cost of the model of stages without sums, of which the estimate has none"
TILES = "a cost of the count of tiles for GPUs, which says where it is from"
RECIPE = "a number of a recipe of the library, which says what was measured for it"
SHAPE = "a shape that is tried, or a limit of the text that compilers get: no fact of a device"

DRAFT = "a count of what kernels of the library ask for, with which test_gpu_drafts compares them"

KNOWN = {
    "autotune/rules/chain.py": {"SQUARES": SHAPE},
    "autotune/rules/find_rows.py": {"MORE": SHAPE},
    "autotune/rules/effort.py": {"REUSED": MODEL, "ROWS_EACH": SHAPE},
    "autotune/rules/find_chain.py": {"IDLE": SHAPE, "LONG_ROW": SHAPE},
    "autotune/rules/gpu/tile_cycles.py": {
        "WAIT": TILES, "MOST_REGISTERS": TILES,
    },
    "autotune/rules/gpu/tiles.py": {
        "OWN": SHAPE, "LANES": SHAPE, "SPLITS": SHAPE, "LARGE": SHAPE,
    },
    "autotune/rules/gpu/chain.py": {"ALIKE": SHAPE, "BLOCKS": SHAPE, "PIECE": SHAPE},
    "autotune/rules/gpu/draft.py": {
        "WARP_WAITS": DRAFT, "BLOCK_WAITS": DRAFT, "THREAD_WAITS": DRAFT, "WRITTEN_OUT": SHAPE,
    },
    "autotune/rules/gpu/online.py": {"LIKELY": SHAPE, "THREADS": SHAPE},
    "autotune/rules/gpu/sums/reductions.py": {"SHARE": SHAPE, "MOST_WHOLE": SHAPE},
    "autotune/rules/gpu/sums/scattered.py": {"WARPS": SHAPE, "LIKELY": SHAPE, "STEPS": SHAPE},
    "autotune/rules/gpu/scan.py": {"THREADS": SHAPE},
    "autotune/rules/gpu/thin.py": {"SUMS": SHAPE, "ROWS": SHAPE, "PIECES": SHAPE},
    "autotune/rules/gpu/turned.py": {"MANY_EACH": SHAPE, "SECTOR_ROUNDS": DRAFT},
    "autotune/rules/nests/decide.py": {"MOST_CODE": SHAPE},
    "autotune/rules/nests/stage.py": {
        "ROWS": SHAPE, "VECTORS": SHAPE, "WHOLE_ROW": SHAPE, "MOST_THREADED": SHAPE,
    },
    "autotune/rules/short_rows.py": {"LONGER": SHAPE},
    "autotune/rules/stores.py": {"STREAM_FROM": "an output from which on it is a choice"},
    "autotune/rules/stencil.py": {
        "ROWS": SHAPE, "GAIN": SHAPE, "UNALIGNED": MODEL, "RUN": MODEL, "KEPT": MODEL,
        "TASKS": SHAPE,
    },
    "autotune/rules/tensorized.py": {"NARROWER": SHAPE, "MANY_PANELS": SHAPE},
    "autotune/rules/tiled.py": {"MANY_TASKS": SHAPE},
    "schedule/library/contraction/partial.py": {"FEW": SHAPE},
    "autotune/rules/gpu/windows/plans.py": {"ROOM": SHAPE, "LEAST": SHAPE, "MOST_TERMS": SHAPE},
    "schedule/library/gpu/staged.py": {"IDLE": SHAPE},
    "schedule/library/gpu/windows.py": {"WRITTEN_OUT": SHAPE},
    "schedule/library/gpu/tiles.py": {"WRITTEN_OUT": SHAPE},
    "schedule/library/gpu/memory/fetch.py": {"FETCHED": SHAPE},
    "schedule/library/gpu/in_rows/rows.py": {"REGISTERS": SHAPE},
    "schedule/library/gpu/blockwise/online.py": {"WRITTEN_OUT": SHAPE},
    "schedule/library/gpu/columns.py": {"PIECE": SHAPE},
    "schedule/library/gpu/elementwise.py": {"FEW": SHAPE},
    "schedule/library/gpu/filled.py": {"ITEMS": SHAPE},
    "schedule/library/gpu/in_rows/short_rows.py": {"SECTORS": SHAPE, "LONGEST": SHAPE},
    "schedule/library/gpu/in_rows/long_rows.py": {"ITEMS": SHAPE},
    "schedule/library/gpu/scans.py": {"AT_ONCE": SHAPE},
    "schedule/library/tensorized_matmul.py": {"STRIP_BYTES": RECIPE, "BLOCK_BYTES": RECIPE},
    "schedule/library/tensorized_tile.py": {
        "AREA": RECIPE, "REGISTERS": RECIPE, "CONSTANTS": RECIPE,
    },
    "schedule/library/contraction/copies.py": {"BLOCK": SHAPE},
}  # fmt: skip
"""The numbers that are left, by module, each with its reason. One that is no longer there, or is
none of a device, fails the test until it is taken out of here."""


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The constants of a module that are numbers, with the text below them."""
    for node, after in zip(tree.body, [*tree.body[1:], None]):
        if not isinstance(node, ast.Assign) or not _is_number(node.value):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = str(after.value.value)
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from ((name.id, text) for name in names if isinstance(name, ast.Name))


def _is_number(e: ast.expr) -> bool:
    if isinstance(e, (ast.Tuple, ast.List)):
        return bool(e.elts) and all(map(_is_number, e.elts))
    if isinstance(e, ast.BinOp):
        return _is_number(e.left) and _is_number(e.right)
    return isinstance(e, ast.Constant) and isinstance(e.value, (int, float))


def of_devices(source: str) -> list[str]:
    """The names of the constants that speak of a device."""
    found = constants(ast.parse(source))
    return [name for name, text in found if OF_DEVICES.search(f"{name.replace('_', ' ')} {text}")]


def test_no_module_has_a_fact_of_a_device_of_its_own():
    found = {p.relative_to(ROOT).as_posix(): of_devices(p.read_text()) for p in MODULES}
    own = {(place, name) for place, names in found.items() for name in names}
    known = {(place, name) for place, names in KNOWN.items() for name in names}
    assert own - known == set(), "ask tensorir.Cpu or tensorir.Gpu, or add to them"
    assert known - own == set(), "these are gone: take them out of KNOWN"


@pytest.mark.parametrize(
    "source",
    [
        'LARGE = 150_000\n"""Terms from which on the second thread gains more than it costs."""',
        "PAGE = 4096", "LINE_BYTES = 64", "REGISTERS = 32", "A, LANES = 1, 32",
        'NEAR = 1 << 18\n"""Elements that stay in the cache."""',
    ],
)  # fmt: skip
def test_such_numbers_are_found(source):
    assert of_devices(source)


FORMULAS = {
    r"\.vector_registers\b": "Cpu.registers counts registers",
    r"\bl[123]_bytes\s*//\s*2": "Cpu.kept_bytes says what stays in a cache",
    r"lanes(\(\))?\s*\*\s*(4|32)\s*//": "Cpu.elements says how many elements a vector holds",
    r"host_threads|cpu_count": "Cpu.threads counts threads",
}
"""Formulas for what a description answers."""


def test_no_module_has_formulas_for_what_a_description_answers():
    wrong = [
        f"{path.relative_to(ROOT)}: {why}"
        for path in MODULES
        for pattern, why in FORMULAS.items()
        if re.search(pattern, path.read_text())
    ]
    assert not wrong


CPU = Cpu(Target(vector_bits=256, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


def applied(op, *shapes, **attrs) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, op(*inputs, name="out", **attrs)], name="applied")


def cycles(func: PrimFunc, cpu: Cpu = CPU) -> float:
    return one_thread(blocks(func.body), cpu)


def test_more_work_takes_longer():
    rows = [cycles(applied(ops.relu, (n, 64))) for n in (1, 10, 100, 10_000)]
    assert rows == sorted(rows) and rows[1] == pytest.approx(10 * rows[0])
    assert rows[3] > 100 * rows[2], "it comes from beyond a cache"
    plain, dear = cycles(applied(ops.relu, (64, 64))), cycles(applied(ops.exp, (64, 64)))
    assert dear > 2 * plain
    straight = cycles(applied(ops.relu, (64, 64)))
    assert cycles(applied(ops.transpose, (64, 64))) > 2 * straight, "lanes that lie apart"


def test_nothing_takes_no_time():
    assert cycles(applied(ops.relu, (0, 64))) == 0


def test_wider_vectors_take_less():
    wide = Cpu(replace(CPU.target, vector_bits=512))
    func = applied(ops.exp, (8, 64))
    assert cycles(func, wide) == pytest.approx(cycles(func) / 2, rel=0.01)


def test_threads_are_worth_what_starting_them_costs():
    for start in (0.0, 100.0, 1e9):
        cpu = Cpu(CPU.target, replace(Costs(), start=start))
        assert cpu.worth_threads(start) and not cpu.worth_threads(start - 1)
