"""What rules go on without is a refusal; a mistake of ours, or of who registered something, is
raised."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from source_tree import ROOT

from autotune.rules.group import attempt
from autotune.search.state import score
from autotune.space import Candidate, Sketch, Space
from schedule import Refusal, Schedule
from schedule.library import NoContraction, find_contraction
from schedule.library.all_or_nothing import all_or_nothing
from tensorir import PrimFunc, TensorIRError, VerifyError, te

FOLDERS = "autotune/rules", "autotune/search", "schedule/library"
BROAD = {"TensorIRError", "Exception", "BaseException"}


def _sources() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def _scaled() -> PrimFunc:
    x = te.placeholder((8, 8), name="x")
    return te.create_prim_func([x, te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="out")])


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    return {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def test_no_rule_takes_any_error_for_a_refusal() -> None:
    broad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and _caught(node) & BROAD and not _raises(node)
    ]
    assert _sources()
    assert broad == []


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.split("i", [3, -1, -1]),
        lambda sch: find_contraction(sch, "out"),
    ],
    ids=["primitive", "library"],
)
def test_a_refusal_is_told(step: Callable[[Schedule], object]) -> None:
    refused: dict[str, str] = {}
    assert not attempt(refused, "it", step, Schedule(_scaled()))
    assert refused["it"]


def _mistaken(sch: Schedule) -> None:
    sch.parallel("i")
    raise VerifyError("a program that does not verify")


def test_a_mistake_is_raised() -> None:
    refused: dict[str, str] = {}
    with pytest.raises(VerifyError):
        attempt(refused, "it", _mistaken, Schedule(_scaled()))
    assert not refused


def test_a_search_counts_refusals_and_raises_mistakes() -> None:
    """A schedule that is refused leaves a candidate out; one that does not verify, or a mistake in
    what finds its features, would leave all of a space out if it counted as that."""
    sch, it = Schedule(_scaled()), Candidate("it", ())

    def tried(step: Callable[[Schedule], object], extract: Callable[[Schedule], object]) -> object:
        space = Space([Sketch("it", (), lambda _: [step(sch.copy()), sch][1])])
        return score(space.build, extract, it)

    def features(made: Schedule) -> list[float]:
        return [1.0]

    assert "split" in tried(lambda sch: sch.split("i", [3, -1, -1]), features).refusal
    assert tried(lambda sch: sch, features).row == [1.0]
    for step, extract in ((_mistaken, features), (lambda sch: sch, _mistaken)):
        with pytest.raises(VerifyError):
            tried(step, extract)


@pytest.mark.parametrize("error", [VerifyError("it"), NoContraction("it"), KeyboardInterrupt()])
def test_all_steps_are_undone_whatever_is_raised(error: BaseException) -> None:
    sch = Schedule(_scaled())
    before = sch.func
    expected = Refusal if isinstance(error, Refusal) else type(error)
    with pytest.raises(expected), all_or_nothing(sch, "call()"):
        sch.parallel("i")
        raise error
    assert sch.func is before
    assert not issubclass(Refusal, VerifyError) and issubclass(Refusal, TensorIRError)
