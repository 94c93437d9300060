"""Rules by kind of device: what a plan says of itself is true, and users add rules of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.choices import Categorical, Choice
from autotune.rules import (
    RULES,
    Plan,
    default_candidates,
    forget_rule,
    make_space,
    register_rule,
    rules_for,
)
from autotune.rules.group import Group, find_groups
from autotune.rules.inlined import inline_stages
from autotune.space import Candidate
from benchmarks.peers.programs import prim_func
from benchmarks.peers.sets import SETS
from schedule import Schedule
from tensorir import (
    ARCHITECTURES,
    Cpu,
    Device,
    Gpu,
    PrimFunc,
    Target,
    TensorIRError,
    allows,
    device_of,
    ops,
    te,
)

FEATURES = (
    "amx_bf16", "amx_int8", "amx_tile", "avx512bf16", "avx512bw", "avx512f", "avx512vnni", "fma",
)  # fmt: skip
CPU = Cpu(Target(vector_bits=512, threads=2, features=FEATURES))
GPU = Gpu(Target.parse("cuda -arch=sm_90"))
ROWS = [row for name in ("main", "other", "operators", "invented") for row in SETS[name]]


def grouped(func: PrimFunc) -> tuple[Schedule, list[Group]]:
    base = Schedule(func)
    inline_stages(base)
    return base, find_groups(base)


def applied(op: Any, *shapes: tuple[int, ...], **attrs: Any) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, op(*inputs, name="out", **attrs)], name="applied")


def lying_across() -> PrimFunc:
    """A stencil whose result is turned."""
    x = te.placeholder((99, 163), name="x")
    out = te.compute((161, 97), lambda j, i: x[i, j] + x[i, j + 1] + x[i, j + 2], name="out")
    return te.create_prim_func([x, out], name="lying_across")


def sums_and_squares() -> PrimFunc:
    """Two values of each row."""
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda *d: tuple(te.const(0, e) for e in d),
        name="both",
    )  # fmt: skip
    x, k = te.placeholder((40, 700), name="x"), te.reduce_axis(700, name="k")
    out = te.compute((40,), lambda i: both((x[i, k], x[i, k] * x[i, k]), axis=k), name="out")
    return te.create_prim_func([x, *out], name="sums_and_squares")


def by_label(terms: int) -> PrimFunc:
    """Sums of floats by a number that data tell."""
    x, w = te.placeholder((terms,), "int32", name="x"), te.placeholder((terms,), name="w")
    k = te.reduce_axis(terms, name="k")
    out = te.compute(
        (300,), lambda b: te.sum(te.if_then_else(x[k] == b, w[k], 0.0), axis=k), name="out"
    )
    return te.create_prim_func([x, w, out])


PROGRAMS = [
    *(prim_func(row.kind, row.sizes) for row in ROWS),
    applied(ops.sum, (1, 1 << 20), axis=(1,)),
    applied(ops.sum, (4096, 512), axis=(0,)),
    applied(ops.max, (4096, 8), axis=(1,)),
    applied(ops.softmax, (8, 40, 512), axis=1),
    applied(ops.matmul, (6, 1 << 16), (1 << 16, 64)),
    applied(ops.matmul, (64, 1 << 14), (1 << 14, 64)),
    applied(ops.matmul, (2, 4096), (512, 4096), transpose_b=True),
    lying_across(),
    sums_and_squares(),
    by_label(4096),
    by_label(1 << 20),
]


def plans_of(rule: Any, func: PrimFunc, device: Device) -> Iterator[tuple[Schedule, Plan]]:
    """The plans of a rule for groups or chains."""
    base, groups = grouped(func)
    if rule in rules_for(device).chains:
        yield from ((base.copy(), plan) for plan in rule(base, groups, device))
    else:
        for group in groups:
            yield from ((base.copy(), plan) for plan in rule(base, group, device))


def untrue(rule: Any, device: Device = CPU, limit: int = 3) -> tuple[int, list[str]]:
    """How many plans a rule made, and which of them have schedules of another class than they say,
    also after they were kept to the order of sums."""
    wrong, count = [], 0
    for func in PROGRAMS:
        for base, plan in plans_of(rule, func, device):
            count += 1
            for kept in (plan, plan.within("bitwise")):
                if kept is None:
                    continue
                sch = base.copy()
                kept.apply(sch, kept.default())
                if not allows(kept.numerics, sch.numerics):
                    wrong.append(f"{func.name}: {kept.name} says {kept.numerics}: {sch.numerics}")
        if count >= limit:
            break
    return count, wrong


ALL = [
    (rule, device)
    for device in (CPU, GPU)
    for rules in [rules_for(device)]
    for rule in (*rules.groups, rules.rest, *rules.chains)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("rule", "device"), ALL, ids=[f"{device.kind}-{rule.__name__}" for rule, device in ALL]
)
def test_a_plan_says_what_it_does_to_results(rule, device):
    count, wrong = untrue(rule, device)
    assert count, "no program here has a plan of this rule: add one to PROGRAMS"
    assert not wrong


def total() -> PrimFunc:
    x = te.placeholder((6, 40), name="x")
    return te.create_prim_func([x, ops.sum(x, (1,), name="out")], name="total")


@dataclass(frozen=True)
class Halves(Plan):
    """A user's plan: sums in two parts."""

    group: Group
    choices: tuple[Choice, ...] = ()
    name: str = "halves"

    def default(self, constants=()):
        return {}

    def apply(self, sch, values):
        outer, _ = sch.split(sch.get_loops(self.group.block)[-1], [2, None])
        sch.rfactor(self.group.block, outer)


