"""Interning: one object for each expression, also among threads, and none that nobody needs."""

from __future__ import annotations

import ast
import threading
import weakref

from source_tree import SOURCES, label, tree_of

from tensorir import Analyzer, Buffer, Load, Var, const, walk_exprs
from tensorir.interning import _entries
from tensorir.visit import map_loads, transform

i, j, n = Var("i"), Var("j"), Var("n")
A = Buffer("A", (16,), "int64")


def test_threads_get_the_same_node():
    """All threads build the same new expressions at once; each ends up with the same objects."""
    start, made = threading.Barrier(8), []

    def build() -> None:
        start.wait()
        made.append([i * number + j for number in range(10_000, 12_000)])

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    for nodes in zip(*made):
        assert all(node is nodes[0] for node in nodes)


def test_a_node_that_nobody_needs_goes_and_can_come_back(collect):
    node = i * 123_456_789
    gone = weakref.ref(node)
    del node
    collect()
    assert gone() is None
    again = i * 123_456_789
    assert again is i * 123_456_789
    assert repr(again) == "i * 123456789"


def test_the_table_does_not_grow_with_what_has_gone():
    before = len(_entries)
    for number in range(20_000, 40_000):
        _ = i + number
    assert len(_entries) < before + 5_000


def test_a_node_knows_its_variables_and_whether_it_loads():
    e = A[i + 1] * n + A[A[j]]
    for node in walk_exprs(e):
        below = list(walk_exprs(node))
        assert node.variables == {v for v in below if isinstance(v, Var)}
        assert node.has_loads == any(isinstance(v, Load) for v in below)
    assert not const(3).variables and i.variables == {i}


def test_map_loads_is_transform_for_rules_about_loads():
    def moved(e: Load) -> Load:
        return Load(A, (e.indices[0] + 1,))

    e = A[i] * n + A[A[j] + A[i]] - i // 2
    expected = transform(e, lambda node: moved(node) if isinstance(node, Load) else None)
    assert map_loads(e, moved, {}) is expected
    assert map_loads(i // 2, moved, {}) is i // 2


def test_copies_of_an_analyzer_share_conclusions_until_one_learns_more():
    first = Analyzer({i: 8})
    condition = i < 4
    assert not first.prove(condition)
    second = first.copy()
    second.bind(i, 4)
    assert second.prove(condition) and not first.prove(condition)
    known = first.assuming(condition)
    assert known.prove(condition) and not first.prove(condition)
    known.bind(i, 16)
    assert first.assuming(condition).bounds(i) == (0, 3)


def test_operands_are_looked_for_in_sets():
    """`in` of a tuple compares by `==`, which has no type for an int32 and a uint64."""
    wrong = [
        f"{label(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))
        for among in node.comparators
        if isinstance(among, (ast.Tuple, ast.List))
        if any(isinstance(e, ast.Attribute) and e.attr in ("a", "b", "value") for e in among.elts)
    ]
    assert not wrong
