"""sample_perfect_tile, sample_categorical and sample_compute_location: decisions in the trace."""

from __future__ import annotations

import json
from collections import Counter
from math import prod

import pytest
from refusal import refused

from schedule import Schedule, ScheduleError, Trace
from tensorir import te


def replays(sch):
    """JSON and Python give the same program, and the same trace."""
    for trace in (Trace.from_json(sch.trace.dumps()), Trace.from_python(sch.trace.as_python())):
        again = Schedule(sch.definition, seed=99).apply(trace)
        assert str(again.func) == str(sch.func)
        assert again.trace.dumps() == sch.trace.dumps()


class TestPerfectTile:
    def test_splits(self, matmul, check):
        sch = Schedule(matmul(24, 10, 7), seed=3)
        factors = sch.sample_perfect_tile("i", 3, max_innermost=4)
        assert len(factors) == 3 and prod(factors) == 24 and factors[-1] <= 4
        sch.split("i", factors)
        check(sch)
        replays(sch)

    def test_the_trace_holds_what_was_drawn(self, matmul):
        sch = Schedule(matmul(24, 10, 7), seed=1)
        factors = sch.sample_perfect_tile("i", 2)
        (step,) = json.loads(sch.trace.dumps())
        assert step == ["sample_perfect_tile", {"loop": "i", "n": 2, "decision": factors}, factors]
        assert sch.trace.as_python() == (
            f"sch.sample_perfect_tile('i', n=2, decision={factors})"
            f"  # -> {factors[0]}, {factors[1]}"
        )

    def test_all_factorizations_are_equally_likely(self, matmul):
        sch = Schedule(matmul(12, 10, 7))
        drawn = Counter(tuple(sch.sample_perfect_tile("i", 3)) for _ in range(1800))
        assert len(drawn) == 18
        assert min(drawn.values()) > 50 and max(drawn.values()) < 160
        drawn = Counter(tuple(sch.sample_perfect_tile("i", 2, 3)) for _ in range(60))
        assert set(drawn) == {(12, 1), (6, 2), (4, 3)}

    def test_one_part_and_one_iteration(self, matmul):
        sch = Schedule(matmul(1, 10, 7))
        assert sch.sample_perfect_tile("i", 4) == [1, 1, 1, 1]
        assert sch.sample_perfect_tile("j", 1) == [10]

    def test_decision(self, matmul):
        sch = Schedule(matmul())
        assert sch.sample_perfect_tile("i", 2, decision=[3, 2]) == [3, 2]
        replays(sch)
        for wrong in ([2, 2], [6], [6, 1, 1], [-2, -3]):
            refused(sch.sample_perfect_tile, "i", 2, decision=wrong, match="is not 2 positive int")
        refused(sch.sample_perfect_tile, "i", 2, decision=[True, 6], match="a list of integers")
        refused(sch.sample_perfect_tile, "i", 2, 2, [2, 3], match="innermost .* is larger than 2")

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.sample_perfect_tile, "q", 2, match="no loop 'q'")
        refused(sch.sample_perfect_tile, "i", 0, match="n = 0 is not a positive integer")
        refused(sch.sample_perfect_tile, "i", 65, match="n = 65 are more factors than 64")
        refused(sch.sample_perfect_tile, "i", 2, 0, match="max_innermost = 0 is not a positive")
        refused(sch.sample_perfect_tile, "i", 1, 4, match="one factor of 6 iterations would be lar")
        n = te.var("n")
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i], name="B")
        sch = Schedule(te.create_prim_func([a, b], name="symbolic"))
        refused(sch.sample_perfect_tile, "i", 2, match="extent n of loop 'i' is no positive number")


