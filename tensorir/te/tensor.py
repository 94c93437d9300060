"""Tensors and the operations that define them: the nodes of a tensor expression graph."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import Expr, ExprLike, Load, Var, cast, convert, int_value
from tensorir.externs.extern import ExternFunc
from tensorir.scalars import refuse_values
from tensorir.sugar import Operators

if TYPE_CHECKING:
    from tensorir.func import PrimFunc
    from tensorir.te.axis import Axis

Shape = Union[ExprLike, Sequence[ExprLike]]


def check_name(name: str, what: str) -> str:
    """Return `name` if a printed program can use it as a name, else raise TensorIRError."""
    if isinstance(name, str) and keyword.iskeyword(name):
        raise TensorIRError(f"{what} name {name!r} is a keyword of Python, as '{name}_' is not")
    if not isinstance(name, str) or not name.isidentifier():
        raise TensorIRError(f"{what} name {name!r} is not an identifier; use letters, digits and _")
    return name


def check_extent(extent: ExprLike, what: str) -> Expr:
    """`extent` as an int64 expression; raises TensorIRError if it is negative or no integer."""
    value = convert(extent)
    if not dt.is_int(value.dtype):
        raise TensorIRError(f"{what} has extent {extent!r} of type {value.dtype}; use an integer")
    refuse_values(value, what)
    size = cast(dt.INDEX, value)
    known = int_value(size)
    if known is not None and known < 0:
        raise TensorIRError(f"{what} has the negative extent {known}")
    return size


def make_shape(shape: Shape, what: str) -> tuple[Expr, ...]:
    """A shape as int64 expressions of sizes; a single extent means one dimension."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(check_extent(s, f"dimension {d} of {what}") for d, s in enumerate(extents))
    for d, size in enumerate(sizes):
        if size.has_loads:
            raise TensorIRError(
                f"dimension {d} of {what} reads memory: {size!r}; shapes are known before a call, "
                "so make the number a te.var that is a dimension of an argument"
            )
    return sizes


