"""Writes docs/operators.md from the docstrings of the operators.

    python docs/generate_operators.py

tests/tensorir/test_operators_page.py fails where the page is not what this writes.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tensorir import ops  # noqa: E402

PAGE = ROOT / "docs" / "operators.md"

HEAD = """\
# Operators

`from tensorir import ops`: functions on tensors that return tensors, written as tensor expressions
and nothing else. What they return can be scheduled, tuned, and used in further expressions. This
page is written by `docs/generate_operators.py` from the docstrings; do not edit it.

```python
from tensorir import ops, te

x = te.placeholder((te.var("n"), 256), "float32", name="x")
w = te.placeholder((10, 256), "float32", name="w")
y = ops.softmax(ops.linear(x, w, activation="relu"))
func = te.create_prim_func([x, w, y], name="classify")
```

Every operator takes `name=` for its last stage and refuses arguments that do not fit with an error
that names them. Each has a NumPy reference and examples (`ops.OPERATORS`), on which the tests
compare the expression, the interpreter and the compiled C with the reference.
`tutorials/extending/add_an_operator.ipynb` shows how to add one.
"""

FAMILIES = (
    "matmul", "einsum", "conv", "conv_transpose", "winograd", "pool", "adaptive_pool", "softmax",
    "attention", "norm", "group_norm", "activation", "elementwise", "broadcast", "reduce",
    "statistics", "cumulative", "sorting", "rearrange", "blocks", "selection", "indexing", "pad",
    "resize", "quantize", "random",
)  # fmt: skip
"""The order of the sections; families that are not listed come at the end."""


def page() -> str:
    """The text of docs/operators.md."""
    families = dict.fromkeys(op.family for op in ops.OPERATORS.values())
    listed = [f for f in FAMILIES if f in families]
    order = [*listed, *sorted(set(families) - set(listed))]
    parts = [HEAD]
    for family in order:
        members = [op for op in ops.OPERATORS.values() if op.family == family]
        parts += _section(family, members)
    return "\n".join(parts).rstrip() + "\n"


def _section(family: str, members: list[ops.Operator]) -> list[str]:
    module = sys.modules[members[0].make.__module__]
    title, _, rest = (module.__doc__ or family).partition("\n\n")
    lines = [f"## {family}", "", title, ""]
    if rest:
        lines += [rest.strip(), ""]
    lines += ["| operator | what it computes |", "|---|---|"]
    for op in members:
        about = " ".join((inspect.getdoc(op.make) or "").split()).replace("|", "\\|")
        lines.append(f"| `{op.name}{_signature(op)}` | {about} |")
    return [*lines, ""]


def _signature(op: ops.Operator) -> str:
    """The parameters without types, and without `name`."""
    shown = []
    for p in inspect.signature(op.make).parameters.values():
        if p.name != "name":
            shown.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    return f"({', '.join(shown)})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
