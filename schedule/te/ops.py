"""What stands for the operations and tensors that requests add to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir import Expr, TensorIRError


class StageOp:
    """The operation of a stage that cache_read, cache_write or rfactor made or changed.

    It has what those who walk over a graph ask of a te.ComputeOp, under the same names.
    """

    __slots__ = ("attrs", "axis", "inputs", "name", "outputs", "reduce_axis", "tag")

    def __init__(
        self,
        name: str,
        axis: Sequence[Any],
        reduce_axis: Sequence[Any],
        inputs: Sequence[Any],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self.axis, self.reduce_axis = tuple(axis), tuple(reduce_axis)
        self.inputs = tuple(inputs)
        self.outputs: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"StageOp({self.name})"

    @property
    def input_tensors(self) -> list[Any]:
        """The tensors that the stage reads now."""
        return list(self.inputs)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def output(self, index: int) -> Any:
        """The tensor number `index` that the stage makes."""
        if not isinstance(index, int) or not 0 <= index < len(self.outputs):
            raise TensorIRError(
                f"{self.name!r} has no output number {index!r}; it has {len(self.outputs)}"
            )
        return self.outputs[index]


class CachedTensor:
    """What cache_read, cache_write and rfactor return: a tensor that only the schedule knows."""

    __slots__ = ("dtype", "index", "name", "op", "shape")

    def __init__(
        self, name: str, op: Any, shape: Sequence[Expr], dtype: str, index: int = 0
    ) -> None:
        self.name, self.op, self.index = name, op, index
        self.shape, self.dtype = tuple(shape), dtype

    def __repr__(self) -> str:
        return f"CachedTensor({self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}])"

    @property
    def ndim(self) -> int:
        return len(self.shape)


def key_of(tensor: Any) -> tuple[Any, int]:
    """By what a tensor is found, of a definition or of a schedule."""
    return tensor.op, tensor.index


def rewired(op: Any, inputs: Sequence[Any]) -> StageOp:
    """`op` as it is after a change of what it reads."""
    made = StageOp(op.name, op.axis, op.reduce_axis, inputs, op.tag, op.attrs)
    made.outputs = op.outputs
    return made
