"""All operators that come along: importing this enters them into the table, family by family."""

from __future__ import annotations

from importlib import import_module

from tensorir.ops.registry import OPERATORS as OPERATORS

FAMILIES = (
    "activation adaptive_pool attention blocks broadcast conv conv_transpose cumulative einsum "
    "elementwise group_norm indexing matmul norm pad pool quantize random rearrange reduce resize "
    "selection softmax sorting statistics winograd"
).split()
"""The modules that define operators."""

for _family in FAMILIES:
    import_module(f"tensorir.ops.{_family}")

_ordered = sorted(OPERATORS.items(), key=lambda item: FAMILIES.index(item[1].family))
OPERATORS.clear()  # some were imported earlier than others, by what a program used first
OPERATORS.update(_ordered)
