"""Writes docs/primitives.md from the docstrings of the primitives, with examples that it runs.

    python docs/generate_primitives.py

tests/schedule/test_reference_page.py fails where the page is not what this writes.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from schedule import REGISTRY, Schedule  # noqa: E402
from tensorir import PrimFunc, te  # noqa: E402

PAGE = ROOT / "docs" / "primitives.md"


def copy(n: Any = 10) -> PrimFunc:
    a = te.placeholder((n,), name="A")
    return te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")], name="copy")


def plane() -> PrimFunc:
    a = te.placeholder((3, 4), name="A")
    b = te.compute((3, 4), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, b], name="plane")


def rows_of_13() -> PrimFunc:
    a = te.placeholder((3, 13), name="A")
    b = te.compute((3, 13), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, b], name="rows")


def chain() -> PrimFunc:
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] * 2.0, name="C")
    return te.create_prim_func([a, c], name="chain")


def beside() -> PrimFunc:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: a[i] * 2.0, name="C")
    return te.create_prim_func([a, b, c], name="beside")


def matmul(n: int = 8, m: int = 8, r: int = 8) -> PrimFunc:
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def scaled_matmul() -> PrimFunc:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 4), name="B")
    s, k = te.placeholder((8,), name="s"), te.reduce_axis(8, name="k")
    c = te.compute((4, 4), lambda i, j: te.sum(a[i, k] * b[k, j] * s[k], axis=k), name="C")
    return te.create_prim_func([a, b, s, c], name="scaled_matmul")


def differences() -> PrimFunc:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8,), name="b")
    c, d = te.placeholder((4, 8), name="C"), te.placeholder((8,), name="d")
    k = te.reduce_axis(8, name="k")
    e = te.compute((4,), lambda i: te.sum(a[i, k] * b[k] - c[i, k] * d[k], axis=k), name="E")
    return te.create_prim_func([a, b, c, d, e], name="differences")


def row_sums() -> PrimFunc:
    a, bias = te.placeholder((4, 8), name="A"), te.placeholder((4,), name="bias")
    k = te.reduce_axis(8, name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((4,), lambda i: c[i] + bias[i], name="D")
    return te.create_prim_func([a, bias, d], name="row_sums")


def window() -> PrimFunc:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2.0, name="B")
    r = te.reduce_axis(3, name="r")
    c = te.compute((8,), lambda i: te.sum(b[i + r], axis=r), name="C")
    return te.create_prim_func([a, c], name="window")


def every_second() -> PrimFunc:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: te.exp(a[i]), name="B")
    c = te.compute((6,), lambda i: b[i * 2 + 3] * 2.0, name="C")
    return te.create_prim_func([a, c], name="every_second")


def histogram() -> PrimFunc:
    x, w = te.placeholder((100,), "int32", name="x"), te.placeholder((100,), name="w")
    k = te.reduce_axis(100, name="k")
    h = te.compute((16,), lambda b: te.sum(te.if_then_else(x[k] == b, w[k], 0.0), axis=k), name="h")
    return te.create_prim_func([x, w, h], name="histogram")


def padded() -> PrimFunc:
    a = te.placeholder((6,), name="A")
    inside = te.compute(
        (8,),
        lambda i: te.if_then_else(te.all(i >= 1, i < 7), a[i - 1], 0.0),
        name="P",
    )
    c = te.compute((8,), lambda i: inside[i] * 2.0, name="C")
    return te.create_prim_func([a, c], name="padded")


Example = tuple[PrimFunc, str, str]


def examples() -> dict[str, Example]:
    """For each primitive a program, steps that prepare it, and the call that is shown."""
    return {
        "add_unit_loop": (copy(), "", 'sch.add_unit_loop("B")'),
        "annotate": (copy(), 'sch.parallel("i")', 'sch.annotate("i", "schedule", "dynamic")'),
        "bind": (plane(), "", 'sch.bind("i", "blockIdx.x")'),
        "blockize": (copy(8), 'sch.split("i", [None, 4])', 'sch.blockize("i_1")'),
        "cache_read": (row_sums(), "", 'sch.cache_read("C", "A", "local")'),
        "cache_value": (
            scaled_matmul(), 'sch.regroup("C", [[0], [1, 2]])', 'sch.cache_value("C", [1, 1])'
        ),
        "cache_write": (row_sums(), "", 'sch.cache_write("C", "C", "local")'),
        "compute_at": (window(), "", 'sch.compute_at("B", "i_C")'),
        "compute_inline": (chain(), "", 'sch.compute_inline("B")'),
        "decompose_padding": (padded(), "", 'sch.decompose_padding("P", "i")'),
        "decompose_reduction": (row_sums(), "", 'sch.decompose_reduction("C", "i")'),
        "double_buffer": (chain(), 'sch.compute_at("B", "i_C")', 'sch.double_buffer("B", "B")'),
        "fission": (chain(), 'sch.merge("i", "i_C")', 'sch.fission("i_i_C")'),
        "fuse": (plane(), "", 'sch.fuse("i", "j")'),
        "fuse_reduction_epilogue": (row_sums(), "", 'sch.fuse_reduction_epilogue("C", "D")'),
        "merge": (chain(), "", 'sch.merge("i", "i_C")'),
        "narrow": (every_second(), "", 'sch.narrow("B")'),
        "pad_einsum": (matmul(7, 8, 5), "", 'sch.pad_einsum("C", [4, 4, 4])'),
        "parallel": (plane(), "", 'sch.parallel("i")'),
        "partition": (copy(), "", 'sch.partition("i", [4, None])'),
        "pipeline": (chain(), 'sch.compute_at("B", "i_C")', 'sch.pipeline("i_C", [0, 1])'),
        "prefetch": (plane(), "", 'sch.prefetch("B", "A", "i", 2)'),
        "reassociate": (differences(), "", 'sch.reassociate("E")'),
        "regroup": (scaled_matmul(), "", 'sch.regroup("C", [[0], [1, 2]])'),
        "reindex": (window(), "", 'sch.reindex("C", "B")'),
        "reorder": (matmul(), "", 'sch.reorder("k", "j")'),
        "reverse_compute_at": (chain(), "", 'sch.reverse_compute_at("C", "i")'),
        "reverse_compute_inline": (chain(), "", 'sch.reverse_compute_inline("C")'),
        "rfactor": (row_sums(), 'sch.split("k", [None, 4])', 'sch.rfactor("C", "k_1")'),
        "rolling_buffer": (
            window(), 'sch.compute_at("B", "i_C")', 'sch.rolling_buffer("B", "B")'
        ),
        "run_before": (beside(), "", 'sch.run_before("C", "B")'),
        "sample_categorical": (copy(), "", "sch.sample_categorical([2, 4, 8], decision=1)"),
        "sample_compute_location": (
            chain(), "", 'sch.sample_compute_location("B", decision="i_C")'
        ),
        "sample_perfect_tile": (
            copy(16), "", 'sch.sample_perfect_tile("i", 2, decision=[4, 4])'
        ),
        "scatter": (histogram(), "", 'sch.scatter("h")'),
        "set_scope": (chain(), 'sch.compute_at("B", "i_C")', 'sch.set_scope("B", "B", "local")'),
        "shift": (rows_of_13(), "", 'sch.shift("j", "i * 13 % 4")'),
        "split": (copy(), "", 'sch.split("i", [None, 4])'),
        "spread_prefetch": (
            chain(), 'sch.compute_at("B", "i_C")', 'sch.spread_prefetch("C", "C", "i_C", "j")'
        ),
        "storage_align": (chain(), "", 'sch.storage_align("B", "B", 0, 16, 4)'),
        "swizzle": (chain(), "", 'sch.swizzle("B", "B", 3, 2, 3)'),
        "stream": (copy(64), 'sch.vectorize("i")', 'sch.stream("B", "B")'),
        "tensorize": (
            matmul(4, 4, 8),
            'sch.reorder("k", "j")\nsch.decompose_reduction("C", "k")',
            'sch.tensorize("j", "f32.fma_4")',
        ),
        "transform_block_layout": (
            chain(), "", 'sch.transform_block_layout("B", "i, j: j // 4, i, j % 4")'
        ),
        "transform_layout": (
            chain(), "", 'sch.transform_layout("B", "B", "i, j: j // 4, i, j % 4")'
        ),
        "unannotate": (
            copy(),
            'sch.parallel("i")\nsch.annotate("i", "schedule", "dynamic")',
            'sch.unannotate("i", "schedule")',
        ),
        "unroll": (plane(), "", 'sch.unroll("j")'),
        "vectorize": (plane(), "", 'sch.vectorize("j")'),
    }  # fmt: skip


HEAD = """\
# Primitives

