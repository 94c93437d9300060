"""legal_moves lists only what is accepted, and explain says why other things are not."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from schedule import REGISTRY, LegalCall, Schedule, ScheduleError
from schedule.checks.annotations import KEYS
from schedule.requests.candidates import candidates
from schedule.requests.layout_candidates import VALUES
from tests import counted

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
from random_schedules import Stress  # noqa: E402


def calls(moves):
    return [str(move) for move in moves]


def test_every_listed_move_is_accepted(matmul, chain, conv):
    for make in (matmul, chain, conv):
        sch = Schedule(make())
        moves = sch.legal_moves()
        assert len(moves) > 20
        for move in moves:
            copy = sch.copy()
            copy.apply_move(move)
            assert len(copy.trace) == 1
        assert len(sch.trace) == 0


@pytest.mark.parametrize("seed", (1, 3))
def test_listed_moves_of_random_schedules_are_accepted(seed):
    pick = random.Random(seed).choice
    stress = Stress(pick)
    sch = Schedule(stress.workload())
    for _ in range(6):
        moves = sch.legal_moves()
        for move in moves:
            sch.copy().apply_move(move)
        if not moves:
            break
        sch.apply_move(pick(moves))


def test_moves_at_a_loop(matmul):
    sch = Schedule(matmul())
    found = calls(sch.legal_moves("k"))
    assert "split('k', [None, 4])" in found and "unroll('k')" in found
    assert "reorder('k', 'j')" in found
    assert not [c for c in found if c.startswith(("parallel", "vectorize"))]
    assert all("'k'" in c for c in found)
    assert "parallel('i')" in calls(sch.legal_moves("i"))


def test_moves_at_a_block(conv):
    sch = Schedule(conv())
    found = calls(sch.legal_moves("pad"))
    assert "compute_inline('pad')" in found and "compute_at('pad', 'i_conv')" in found
    assert "cache_read('pad', 'A')" in found
    assert "cache_read('conv', 'pad')" not in found, "that is about the buffer of this name"


def test_moves_of_one_primitive(conv):
    sch = Schedule(conv())
    assert sch.legal_moves(name="compute_at") == [
        LegalCall("compute_at", ("pad", "i_conv")),
        LegalCall("compute_at", ("pad", "r")),
        LegalCall("compute_at", ("conv", "i_relu")),
    ]


def test_useful_moves_come_first(matmul):
    """In the order of the table of Schedule; GPU threads last, where the program has none."""
    sch = Schedule(matmul())
    names = list(dict.fromkeys(move.name for move in sch.legal_moves()))
    assert names[:5] == ["split", "fuse", "reorder", "parallel", "vectorize"]
    assert names[-1] == "bind" and names.index("add_unit_loop") > names.index("cache_write")
    explained = list(dict.fromkeys(verdict.name for verdict in sch.explain("i")))
    assert explained[0] == "split" and explained[-1] == "bind"
    sch.bind("i", "threadIdx.x")
    names = list(dict.fromkeys(verdict.name for verdict in sch.explain("j")))
    assert names[-1] != "bind"


def test_a_name_that_is_neither(matmul):
    sch = Schedule(matmul())
    for query in (sch.legal_moves, sch.explain):
        with pytest.raises(ScheduleError, match="there is no loop or block 'q'"):
            query("q")
    sch.split("i", [None, 2])
    with pytest.raises(ScheduleError, match="'i' no longer exists: step 1, split, made i_0, i_1"):
        sch.legal_moves("i")


def test_explain_a_loop(matmul):
    found = Schedule(matmul()).explain("k")
    text = str(found)
    assert "parallel             ('k') no: loop 'k' is a reduction of block 'C' (rfactor" in text
    assert "unroll               ('k') ok" in text
    assert LegalCall("unroll", ("k",)) in found.legal
    assert "prim_func" not in text


def test_explain_a_primitive(conv):
    sch = Schedule(conv())
    (verdict,) = sch.explain("r", "parallel")
    assert not verdict.legal and verdict.reason == "loop 'r' is a reduction of block 'conv'"
    assert str(sch.explain("i", "parallel")) == "parallel             ('i') ok"


def test_explain_a_call(conv):
    sch = Schedule(conv())
    (verdict,) = sch.explain("conv", "compute_at", "i")
    assert verdict.reason == "reader 'relu' of 'conv' is outside loop 'i'"
    assert verdict.hint == "loops that cover its readers: i_relu"
    (verdict,) = sch.explain("i", "split", [None, 0])
    assert verdict.reason == "factor 0 is not a positive integer"
    (verdict,) = sch.explain("i", "split", [None, 2], 3)
    assert verdict.reason is not None and "too many positional arguments" in verdict.reason
    assert sch.explain("i", "split", [None, 2]).legal == [LegalCall("split", ("i", [None, 2]))]


def test_moves_and_explanations_change_nothing(conv):
    sch = Schedule(conv())
    before, trace = sch.func, sch.trace
    sch.legal_moves()
    sch.explain("r")
    assert sch.func is before and sch.trace is trace


def test_legal_moves_are_quick(conv):
    state = Schedule(conv())
    state.legal_moves()
    assert counted.calls(state.legal_moves, counted.PYTHON) < 100_000


def test_primitives_have_candidates(conv):
    """All but those that draw decisions, which change no program."""
    sch = Schedule(conv(11, 4))
    sch.unroll("r")
    sch.annotate("r", "unroll_limit", 3)
    sch.compute_at("pad", "i_conv")
    without = {n for n in REGISTRY if not list(candidates(sch.state, n))}
    assert without <= {n for n in REGISTRY if n.startswith("sample_")} | {
        "cache_value",
        "reassociate",
        "regroup",
        "storage_align",
        "transform_layout",
    }
    assert list(candidates(Schedule(conv(14)).state, "transform_layout"))


def test_moves_that_need_values(matmul, chain):
    sch = Schedule(matmul(6, 10, 8))
    assert LegalCall("pad_einsum", ("C", [4, 4, 4])) in sch.legal_moves(name="pad_einsum")
    sch.reorder("k", "j")
    sch.decompose_reduction("C", "i")
    sch.split("j", [None, 2])
    sch.split("k", [None, 4])
    assert sch.legal_moves(name="tensorize") == []
    sch = Schedule(matmul(6, 8, 8))
    sch.decompose_reduction("C", "i")
    sch.reorder("k", "j")
    assert LegalCall("tensorize", ("j", "f32.fma_8")) in sch.legal_moves(name="tensorize")
    sch = Schedule(chain(12, 8))
    found = calls(sch.legal_moves("B"))
    assert "transform_layout('B', 'B', 'i0, i1: i1, i0')" in found
    assert "transform_layout('B', 'B', 'i0, i1: i1 // 4, i0, i1 % 4')" in found
    assert "storage_align('B', 'B', 0, 16, 0)" in found
    assert sch.legal_moves(name="annotate") == [] == sch.legal_moves(name="pipeline")
    sch.compute_at("B", "i_C")
    assert sch.legal_moves(name="pipeline") == [LegalCall("pipeline", ("i_C", [0, 1]))]
    sch.parallel("i_C")
    assert LegalCall("annotate", ("i_C", "schedule", "dynamic")) in sch.legal_moves("i_C")


def test_every_key_has_values_to_try():
    assert VALUES.keys() == KEYS.keys()
    assert all(KEYS[key].accepts(value) for key in KEYS for value in VALUES[key])


def test_an_error_lists_where_the_block_could_go(chain):
    """Loops around all readers, and those of them that accept it."""
    sch = Schedule(chain())
    with pytest.raises(ScheduleError) as refused:
        sch.compute_at("B", "i_D")
    assert refused.value.hint == "loops that cover its readers: i_C, j_C"
    sch.vectorize("j_C")
    with pytest.raises(ScheduleError) as refused:
        sch.compute_at("B", "i_D")
    assert refused.value.hint == "loops that cover its readers: i_C, j_C; legal: i_C"
    assert "hint: loops that cover its readers: i_C, j_C; legal: i_C" in str(refused.value)
