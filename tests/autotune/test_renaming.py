"""What is called how decides nothing: renamed programs get the same plan, and the same steps.

Every operator has a default schedule: it is made for this, and lowered. A run of all tests has a
third of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from autotune.rules import choose
from benchmarks.general.renamed import NAMINGS, renamed
from benchmarks.peers.kinds import KINDS
from benchmarks.peers.programs import prim_func
from benchmarks.peers.sets import SETS
from schedule import Schedule
from tensorir import Block, For, PrimFunc, Target, TensorIRError, device_of, lower, ops, walk

FEATURES = ("avx512bf16", "avx512bw", "avx512f", "avx512vnni", "fma")
TARGET = Target(vector_bits=512, threads=2, features=FEATURES)
ROWS = [row for name in ("main", "other", "operators", "invented") for row in SETS[name]]


def reduces(func: PrimFunc) -> bool:
    """Whether there is a reduction: of these the rules ask most."""
    return any(isinstance(node, Block) and node.is_reduction for node in walk(func.body))


def places(func: PrimFunc) -> dict[str, dict[str, int]]:
    """Where in the program each name is, by what it names."""
    nodes = list(walk(func.body))
    loops = [node.name for node in nodes if isinstance(node, For)]
    blocks = [node.name for node in nodes if isinstance(node, Block)]
    buffers = [buffer.name for buffer in (*func.params, *func.buffers)]
    kinds = {"loop": loops, "block": blocks, "buffer": buffers, "block_or_loop": blocks + loops}
    return {kind: {name: at for at, name in enumerate(names)} for kind, names in kinds.items()}


def steps_of(schedule: Schedule) -> list[Any]:
    """What was done, each thing told by its place in the program as it was at that step."""
    found: list[Any] = []
    before = schedule.copy()
    for step in reversed(schedule.trace.instructions):
        before.undo()
        where = places(before.func)
        args = {key: _placed(value, where.get(KINDS_OF.get(key, key), {}))
                for key, value in step.args.items()}  # fmt: skip
        found.append((step.name, args))
    return found[::-1]


def _placed(value: Any, where: dict[str, int]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_placed(v, where) for v in value]
    return where[value] if isinstance(value, str) and where else value


KINDS_OF = {"loops": "loop", "over": "loop", "other": "block"}


def planned(func: PrimFunc, constants: tuple[int, ...] = ()) -> tuple[Any, Schedule]:
    """The plan of the default schedule, with its values, and the schedule."""
    names = [func.inputs[n].name for n in constants]
    sketch = choose(func, device_of(TARGET), None, names).sketch
    values = sketch.values(names)
    rules = [part.rpartition(":")[2] for part in sketch.name.split("+")]
    return (rules, list(values.values())), sketch.build(values)


def assert_names_are_nothing(
    func: PrimFunc, scheme: str, constants: tuple[int, ...] = ()
) -> Schedule:
    """The default schedule of `func`, which is that of the renamed program."""
    plan, schedule = planned(func, constants)
    other_plan, other = planned(renamed(func, NAMINGS[scheme]), constants)
    assert plan == other_plan
    assert steps_of(schedule) == steps_of(other)
    return schedule


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda n: ROWS[n].name)
def test_a_renamed_row_gets_the_same_schedule(number):
    row = ROWS[number]
    func = prim_func(row.kind, row.sizes)
    names = [b.name for b in func.inputs]
    constants = tuple(names.index(c) for c in KINDS[row.kind].constants)
    assert_names_are_nothing(func, ("letters", "of others")[number % 2], constants)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ops.OPERATORS)
def test_every_operator_has_a_default_schedule_whatever_its_names(name):
    """Of all examples, symbolic sizes, no elements, one, several outputs; names are changed in the
    first, and in the last where that has a reduction."""
    last = len(ops.OPERATORS[name].examples) - 1
    for number in range(last + 1):
        func = ops.prim_func(name, number)
        if number == 0 or number == last and reduces(func):
            schedule = assert_names_are_nothing(func, "letters")
        else:
            schedule = planned(func)[1]
        lower(schedule.func, TARGET)


STEPS_ROWS = ("matmul 1023", "conv 64->64 3x3 56", "softmax 4096x1024", "viterbi step 64x512")


@pytest.mark.parametrize("row", [r for r in ROWS if r.name in STEPS_ROWS], ids=lambda r: r.name)
def test_steps_are_made_on_a_program_of_other_names(row):
    """A trace names what its program is made of; on a renamed one it means the same places."""
    func = prim_func(row.kind, row.sizes)
    schedule = planned(func)[1]
    other = Schedule(renamed(func, NAMINGS["of others"]))
    assert steps_of(other.apply(schedule.trace, recorded_on=func)) == steps_of(schedule)


def test_steps_of_another_program_are_refused():
    matmul, softmax = (prim_func(r.kind, r.sizes) for r in ROWS if r.name in STEPS_ROWS[::2])
    schedule = planned(matmul)[1]
    other = Schedule(softmax)
    before = str(other.func)
    with pytest.raises(TensorIRError, match="is another program, not the same by other names"):
        other.apply(schedule.trace, recorded_on=matmul)
    assert str(other.func) == before and not len(other.trace)