@dataclass(frozen=True)
class Honest(Halves):
    numerics: str = "reassociated"


@dataclass(frozen=True)
class Lying(Halves):
    numerics: str = "bitwise"


def rule_of(kind: type[Halves]) -> Any:
    def halves(sch, group, device):
        return [kind(group)] if sch.state.block(group.block).is_reduction else []

    return halves


@pytest.fixture
def registered():
    """Registers rules, and forgets them in the end."""
    made: list[Any] = []

    def register(rule: Any, **options: Any) -> Any:
        made.append(register_rule(rule, **options))
        return made[-1]

    yield register
    for rule in made:
        if rule in RULES["cpu"].groups:
            forget_rule(rule)


def test_a_plan_that_says_nothing_is_refused(registered):
    registered(rule_of(Halves))
    with pytest.raises(TypeError, match="'halves' .Halves. does not say what its schedules do to"):
        make_space(total(), CPU)


def test_a_plan_that_says_what_is_not_true_is_found(registered):
    assert untrue(registered(rule_of(Honest)))[1] == []
    assert untrue(registered(rule_of(Lying)))[1]


def test_a_rule_of_a_user_is_the_default_and_searched(registered):
    target = "c -vector_bits=256 -threads=2"
    before = default_schedule(total(), target).trace
    rule = registered(rule_of(Honest))
    assert [i.name for i in default_schedule(total(), target).trace.instructions] == [
        "split", "rfactor",
    ]  # fmt: skip
    assert default_schedule(total(), target, numerics="bitwise").numerics == "bitwise"
    assert any("halves" in name for name in make_space(total(), CPU).sketches)
    forget_rule(rule)
    assert default_schedule(total(), target).trace == before
    registered(rule, first=False)
    assert default_schedule(total(), target).trace == before
    assert any("halves" in name for name in make_space(total(), CPU).sketches)


@dataclass(frozen=True)
class Numpy(Honest):
    """Its values are scalars of NumPy, whatever it is asked for."""

    choices: tuple[Choice, ...] = (Categorical("parts", (np.int64(2), np.int64(4))),)

    def default(self, constants=()):
        return {"parts": np.int64(4)}

    def draw(self, rng):
        return [np.int64(2)]


def test_values_of_a_plan_may_be_scalars_of_numpy(registered):
    registered(rule_of(Numpy))
    space = make_space(total(), CPU)
    name = next(name for name in space.sketches if "halves" in name)
    for candidate in (*default_candidates(space), space.sample(random.Random(0), name)):
        assert Candidate.from_json(json.loads(candidate.key)) == candidate
        assert space.contains(candidate)


def test_what_cannot_be_registered_says_why(registered):
    rule = registered(rule_of(Honest))
    with pytest.raises(TensorIRError, match="rule 'halves' is registered already"):
        register_rule(rule)
    with pytest.raises(TensorIRError, match="no rules for 'tpu'; there are for cpu, gpu"):
        register_rule(rule_of(Honest), kind="tpu")
    with pytest.raises(TensorIRError, match="5 is no rule: give a function"):
        register_rule(5)  # type: ignore[arg-type]
    with pytest.raises(TensorIRError, match="'halves' is not registered"):
        forget_rule(rule_of(Honest))


GPUS = ["cuda -arch=sm_80", "cuda-emulator", "opencl"]


@pytest.mark.parametrize("text", GPUS)
def test_no_rule_for_processors_is_offered_to_a_gpu(text):
    device = device_of(Target.parse(text))
    assert device.kind == "gpu"
    rules, others = rules_for(device), RULES["cpu"]
    own = {*rules.groups, *rules.chains, *rules.stages, rules.rest}
    assert not own & {*others.groups, *others.chains, *others.stages, others.rest}


def test_a_kind_without_rules_says_which_have_some(monkeypatch):
    monkeypatch.delitem(RULES, "gpu")
    with pytest.raises(TensorIRError, match="no scheduling rules for 'gpu', so none for 'opencl'"):
        make_space(total(), device_of(Target.parse("opencl")))


@pytest.mark.parametrize("arch", [*ARCHITECTURES, None])
def test_what_a_gpu_has(arch):
    """A tile of 64 rows of 32 floats fits, and neighbouring lanes read whole sectors."""
    text = "opencl" if arch is None else f"cuda -arch={arch}"
    gpu = device_of(Target.parse(text))
    assert gpu.elements("float32") == 4 and gpu.elements("float16", "float64") == 2
    assert gpu.threads_per_block >= 256 and gpu.registers_per_thread >= 64
    assert 64 * 32 * 4 <= gpu.shared_bytes <= gpu.shared_most
    assert gpu.warp * 4 % gpu.sector_bytes == 0 and gpu.banks * gpu.bank_bytes == gpu.warp * 4
    assert gpu.blocks_at_once(256, 32, gpu.shared_bytes) >= 1
    assert gpu.shuffles == (arch is not None)


def test_what_a_processor_has():
    cpu = device_of(Target(vector_bits=256, threads=3, features=("fma",), l1d=1 << 15))
    assert cpu.kind == "cpu" and cpu.threads == 3 and cpu.l1_bytes == 1 << 15
    assert [cpu.lanes(t) for t in ("float32", "float64", "int8", "bfloat16")] == [8, 4, 32, 8]
    assert cpu.elements("float32") == 8 and cpu.elements("uint8", "float64") == 4
    assert cpu.elements("uint8") == 32
    assert cpu.registers == 16 and device_of(Target(vector_bits=256)).registers == 15
