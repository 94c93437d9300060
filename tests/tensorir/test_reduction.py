"""Taking the init out of a reduction."""

from __future__ import annotations

import pytest

from tensorir import Block, For, PrimFunc, TensorIRError, walk
from tensorir.passes.rewriting import fresh_names
from tensorir.rewrite.reduction import loops_to, reduction_loop, split_init
from tensorir.stmt import seq
from tensorir.text.parser import parse

ROWS = """
@prim_func
def rows(A: f32[4, 8], C: f32[4]):
    for k_0 in range(2):
        for i_0 in parallel(2):
            for k_1, i_1 in grid(4, 2):
                with block("C"):
                    vi = spatial(4, i_0 * 2 + i_1)
                    vk = reduce(8, k_0 * 4 + k_1)
                    where({where})
                    with init():
                        C[vi] = 0.0
                    C[vi] = C[vi] + A[vi, vk]
"""


def nodes(func: PrimFunc) -> tuple[dict[str, For], Block]:
    loops = {s.name: s for s in walk(func.body) if isinstance(s, For)}
    block = next(s for s in walk(func.body) if isinstance(s, Block))
    return loops, block


def split(where: str, at: str) -> str:
    func = parse(ROWS.format(where=where).strip())
    loops, block = nodes(func)
    init, update = split_init(loops[at], block, fresh_names(func.body))
    text = repr(seq(init, update))
    assert text.count("with init()") == 0
    return text.split("\nfor k_")[0]


def test_repeats_the_spatial_loops_with_their_kinds() -> None:
    assert split("i_0 * 2 + i_1 < 3 and k_0 * 4 + k_1 < 7", "k_0") == (
        "for i_0_init in parallel(2):\n"
        "    for i_1_init in range(2):\n"
        '        with block("C_init"):\n'
        "            vi = spatial(4, i_0_init * 2 + i_1_init)\n"
        "            where(i_0_init * 2 + i_1_init < 3)\n"
        "            C[vi] = 0.0"
    )


def test_condition_on_a_lost_and_a_kept_loop_guards_the_range() -> None:
    text = split("i_1 + k_1 < 4", "k_0")
    assert "where(i_0_init * 2 + i_1_init < 4)" in text


def test_outer_reductions_do_not_bear_on_an_init() -> None:
    text = split("i_1 < 2", "k_1")
    assert "where(i_1_init < 2)" in text
    assert "i_0_init" not in text


def test_names_are_fresh() -> None:
    func = parse(ROWS.replace("i_1", "i_0_init").format(where="True").strip())
    loops, block = nodes(func)
    init, _ = split_init(loops["k_0"], block, fresh_names(func.body))
    names = [s.name for s in walk(init) if isinstance(s, (For, Block))]
    assert names == ["i_0_init_1", "i_0_init_init", "C_init"]


def test_reduction_over_constants_splits_at_the_block() -> None:
    text = """
@prim_func
def one(A: f32[4], C: f32[4]):
    for i in range(4):
        with block("C"):
            vi = spatial(4, i)
            vk = reduce(1, 0)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi]
"""
    func = parse(text.strip())
    loops, block = nodes(func)
    assert reduction_loop([loops["i"]], block) is None
    init, update = split_init(block, block, fresh_names(func.body))
    assert isinstance(init, Block) and init.name == "C_init" and len(init.iters) == 1
    assert isinstance(update, Block) and update.init is None and update.name == "C"


def test_reduction_loop_is_the_outermost_that_feeds_it() -> None:
    loops, block = nodes(parse(ROWS.format(where="True").strip()))
    path = loops_to(loops["k_0"], block)
    assert path is not None and [loop.name for loop in path] == ["k_0", "i_0", "k_1", "i_1"]
    assert reduction_loop(path, block) is loops["k_0"]
    assert reduction_loop(path[1:], block) is loops["k_1"]
    assert loops_to(block, loops["k_0"]) is None  # type: ignore[arg-type]


def test_block_without_init_is_refused() -> None:
    func = parse(ROWS.format(where="True").strip())
    loops, block = nodes(func)
    _, update = split_init(loops["k_0"], block, fresh_names(func.body))
    bare = next(s for s in walk(update) if isinstance(s, Block))
    with pytest.raises(TensorIRError, match="block 'C' has no init"):
        split_init(loops["k_0"], bare, fresh_names(func.body))


def test_block_outside_of_the_loop_is_refused() -> None:
    func = parse(ROWS.format(where="True").strip())
    other = parse(ROWS.format(where="True").strip())
    with pytest.raises(TensorIRError, match="block 'C' is not inside loop 'k_0'"):
        split_init(nodes(func)[0]["k_0"], nodes(other)[1], fresh_names(func.body))