What `sch.NAME(...)` does to a program, for every primitive of `Schedule`. This page is written by
`docs/generate_primitives.py` from the docstrings and from examples that it runs; do not edit it.

Loops, blocks and buffers are named by strings. A call that is refused raises `ScheduleError` with
the reason, and leaves the schedule as it was; `docs/errors.md` says how to read it.
"""


def page() -> str:
    """The text of docs/primitives.md."""
    names = sorted(REGISTRY)
    index = ", ".join(f"[{name}](#{name})" for name in names)
    known = examples()
    parts = [HEAD, index, ""]
    for name in names:
        parts += _section(name, known.get(name))
    return "\n".join(parts).rstrip() + "\n"


def _section(name: str, example: Example | None) -> list[str]:
    about, rewrite, requires = split_docstring(inspect.getdoc(REGISTRY[name]) or "")
    lines = [f"## {name}", "", f"`{name}{_signature(name)}`", "", about, ""]
    lines += _run(example) if example is not None else ["```text", rewrite, "```", ""]
    if requires:
        lines += ["It is refused unless", "", requires, ""]
    return lines


def _signature(name: str) -> str:
    """The parameters without the state, and without types: all of them are names and literals."""
    shown = []
    for p in list(inspect.signature(REGISTRY[name]).parameters.values())[1:]:
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f"={p.default!r}"
        shown.append(f"{star}{p.name}{default}")
    return f"({', '.join(shown)})"


def split_docstring(text: str) -> tuple[str, str, str]:
    """What the primitive does, its `rewrite:` and its `requires:` as a Markdown list."""
    about, _, rest = text.partition("\nrewrite:")
    rewrite, _, requires = rest.partition("\nrequires:")
    items = re.sub(r"^ {4}(?=- )", "", requires.strip("\n"), flags=re.MULTILINE)
    items = re.sub(r"^ {6}", "  ", items, flags=re.MULTILINE)
    return about.strip(), rewrite.strip("\n"), items.strip("\n")


def _run(example: Example) -> list[str]:
    func, before, call = example
    sch = Schedule(func)
    names = {"sch": sch}
    exec(before, names)
    start = sch.func
    result = eval(call, names)
    lines = ["```python", str(start).rstrip(), "```", ""]
    if before:
        steps = ", ".join(f"`{step}`" for step in before.splitlines())
        lines = [f"After {steps}:", "", *lines]
    given = "" if result is None else f", which returns `{_plain(result)!r}`,"
    if sch.func is start:
        return [*lines, f"`{call}`{given} leaves the program as it is.", ""]
    after = ["```python", str(sch.func).rstrip(), "```", ""]
    return [*lines, f"`{call}`{given} makes of it", "", *after]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