class Tensor(Operators[Any]):
    """A tensor: a placeholder, or one output of a compute. Compared by identity.

    `A[i, j]` and `A[i][j]` read one element. A tensor of rank zero may be used in place of its one
    element; arithmetic on others makes a tensor, with the broadcasting of NumPy (te/whole.py).
    """

    __slots__ = ("__weakref__", "dtype", "index", "name", "op", "shape")

    def __init__(
        self, name: str, shape: tuple[Expr, ...], dtype: str, op: Operation, index: int = 0
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.op = op
        self.index = index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.shape))
        return f"Tensor({self.name}: {dt.SHORT[self.dtype]}[{dims}])"

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Load:
        """The element at `indices`; fewer than there are dimensions give a TensorSlice."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) > self.ndim or not given and self.ndim:
            raise TensorIRError(
                f"tensor {self.name!r} has {self.ndim} dimensions and is indexed with {len(given)}"
            )
        found = tuple(self._index(d, i) for d, i in enumerate(given))
        if len(found) < self.ndim:
            return TensorSlice(self, found)  # type: ignore[return-value]
        return Load(self, found)  # type: ignore[arg-type]

    def _index(self, d: int, index: ExprLike) -> Expr:
        if isinstance(index, slice):
            raise TensorIRError(
                f"index {d} of tensor {self.name!r} is a slice; te reads single elements, "
                "write the range as an axis of te.compute"
            )
        value = convert(index)
        if not dt.is_int(value.dtype):
            raise TensorIRError(
                f"index {d} of tensor {self.name!r} is {value!r} of type {value.dtype}; "
                "indices are integers"
            )
        refuse_values(value, f"index {d} of tensor {self.name!r}")
        return cast(dt.INDEX, value)

    def __call__(self, *indices: ExprLike) -> Load:
        return self[indices]

    def __iter__(self) -> Any:
        raise TypeError(f"tensor {self.name!r} is not iterable; index it inside te.compute")

    def as_scalar(self) -> Load:
        """The one element of a tensor of rank zero; TensorIRError for any other rank."""
        if self.ndim:
            raise TensorIRError(
                f"tensor {self.name!r} has {self.ndim} dimensions; index it, as in "
                f"{self.name}[{_letters(self.ndim)}]"
            )
        return self[()]

    def astype(self, dtype: str) -> Any:
        """Every element converted to `dtype`; see te.cast."""
        from tensorir.te.math import cast

        return cast(self if self.ndim else self.as_scalar(), dtype)  # type: ignore[arg-type]

    def __matmul__(self, other: Tensor) -> Tensor:
        """ops.matmul: of matrices, or of batches of them."""
        from tensorir.ops import matmul

        return matmul(self, other)

    def __bool__(self) -> bool:
        raise TensorIRError(
            f"tensor {self.name!r} is not true or false; use te.if_then_else, te.all or te.any in "
            "place of if, and, or"
        )

    @staticmethod
    def operate(op: str, left: Any, right: Any) -> Any:
        """Arithmetic on whole tensors is a tensor; one of rank zero stands for its element."""
        from tensorir.te.whole import operate

        return operate(op, left, right)


class TensorSlice(Operators[Any]):
    """A tensor of which the first indices are given: `A[i]` of a matrix, to be indexed further."""

    __slots__ = ("given", "tensor")

    def __init__(self, tensor: Tensor, given: tuple[Expr, ...]) -> None:
        self.tensor = tensor
        self.given = given

    @property
    def ndim(self) -> int:
        return self.tensor.ndim - len(self.given)

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(repr, self.given))}]"

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Load:
        more = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.given, *more)]

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} is not iterable; index it inside te.compute")

    def as_scalar(self) -> Expr:
        """TensorIRError: this is no element yet."""
        raise TensorIRError(
            f"{self!r} has {len(self.given)} of the {self.tensor.ndim} indices of tensor "
            f"{self.tensor.name!r}; give the others, as in {self!r}[{_letters(self.ndim)}]"
        )

    @staticmethod
    def operate(op: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, TensorSlice):
                side.as_scalar()
        raise AssertionError("one of the two is a slice")


def _letters(count: int) -> str:
    return ", ".join("ijklmnpq"[d % 8] for d in range(count))


class Graph:
    """What all operations have in common, by TVM's names: for programs that walk over a graph."""

    __slots__ = ()
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that the operation reads."""
        return list(self.inputs)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        """The tensor number `index` that the operation makes."""
        if not isinstance(index, int) or not 0 <= index < len(self.outputs):
            raise TensorIRError(
                f"{self.name!r} has no output number {index!r}; it has {len(self.outputs)}"
            )
        return self.outputs[index]


@dataclass(slots=True, eq=False)
class PlaceholderOp(Graph):
    """The origin of an input, or (te.state) of what te.scan has computed so far."""

    name: str
    is_state: bool = False
    outputs: tuple[Tensor, ...] = field(default=(), repr=False)

    @property
    def inputs(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        return ()

    @property
    def tag(self) -> str:
        return ""

    @property
    def attrs(self) -> dict[str, Any]:
        return {}


@dataclass(slots=True, eq=False)
class ComputeOp(Graph):
    """A rule for every element of one or more outputs of one shape.

    `body` has one expression per output: plain expressions, or te Reduce nodes over `reduce_axis`.
    `tag` and `attrs` are the user's, for functions that schedule a graph by what they find there.
    """

    name: str
    axis: tuple[Axis, ...]
    reduce_axis: tuple[Axis, ...]
    body: tuple[Expr, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = field(default=(), repr=False)
    early: VerifyError | None = field(default=None, repr=False)
    """A read of rows before the first, as only the update of a te.scan may make."""
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ExternOp(ComputeOp):
    """Rows that an extern function makes of rows of `inputs`; `axis` runs over the rows."""

    func: ExternFunc | None = None


@dataclass(slots=True, eq=False)
class ScanOp(Graph):
    """A recurrence: `init` gives the first rows, `update` each further row from those before.

    `steps` are the computes of one time step, producers first, those of `update` among them;
    `inputs` are all that they and the first rows need from outside.
    """

    name: str
    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    state: tuple[Tensor, ...]
    steps: tuple[ComputeOp, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = field(default=(), repr=False)
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> Expr:
        """The number of rows that are given: the first time step."""
        return self.init[0].shape[0]

    @property
    def stages(self) -> tuple[Tensor, ...]:
        """The tensors of a time step that are not the new rows themselves."""
        return tuple(t for op in self.steps for t in op.outputs if t not in self.update)


@dataclass(slots=True, eq=False)
class StatementsOp(Graph):
    """A program as a stage: `func`, of which the inputs are `inputs` and the outputs `outputs`, in
    order. Its symbolic sizes are those of these tensors."""

    name: str
    func: PrimFunc
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = field(default=(), repr=False)
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)


Operation = Union[PlaceholderOp, ComputeOp, ScanOp, StatementsOp]


def placeholder(shape: Shape, dtype: str = "float32", name: str = "A") -> Tensor:
    """An input tensor; extents are integers or te.var sizes."""
    check_name(name, "placeholder")
    extents = make_shape(shape, f"placeholder {name!r}")
    made = Tensor(name, extents, dt.check_dtype(dtype), PlaceholderOp(name))
    made.op.outputs = (made,)
    return made


def state(shape: Shape, dtype: str = "float32", name: str = "state") -> Tensor:
    """What a te.scan has computed before the current step, row by row, for use in its update.

    A placeholder of two or more dimensions does as well.
    """
    made = placeholder(shape, dtype, name)
    made.op = PlaceholderOp(name, is_state=True, outputs=(made,))
    return made


def var(name: str, dtype: str = dt.INDEX) -> Var:
    """A symbolic size, or a number of another type that a call gives, such as a factor.

    A size is a dimension of an argument or an argument itself, any other number is an argument:
    what is computed from it are values, on which no shape, loop or index depends. Two of one name
    and type are the same. Sizes are int64; those of TVM, which are int32, are `te.var(name)` too.
    """
    return Var(check_name(name, "variable"), dt.check_dtype(dtype))


def size_var(name: str, dtype: str = dt.INDEX) -> Var:
    """A symbolic size; see `var`. It may be called int32, as in TVM."""
    if dtype not in ("int32", dt.INDEX):
        raise TensorIRError(f"size {name!r} cannot be {dtype}; sizes are int64")
    return var(name)
