"""Arguments of primitives that are of the wrong type are refused in words, whatever they are."""

import enum
import inspect
import json
from collections.abc import Sequence
from typing import Union

import numpy as np
import pytest

import schedule.primitives  # noqa: F401
from schedule import Schedule, ScheduleError, Trace
from schedule.arguments import KINDS, kinds
from schedule.primitive import REGISTRY
from schedule.state import LoopRef
from tensorir import Target, TensorIRError, alternatives, annotation_text, lower, te

ODD = (
    None, True, 3, -1, 0, 2.5, float("nan"), "x", "i", "B", "", [], ["i"], ["i", "j"], [3], [None],
    [None, 2.5], [[1]], {}, {"a": 1}, object(), np.int64(2), np.array([1, 2]), np.array(3.0),
    te.const(2, "int64"), lambda a, b: (b, a), lambda *a: a, len, b"i", 1 + 2j, 10**30,
    2**63 - 4, [2**62, 8], [None, 10**30], float("inf"), [2.5, float("-inf")],
)  # fmt: skip


@pytest.fixture
def func():
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis(8, name="k")
    C = te.compute((6,), lambda i: te.sum(B[i, k], axis=k), name="C")
    return te.create_prim_func([A, C], name="f")


def usual(name):
    """Arguments of the right types for each parameter of a primitive."""
    known = {
        "block": "B", "block_or_loop": "B", "loop": "i", "over": "j", "buffer": 0, "loops": "i",
        "factors": [None, 2], "thread": "blockIdx.x", "key": "pragma", "value": 1, "scope": "local",
        "reduction": "C", "epilogue": "B", "padding": [2, 2], "stages": [0, 1], "n": 2,
        "options": [1, 2], "axis": 0, "factor": 4, "intrinsic": "dot", "index_map": "i, j: j, i",
        "algorithm": "im2col",
    }  # fmt: skip
    found = {}
    for key, parameter in list(inspect.signature(REGISTRY[name]).parameters.items())[1:]:
        if parameter.default is parameter.empty:
            found[key] = known.get(key, 1)
    return found


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_odd_arguments_are_refused_in_words(func, name):
    """Accepted or refused with a ScheduleError, and never another exception; by replay as well."""
    sch = Schedule(func)
    tensor = te.placeholder((4,), name="T")
    for key in inspect.signature(REGISTRY[name]).parameters:
        if key == "state":
            continue
        for value in (*ODD, tensor, tensor[0], te.var("n")):
            given = {**usual(name), key: value}
            before = sch.trace
            try:
                if "loops" in given:
                    getattr(sch, name)(given["loops"])
                else:
                    getattr(sch, name)(**given)
            except ScheduleError as error:
                assert error.headline and "\n" not in error.headline
                assert sch.trace is before
            else:
                assert Trace.from_json(sch.trace.dumps()).dumps() == sch.trace.dumps()
                read = Trace.from_python(sch.trace.as_python()).instructions
                steps = sch.trace.instructions
                assert [(s.name, s.args) for s in read] == [(s.name, s.args) for s in steps]
            sch = Schedule(func)
            _replay(func, name, given)


def _replay(func, name, given):
    """A trace of another hand, with whatever JSON has there."""
    try:
        text = json.dumps([[name, given, None]])
    except TypeError:
        return
    try:
        Schedule(func).apply(Trace.from_json(text))
    except TensorIRError:
        pass


def test_every_annotation_is_known():
    for fn in REGISTRY.values():
        for parameter in list(inspect.signature(fn).parameters.values())[1:]:
            assert set(alternatives(annotation_text(parameter.annotation))) <= set(KINDS)


@pytest.mark.parametrize(
    "annotation, words",
    [
        (LoopRef, "the name of a loop"),
        (str, "a name"),
        (int | None, "an integer or None"),
        ("schedule.state.BlockRef", "the name of a block"),
        ("typing.Optional[int]", "an integer or None"),
        (Union[str, int], "a name or an integer"),
        ("str | int", "a name or an integer"),
        (Sequence[int], "a list of integers, such as [8, 4],"),
        (list[int], "anything"),
        (inspect.Parameter.empty, "anything"),
    ],
)
def test_annotations_may_be_objects(annotation, words):
    assert kinds(annotation_text(annotation))[1] == words