class TestCategorical:
    def test_weights(self, matmul):
        sch = Schedule(matmul())
        drawn = Counter(sch.sample_categorical([4, "x", 0.5], [1, 3, 0]) for _ in range(400))
        assert set(drawn) == {4, "x"} and 60 < drawn[4] < 140
        replays(sch)

    def test_decides_a_factor(self, matmul, check):
        sch = Schedule(matmul())
        size = sch.sample_categorical([2, 4, 8])
        sch.split("j", [None, size])
        assert sch.trace.instructions[0].outputs == size
        check(sch)
        replays(sch)

    def test_decision(self, matmul):
        sch = Schedule(matmul())
        assert sch.sample_categorical([2, 4, 8], decision=1) == 4
        for wrong in (3, -1):
            refused(sch.sample_categorical, [2, 4, 8], decision=wrong, match="is no position of")
        refused(sch.sample_categorical, [2, 4], [0, 1], 0, match="with a weight above 0")

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.sample_categorical, [], match="there are no options")
        refused(sch.sample_categorical, [None], match="are not finite numbers or strings")
        refused(sch.sample_categorical, [float("inf")], match="are not finite numbers or")
        refused(sch.sample_categorical, [1, 2], [1], match="2 options have 1 weights")
        for weights in ([0, 0], [-1, 2], [1, float("inf")], ["a", 1]):
            refused(sch.sample_categorical, [1, 2], weights, match="negative, infinite or all 0")


class TestComputeLocation:
    def test_places(self, chain, check):
        sch = Schedule(chain())
        drawn = {sch.sample_compute_location("B") for _ in range(60)}
        assert drawn == {None, "i_C", "j_C"}
        assert {sch.sample_compute_location("D") for _ in range(5)} == {None}
        loop = sch.sample_compute_location("C", decision="j_D")
        sch.compute_at("C", loop)
        check(sch)
        replays(sch)

    def test_refuses(self, chain):
        sch = Schedule(chain())
        refused(sch.sample_compute_location, "Z", match="no block 'Z'")
        refused(
            sch.sample_compute_location,
            "B",
            decision="i_D",
            match="(?s)'B' cannot be computed at 'i_D'.*places are root, i_C, j_C",
        )


class TestGenerator:
    def test_seeds(self, matmul):
        def draws(seed):
            sch = Schedule(matmul(720, 10, 7), seed=seed)
            return [sch.sample_perfect_tile("i", 4) for _ in range(5)]

        assert draws(5) == draws(5) != draws(6)

    def test_copies_go_on_alike_and_apart(self, matmul):
        sch = Schedule(matmul(720, 10, 7))
        sch.sample_perfect_tile("i", 4)
        other = sch.copy()
        mine = [sch.sample_perfect_tile("i", 4) for _ in range(3)]
        assert [other.sample_perfect_tile("i", 4) for _ in range(3)] == mine

    def test_replay_of_another_decision(self, matmul):
        sch = Schedule(matmul())
        sch.sample_perfect_tile("i", 2, decision=[3, 2])
        rows = sch.trace.as_json()
        rows[0][2] = [2, 3]
        with pytest.raises(ScheduleError, match=r"gave \['3', '2'\] where the trace has"):
            Schedule(matmul()).apply(Trace.from_json(rows))

    def test_replay_needs_a_decision(self, matmul):
        trace = Trace.from_python("sch.sample_perfect_tile('i', n=2)")
        with pytest.raises(ScheduleError, match="there is no decision, and nothing here draws one"):
            Schedule(matmul()).apply(trace)


def test_golden(golden):
    """What is decided by drawing, as a trace and as the program that it makes."""
    A = te.placeholder((24, 16), name="A")
    B = te.compute((24, 16), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((24, 16), lambda i, j: B[i, j] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([A, C], name="drawn"), seed=5)
    sch.split("i_C", sch.sample_perfect_tile("i_C", 2, max_innermost=8))
    sch.split("j_C", [None, sch.sample_categorical([2, 4, 8])])
    spot = sch.sample_compute_location("B")
    if spot is not None:
        sch.compute_at("B", spot)
    golden(f"{sch.trace.as_python()}\n\n{sch.func}", "samples")
    replays(sch)
