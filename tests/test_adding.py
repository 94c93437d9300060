"""What README says of adding things: a file, written elsewhere, and the line that registers it.

Each is written into a temporary folder, imported, found, used, and forgotten.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import RULES, forget_move, forget_rule, make_space
from autotune.rules.moves import MOVES
from backends import build, resolve
from schedule import REGISTRY, Schedule
from tensorir import ARCHITECTURES, PrimFunc, device_of, find_extern, lower, ops, te
from tensorir.ops.registry import OPERATORS, known_operators

ROOT = Path(__file__).parent.parent

FILES = {
    "an operator": (
        '''
        import numpy as np
        from tensorir import te
        from tensorir.ops.registry import Example, operator, uniform

        @operator(lambda x: x * x * x, [Example([uniform(3, 5)])])
        def cubed(x, name="cubed"):
            """x * x * x, of each element."""
            return te.compute(x.shape, lambda *i: x[i] * x[i] * x[i], name)
        '''
    ),
    "a move": (
        """
        from autotune.rules import register_move
        from schedule.library import Move, find_again

        def fixed(sch, c, option):
            sch.reindex(c.block, c.operands[option].buffer, "global")
            return find_again(sch, c)

        def bent(c, device):
            return [n for n, operand in enumerate(c.operands) if None in operand.strides]

        register_move(Move("fixed", fixed, options=bent))
        """
    ),
    "a rule": (
        """
        from dataclasses import dataclass
        from typing import Any
        from autotune.rules import Plan, register_rule

        @dataclass(frozen=True)
        class Halves(Plan):
            group: Any
            choices: tuple = ()
            name: str = "halves"
            numerics: str = "reassociated"

            def default(self, constants=()):
                return {}

            def apply(self, sch, values):
                outer, _ = sch.split(sch.get_loops(self.group.block)[-1], [2, None])
                sch.rfactor(self.group.block, outer)

        def halves(sch, group, device):
            return [Halves(group)] if sch.state.block(group.block).is_reduction else []

        register_rule(halves)
        """
    ),
    "a primitive": (
        """
        from schedule import Schedule
        from schedule.primitive import method, primitive
        from schedule.state import LoopRef, State

        @primitive
        def look(state: State, loop: LoopRef) -> tuple[State, LoopRef]:
            return state, LoopRef(state.loop(loop).name)

        Schedule.look = method(look)
        """
    ),
    "an extern function": (
        """
        from backends import register_extern
        from tensorir import ExternFunc

        LOOP = "for (i64 i = 0; i < n; i++) y[i] = -x[i];"
        C = "static void $NAME(const $T0 *x, $T1 *y, i64 n) { %s }" % LOOP
        turned = ExternFunc("added.turned", "(n)->(n)", [("float32", "float32")], C, lambda x: -x)
        register_extern(turned)
        """
    ),
    "a device": (
        """
        from dataclasses import replace
        from tensorir import ARCHITECTURES, find_architecture

        like = find_architecture("sm_75")
        ARCHITECTURES["sm_77"] = replace(like, name="sm_77", capability=(7, 7))
        """
    ),
}  # fmt: skip
"""Rows of README's table, each with a file. The others have tests of their own, with programs that
they take: test_algorithms.py, test_extern_calls.py, test_tensorize.py, test_cost_model.py,
test_strategies.py."""

LINES = {
    "an operator": "operator", "a rule": "register_rule", "a move": "register_move",
    "a primitive": "method",
    "an algorithm": "register_algorithm", "an extern function": "register_extern",
    "an instruction": "register_intrinsic", "a device": "ARCHITECTURES",
    "a cost model": "register_cost_model", "a search strategy": "register_strategy",
}  # fmt: skip


def rows() -> dict[str, str]:
    """What is added, and the line that README says it takes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Add your own")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (an? [^|]+) \| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE)
    return dict(found)


def lines_that_register(source: str, word: str) -> int:
    """Statements of a file, decorators among them, that register something by the name `word`."""
    count = 0
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        marks = getattr(node, "decorator_list", [node])
        count += sum(re.search(rf"\b{word}[(\[]", ast.unparse(mark)) is not None for mark in marks)
    return count