@pytest.mark.parametrize(
    "request_, words",
    [
        (lambda s: s.split("i", 8), r"split\('i', 8\): factors is 8, where a list of integers"),
        (lambda s: s.partition("i", 3), "factors is 3, where a list of integers"),
        (lambda s: s.sample_categorical(3), "options is 3, where a list of numbers or strings"),
        (lambda s: s.pad_einsum("C", 3), r"padding is 3, where a list of integers, such as \[8, 4"),
        (lambda s: s.split("i"), r"missing a required argument: 'factors'; it takes \(loop, fac"),
        (lambda s: s.split("i", [2, 3], unknown=1), "unexpected keyword argument 'unknown'"),
        (lambda s: s.parallel(3), "loop is 3, where a name belongs"),
        (lambda s: s.reorder("i", 3), "loops is 3, where a name belongs"),
        (lambda s: s.rfactor("C", "k", "last"), "factor_axis is 'last', where an integer belongs"),
        (lambda s: s.cache_read("B", 1.5), "buffer is 1.5, where a name or an integer belongs"),
    ],
)
def test_the_refusal_names_the_argument(func, request_, words):
    with pytest.raises(ScheduleError, match="(?s)" + words.replace("; it takes", ".*it takes")):
        request_(Schedule(func))


def test_lists_of_loops(func):
    """What get_loops returns may be given as it is."""
    one, other = Schedule(func), Schedule(func)
    one.fuse("i", "j")
    other.fuse(other.get_loops("B"))
    assert str(one.func) == str(other.func) and one.trace == other.trace
    one, other = Schedule(func), Schedule(func)
    one.reorder("j", "i")
    other.reorder(["j", "i"])
    assert str(one.func) == str(other.func) and one.trace == other.trace


def test_factors_of_other_kinds_of_numbers(func):
    made = []
    for two in (2, np.int32(2), te.const(2, "int32"), te.const(2, "int64")):
        sch = Schedule(func)
        sch.split("i", [None, two])
        made.append(str(sch.func))
    sch = Schedule(func)
    sch.split("i", np.array([3, 2]))
    assert len(set(made)) == 1 and str(sch.func) == made[0]


class Three(enum.IntEnum):
    """Prints as a name."""

    VALUE = 3


class Name(str, enum.Enum):
    """Is not what `str` says of it."""

    FIRST = "i"


@pytest.mark.parametrize("number", [np.float64(3), np.float64(-0.0), np.float16(3), Three.VALUE])
@pytest.mark.parametrize("name", [np.str_("i"), Name.FIRST])
def test_what_is_a_kind_of_a_literal_is_a_literal_in_a_trace(func, number, name):
    """NumPy's float64 is a float of Python's, and prints otherwise."""
    sch = Schedule(func)
    sch.split(name, [None, Three.VALUE])
    sch.transform_layout("B", "B", "i, j: i, j // 5, j % 5", number)
    again = Schedule(func).apply(Trace.from_python(sch.trace.as_python()))
    assert again.trace == sch.trace == Trace.from_json(sch.trace.dumps())
    assert str(again.func) == str(sch.func)


def test_numbers_that_python_does_not_have_are_no_literals(func):
    with pytest.raises(ScheduleError, match="neither a name nor a literal"):
        Schedule(func).transform_layout("B", "B", "i, j: j, i", np.longdouble(1.5))


def test_traces_of_the_wrong_arguments():
    for text in ("sch.split('i')", "sch.split('i', 8)", "sch.fuse(loop='i')", "sch.parallel()"):
        with pytest.raises(TensorIRError, match="split|fuse|parallel"):
            Trace.from_python(text)


@pytest.mark.parametrize("number", [62, 63, 100, 2**62, 2**63 - 1, 10**30])
def test_large_numbers_are_refused_or_lowered(func, number):
    """No pass meets a number that int64 does not hold."""
    requests = [
        lambda s: s.prefetch("B", "A", "i", number),
        lambda s: s.spread_prefetch("B", "A", "i", "j", number),
        lambda s: s.swizzle("C", "B", 1, 0, number),
        lambda s: s.swizzle("C", "B", number, 0, 1),
        lambda s: s.storage_align("C", "B", 0, number),
        lambda s: s.shift("j", number),
        lambda s: s.split("i", [None, number]),
        lambda s: s.partition("i", [number, None]),
        lambda s: s.transform_layout("B", "B", "i, j: j, i", number),
    ]
    for ask in requests:
        sch = Schedule(func)
        try:
            ask(sch)
        except ScheduleError as error:
            assert str(number) in error.headline
        else:
            lower(sch.func, Target("c"))
