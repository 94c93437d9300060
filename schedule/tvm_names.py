"""What TVM calls parameters of primitives: its names are taken beside ours, and ours recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from schedule.errors import Illegal

TVM_NAMES = {
    "ann_key": "key",
    "ann_val": "value",
    "buffer_index": "buffer",
    "max_innermost_factor": "max_innermost",
    "read_buffer_index": "buffer",
    "storage_scope": "scope",
    "tensor_intrin": "intrinsic",
    "thread_axis": "thread",
    "write_buffer_index": "buffer",
}


def in_our_names(parameters: Collection[str], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """`kwargs` by the names of `parameters`; Illegal if one argument comes under both names."""
    found: dict[str, Any] = {}
    for key, value in kwargs.items():
        ours = TVM_NAMES.get(key, key)
        known = key if key in parameters or ours not in parameters else ours
        if known != key and known in kwargs:
            raise Illegal("", f"{known!r} is given twice: {key!r} is what TVM calls it")
        found[known] = value
    return found
