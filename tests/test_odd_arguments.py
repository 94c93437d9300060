"""Public functions refuse arguments that make no sense with errors of ours, whatever these are."""

import functools
import inspect

import numpy as np
import pytest

import tensorir
from autotune import default_schedule, search_space
from autotune.rules import register_move, register_rule
from backends import (
    OutOfMemory,
    build,
    build_source,
    compare,
    interleave,
    measure,
    register_extern,
    register_intrinsic,
    resolve,
    source_text,
)
from schedule import Schedule, ScheduleError, Trace, create_schedule, library, minimize
from schedule.library import gpu
from tensorir import TensorIRError, lower, ops, register_algorithm, specialize, split_constants, te
from tests.odd import ODD, check_odd_arguments

A = te.placeholder((6, 8), name="A")
B = te.placeholder((8, 5), name="B")


def product():
    k = te.reduce_axis(8, name="k")
    C = te.compute((6, 5), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_prim_func([A, B, C], name="product")


K = te.reduce_axis(8, name="k")
USUAL = {
    te.placeholder: {"shape": (4,)},
    te.var: {"name": "n"},
    te.reduce_axis: {"extent": 4},
    te.compute: {"shape": (6,), "fcompute": lambda i: A[i, 0]},
    te.create_prim_func: {"args": [A, te.compute((6,), lambda i: A[i, 0], name="D")]},
    te.const: {"value": 1},
    te.sum: {"expr": A[0, K], "axis": K},
    te.prod: {"expr": A[0, K], "axis": K},
    te.cast: {"dtype": "int32", "value": A[0, 0]},
    te.philox: {"counter": (0, 0, 0, 0), "key": (0, 0)},
    te.random.uniform: {"seed": 1, "place": te.const(2)},
    te.random.normal: {"seed": 1, "place": te.const(2)},
    te.random.integers: {"seed": 1, "place": te.const(2), "count": 5},
    te.random.random_bits: {"seed": 1, "place": te.const(2)},
    te.random.numpy_bits: {"seed": 1, "place": te.const(2)},
    te.random.numpy_uniform: {"seed": 1, "place": te.const(2)},
}


@pytest.mark.parametrize("function", USUAL, ids=lambda f: f.__name__)
def test_expressions(function):
    usual = USUAL[function]
    assert set(usual) <= set(inspect.signature(function).parameters)
    check_odd_arguments(function, usual)


def test_what_a_compute_calls_is_the_callers():
    """An error inside of `fcompute` is that of who wrote it."""
    with pytest.raises(TypeError):
        te.compute((4,), lambda i: len(i))
    with pytest.raises(TensorIRError, match="fcompute of tensor 'C' is 3, no function of indices"):
        te.compute((4,), 3)


OF_SCHEDULES = [
    *(getattr(library, name) for name in (
        "find_contraction", "stage_axes", "in_axes", "with_result_on_axes", "find_winograd",
        "find_products", "tensorized_matmul", "tile", "cooperative_fetch",
    )),
    *(getattr(gpu, name) for name in (
        "boxes", "columns", "elementwise", "long_rows", "matmul", "online", "recurrence", "rows",
        "same_rows", "scan", "short_rows", "states_in_rows", "transpose", "turned_rows", "whole",
        "widest", "windows",
    )),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", OF_SCHEDULES, ids=lambda f: f.__name__)
def test_functions_of_schedules(function):
    func = product()

    @functools.wraps(function)
    def afresh(**given):
        sch = Schedule(func)
        try:
            return function(sch, **given)
        except TensorIRError:
            assert not len(sch.trace), "a part of what was refused is left"
            raise

    parameters = inspect.signature(function).parameters
    usual = {
        "block": "C", "intrinsic": "u8i8.dot_16x4", "features": ("avx2",), "sizes": (4, 4),
        "threads": (4, 4), "own": (1, 1), "x": "i", "y": "j", "x_factor": 2, "y_factor": 2,
    }  # fmt: skip
    missing = [k for k, p in parameters.items() if p.default is p.empty and k != "sch"]
    afresh.__signature__ = inspect.Signature([p for k, p in parameters.items() if k != "sch"])
    check_odd_arguments(afresh, {key: usual[key] for key in missing if key in usual})


def test_programs_and_operators():
    check_odd_arguments(specialize, {"func": product(), "sizes": {}})
    check_odd_arguments(ops.prim_func, {"name": "relu"})
    check_odd_arguments(Schedule(product()).undo, {})
    check_odd_arguments(Schedule(product()).follow, {})
    check_odd_arguments(Schedule(product()).apply_move, {})
    check_odd_arguments(minimize, {"failing": Schedule(product()), "predicate": lambda sch: True})


def test_times():
    timing = measure(float, repeats=2)
    check_odd_arguments(compare, {"a": timing, "b": timing})
    check_odd_arguments(measure, {"seconds": float, "limit_s": 0.01})


def of_programs():
    """Functions of `tensorir` that need a program and nothing else."""
    for name in dir(tensorir):
        function = getattr(tensorir, name)
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters.values()
            needed = [p for p in parameters if p.default is p.empty]
            if [str(p.annotation) for p in needed] == ["PrimFunc"]:
                yield pytest.param(function, needed[0].name, id=name)


@pytest.mark.parametrize(("function", "key"), list(of_programs()))
def test_functions_of_programs(function, key):
    check_odd_arguments(function, {key: product()})
    for odd in (None, A, product().body, Schedule(product())):
        with pytest.raises(TensorIRError, match="PrimFunc"):
            function(**{key: odd})


def test_lowering():
    target = resolve("c -threads=1")
    check_odd_arguments(lower, {"func": product(), "target": target})
    check_odd_arguments(tensorir.device_of, {"target": target})
    check_odd_arguments(split_constants, {"func": product(), "names": ["B"]})
    check_odd_arguments(source_text, {"program": product()})
    check_odd_arguments(build_source, {"func": product(), "source": source_text(product())})
    for odd in ({"until": "vectorise"}, {"without": ["unroll", "vectorise"]}):
        with pytest.raises(TensorIRError, match="no pass 'vectorise' for this target; it has .*, "):
            lower(product(), target, **odd)


@pytest.mark.parametrize("function", [default_schedule, search_space], ids=lambda f: f.__name__)
def test_schedules_by_rules(function):
    check_odd_arguments(function, {"func": product(), "target": "c -threads=1"})


@pytest.mark.parametrize("size", [2**45, 2**59, 2**61], ids=str)
def test_results_that_no_memory_holds(size):
    large = te.create_prim_func([te.compute((size,), lambda i: i, name="large")], name="large")
    with pytest.raises(OutOfMemory, match=f"no memory for an array of {8 * size} bytes"):
        build(large, "c -threads=1")()


@pytest.mark.parametrize(
    "query", ["get_block", "get_loops", "get_child_blocks", "get_producers", "get_consumers",
              "legal_moves", "explain"],
)  # fmt: skip
def test_questions_to_schedules(query):
    function = getattr(Schedule(product()), query)
    asks_more = query in ("legal_moves", "explain")
    check_odd_arguments(function, {"where": "C"} if asks_more else {})
    if asks_more:
        with pytest.raises(ScheduleError, match="'paralel' is no primitive; known are add_unit"):
            function("i", "paralel")


@pytest.mark.parametrize("request_of", ["withdraw", "undo"])
def test_taking_back_requests(request_of):
    C = te.compute((6,), lambda i: A[i, 0], name="C")
    check_odd_arguments(getattr(create_schedule(C.op), request_of), {})


def test_replaying():
    check_odd_arguments(Schedule(product()).apply, {"trace": Trace()})


@pytest.mark.parametrize("min_ms", [float("nan"), float("inf"), 0, -1])
def test_blocks_of_no_length_and_endless_ones(min_ms):
    kernel = build(product(), "c -threads=1")
    for timed in (kernel.time, functools.partial(interleave, [kernel])):
        with pytest.raises(TensorIRError, match="cannot be timed; both have to be positive"):
            timed(min_ms=min_ms)


def test_building_and_timing(tmp_path):
    func = product()
    for constants in ODD:
        try:
            build(func, "c -threads=1", constants=() if constants is None else constants)
        except TensorIRError as error:
            assert str(error)
    for how in ("cache", "timeout"):
        for value in ODD:
            fits = value is None if how == "cache" else isinstance(value, (int, float, np.integer))
            if not fits or how == "timeout" and not 0 < value < 1e9:
                with pytest.raises(TensorIRError, match=f"{how} is "):
                    build(func, "c -threads=1", **{how: value})
    kernel = build(func, "c -threads=1")
    a, b = np.ones((6, 8), "float32"), np.ones((8, 5), "float32")
    for key in ("repeats", "min_ms", "limit_s", "sizes"):
        for value in ODD:
            short = {"repeats": 1, "min_ms": 0.01, "limit_s": 0.0}
            if isinstance(value, (int, float)) and value > 1e6:
                continue  # they are asked to take that long
            try:
                kernel.time(a, b, **{**short, key: value})
            except TensorIRError as error:
                assert str(error)
    for folder in (None, 3, b"i"):
        with pytest.raises(TensorIRError, match="export: folder is .*, where a name or a path"):
            kernel.export(folder)
    taken = tmp_path / "file"
    taken.write_text("")
    for folder in (taken, taken / "below"):
        with pytest.raises(TensorIRError, match="kernel 'product' cannot be written to .*file"):
            kernel.export(folder)


@pytest.mark.parametrize(
    "register",
    [register_algorithm, register_extern, register_intrinsic, register_move, register_rule],
)
@pytest.mark.parametrize("given", [None, 3, "x", []], ids=repr)
def test_what_is_registered_is_of_its_kind(register, given):
    with pytest.raises(TensorIRError, match="is no .*: give a "):
        register(given)
