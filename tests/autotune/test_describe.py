"""What a space says that it holds."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from autotune import search_space
from autotune.choices import Categorical, ImperfectTile, PerfectTile
from autotune.describe import amount, candidates, values_text
from autotune.search import SearchState
from autotune.space import Candidate, Infeasible, Sketch, Space
from autotune.tuning.result import TuneResult
from schedule import Refusal
from tensorir import Target, TensorIRError, te

TARGET = "c -vector_bits=128 -threads=2"


def sums(n=6):
    a, k, q = te.placeholder((n, 5, 7), name="A"), te.reduce_axis(5, "k"), te.reduce_axis(7, "q")
    b = te.compute((n,), lambda i: te.sum(a[i, k, q], axis=[k, q]), name="B")
    return te.create_prim_func([a, te.compute((n,), lambda i: b[i] * 2.0, name="C")], name="sums")


def test_a_space_tells_its_sketches_choices_and_sizes():
    space = search_space(sums(), TARGET)
    text = str(space.describe())
    assert text == repr(space.describe())
    assert text.startswith(f"{len(space.sketches)} sketches, {candidates(space.size())}\n")
    for sketch in space.sketches.values():
        assert f"\n{sketch.name}: {candidates(sketch.size())}\n" in text
        assert sketch.size() == prod(choice.size() for choice in sketch.choices)
        for choice in sketch.choices:
            line = rf"\n  {re.escape(choice.name)} +{re.escape(values_text(choice))}"
            assert re.search(line, text), choice
    assert "untouched: 1 candidate\n" in text
    assert "where a stage is computed" in text
    assert max(map(len, text.splitlines())) <= 110


def test_what_is_impossible_and_what_changes_sums_is_said():
    text = str(search_space(sums(), TARGET).describe())
    assert "sums are reassociated" in text
    assert "sums are reassociated" not in str(search_space(sums(), TARGET, "bitwise").describe())
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    text = str(search_space(te.create_prim_func([a, b, c]), TARGET).describe())
    assert "impossible: B elsewhere than at the root: it is an output" in text


def test_what_a_rule_goes_on_without_is_said():
    """Stages that would be too large an expression together stay apart."""
    made = [te.placeholder((8,), name="A")]
    for n in range(20):
        made.append(te.compute((8,), lambda i, a=made[-1]: a[i] * a[i], name=f"s{n}"))
    text = str(search_space(te.create_prim_func([made[0], made[-1]]), TARGET).describe())
    assert re.search(r"impossible: 's\d+' inline: .* operations, written out", text)


def test_values_are_told_by_kind():
    assert values_text(Categorical("c", ("a", 2, (3, 4)))) == "a | 2 | 3 4"
    assert values_text(Categorical("c", tuple(range(20)))).endswith("7 | ... (20 values)")
    assert values_text(PerfectTile("t", 12, 2)) == "12 as a product of 2 factors: 6 values"
    tile = ImperfectTile("t", 12, 3, (4, 8), (1, 2, 3))
    assert values_text(tile) == f"1 x 1 to 3, inner 4 of 12: {tile.size()} values"
    assert amount(1234) == "1,234" and amount(3 * 10**12) == "about 3e12"


def test_refusals_are_in_the_summary():
    """What could not be built, and why, is told with what a search found."""

    def build(decisions):
        if decisions["x"] > 1:
            raise Refusal(f"no {decisions['x'] % 5}")
        return decisions

    sketch = Sketch("s", (Categorical("x", tuple(range(8))),), build)
    state = SearchState(None, lambda built: np.zeros(1))
    for x in range(8):
        state.features(Space([sketch]), Candidate("s", (x,)))
    result = TuneResult(
        None, None, Target(), 2, 2, 1.0, (), None, "", {}, dict(state.refusals), state.builds
    )
    assert result.refused == "6 of 8 schedules that were made: 2 x no 2; 1 x no 0; 1 x no 1; " + (
        "2 other reasons"
    )
    assert TuneResult(None, None, Target(), 2, 2, 1.0, (), None, "", {}).refused == ""
    assert issubclass(Infeasible, TensorIRError)