@pytest.fixture
def added(tmp_path, monkeypatch) -> Iterator[Any]:
    """Writes a file into a folder of its own and imports it; what it registers goes in the end."""
    monkeypatch.syspath_prepend(tmp_path)
    before = {"ops": dict(known_operators()), "sm": dict(ARCHITECTURES)}
    rules = list(RULES["cpu"].groups)

    def add(name: str) -> ModuleType:
        stem = "added_" + name.split()[-1]
        path = tmp_path / f"{stem}.py"
        path.write_text(FILES[name].replace("\n        ", "\n"), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield add
    for table, rows in ((OPERATORS, before["ops"]), (ARCHITECTURES, before["sm"])):
        table.clear()
        table.update(rows)
    for rule in [rule for rule in RULES["cpu"].groups if rule not in rules]:
        forget_rule(rule)
    for move in list(MOVES.values()):
        forget_move(move)
    for name in [name for name in sys.modules if name.startswith("added_")]:
        del sys.modules[name]
    REGISTRY.pop("look", None)
    if hasattr(Schedule, "look"):
        del Schedule.look


def row_sums() -> PrimFunc:
    x = te.placeholder((6, 40), name="x")
    return te.create_prim_func([x, ops.sum(x, (1,), name="out")], name="row_sums")


def test_readme_lists_what_can_be_added():
    found = rows()
    assert set(found) == set(LINES)
    assert all(f"{word}" in found[name] for name, word in LINES.items())


@pytest.mark.parametrize("name", sorted(FILES))
def test_one_line_registers_it(name):
    source = FILES[name].replace("\n        ", "\n")
    assert lines_that_register(source, LINES[name]) == 1


def test_an_operator_is_found_and_computes(added):
    cubed = added("an operator").cubed
    assert ops.find_operator("cubed").make is cubed
    x = te.placeholder((3, 5), name="x")
    given = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(
        build(te.create_prim_func([x, cubed(x)], name="f"))(given), given**3
    )


def test_a_rule_is_default_and_searched(added):
    added("a rule")
    steps = default_schedule(row_sums(), "c -threads=2").trace.instructions
    assert [step.name for step in steps] == ["split", "rfactor"]
    space = make_space(row_sums(), device_of(resolve("c -threads=2")))
    assert any("halves" in name for name in space.sketches)


def test_a_move_is_default_and_searched(added):
    added("a move")
    # which plan is faster depends on the processor and its caches
    target = "c -march=haswell -threads=2 -l2=1048576 -l3=33554432"
    x, c = te.placeholder((256, 80), name="x"), te.placeholder((80, 96), "uint8", name="c")
    t, k = te.placeholder((256,), name="t"), te.reduce_axis(80, name="k")
    y = te.compute((256, 96), lambda i, j: te.sum(x[i, k] * t[c[k, j].astype("int32")], axis=k))
    func = te.create_prim_func([x, c, t, y], name="looked_up")
    assert "reindex" in repr(default_schedule(func, target).trace)
    space = make_space(func, device_of(resolve(target)))
    assert any("fixed" in name for name in space.sketches)


def test_a_primitive_is_a_step_that_replays(added):
    added("a primitive")
    sch: Any = Schedule(row_sums())
    loop = sch.get_loops("out")[0]
    assert sch.look(loop) == loop
    assert [step.name for step in Schedule(row_sums()).apply(sch.trace).trace.instructions] == [
        "look"
    ]


def test_an_extern_function_runs(added):
    added("an extern function")
    x = te.placeholder((7,), name="x")
    func = te.create_prim_func([x, te.extern((7,), x, find_extern("added.turned"))], name="f")
    given = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(build(func)(given), -given)


def test_a_device_is_a_target(added):
    added("a device")
    target = resolve("cuda -arch=sm_77")
    assert device_of(target).kind == "gpu" and target.architecture.capability == (7, 7)
    assert lower(row_sums(), target)


RULE_FOLDER = ROOT / "autotune" / "rules"
TABLED = [*RULES["cpu"].groups, RULES["cpu"].rest, *RULES["cpu"].chains]


@pytest.mark.parametrize("rule", TABLED, ids=lambda rule: rule.__name__)
def test_a_rule_of_the_project_is_a_file_and_its_name_in_the_table(rule):
    """Beside the table only rules that are made of it know its name: nothing lists it again."""
    rules = {each.__module__.rpartition(".")[2] + ".py" for each in TABLED}
    knowing = {
        path.name
        for path in RULE_FOLDER.glob("*.py")
        if re.search(rf"\b{rule.__name__}\b", path.read_text(encoding="utf-8"))
    }
    assert knowing - rules == {"registry.py"}


def test_an_operator_of_the_project_is_a_file_and_its_name_in_the_list():
    from tensorir.ops.built_in import FAMILIES

    assert {operator.family for operator in known_operators().values()} == set(FAMILIES)
