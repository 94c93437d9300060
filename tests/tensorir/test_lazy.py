"""Names and tables that are filled when they are first asked for, each in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensorir import ops
from tensorir.ops.built_in import FAMILIES

ROOT = Path(__file__).parent.parent.parent


def run(code: str) -> str:
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("from tensorir import find_extern; print(find_extern('sort').name)", "sort"),
        ("from tensorir import EXTERNS; print(*EXTERNS)", "sort argsort topk"),
        (
            "from tensorir.externs.extern import find_extern; print(find_extern('topk').name)",
            "topk",
        ),
        ("from tensorir import find_intrin; print(find_intrin('f32.fma_4').name)", "f32.fma_4"),
        ("from tensorir import INTRINS; print('f32.fma_4' in INTRINS)", "True"),
        (
            "from schedule import REGISTRY; print('split' in REGISTRY, len(REGISTRY) > 30)",
            "True True",
        ),
        (
            "from tensorir.ops import find_operator; print(find_operator('tanh').family)",
            "elementwise",
        ),
        ("from tensorir import ops; ops.softmax; print(len(ops.OPERATORS) > 100)", "True"),
        ("from backends import BACKENDS, build; print(callable(build))", "True"),
        ("import backends.build; print(callable(backends.build))", "True"),
        ("import tensorir.dtype as d; from tensorir import dtype; print(d is dtype)", "True"),
        ("from tensorir import *; print(callable(verify), callable(interpret))", "True True"),
    ],
)
def test_first_thing_in_a_process(code, printed):
    assert run(code) == printed


def test_te_create_schedule_finds_the_package_that_was_imported():
    code = (
        "from tensorir import te; A = te.placeholder((4,), name='A');"
        "B = te.compute((4,), lambda i: A[i] + 1, name='B');"
    )
    alone = "\ntry: te.create_schedule(B.op)\nexcept Exception as e: print(e)"
    assert run(code + alone).endswith("needs the package schedule: import schedule first")
    assert run(code + "import schedule; print(type(te.create_schedule(B.op)).__name__)") == (
        "TESchedule"
    )


def test_an_operator_of_the_user_cannot_take_a_name_that_is_not_loaded_yet():
    code = (
        "from tensorir.ops import Example, operator\n"
        "def relu(x):\n    'doc'\n"
        "try: operator(None, [Example([(2,)])])(relu)\n"
        "except Exception as e: print(e)"
    )
    assert run(code) == "there is an operator 'relu' already; choose another name"


def test_every_file_with_operators_is_a_family():
    folder = ROOT / "tensorir" / "ops"
    found = {p.stem for p in folder.glob("*.py") if "import" in p.read_text() and defines(p)}
    assert found == set(FAMILIES)
    assert [*dict.fromkeys(op.family for op in ops.OPERATORS.values())][: len(FAMILIES)] == FAMILIES


def defines(path: Path) -> bool:
    """Whether a file enters operators into the table."""
    text = path.read_text()
    return path.stem != "registry" and ("@operator(" in text or " operator(" in text)


@pytest.mark.parametrize(
    ("target", "made"),
    [("c -vector_bits=512", "build(sch, target)"), ("cuda -arch=sm_90", "lower(sch.func, target)")],
)
def test_building_a_default_kernel_loads_nothing_for_checking_and_searching(target, made):
    code = (
        "import sys; from tensorir import Target, lower, ops, te; from backends import build;"
        "from autotune import default_schedule; A = te.placeholder((64, 64), name='A');"
        f"f = te.create_prim_func([A, ops.softmax(A)]); target = Target.parse({target!r});"
        f"sch = default_schedule(f, target); {made}; print(*sys.modules)"
    )
    loaded = set(run(code).split())
    assert {"schedule.primitives.split", "tensorir.passes.lower"} <= loaded
    kept_out = {
        "tensorir.interpreter.interpret", "tensorir.reference", "tensorir.text.parser",
        "tensorir.structural", "tensorir.ops.conv", "tensorir.externs.built_in",
        "schedule.debug.validate", "schedule.debug.minimize", "schedule.library.winograd.nests",
        "schedule.requests.moves", "backends.call.timer", "autotune.database.database",
        "autotune.tuning.tuner", "autotune.cost_model", "sqlite3", "concurrent.futures",
    }  # fmt: skip
    assert not loaded & kept_out
