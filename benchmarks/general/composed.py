"""Programs of several operators, and the same operators one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import PrimFunc, ops, te
from tensorir.te import Tensor


@dataclass(frozen=True)
class Step:
    """One operator: `name` is its result, `given` are its arguments by name."""

    name: str
    given: tuple[str, ...]
    make: Callable[..., Tensor]


@dataclass(frozen=True)
class Composed:
    """Operators that use each other's results; `shapes` are the arguments of the first ones.

    constants  arguments that are known ahead of calls
    results    what the program returns
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    constants: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]

    @property
    def whole(self) -> PrimFunc:
        """All in one program."""
        made = self._tensors()
        inputs = [made[name] for name in self.shapes]
        return te.create_prim_func([*inputs, *(made[name] for name in self.results)], name="whole")

    def part(self, step: Step) -> PrimFunc:
        """One operator alone."""
        made = self._tensors()
        given = [te.placeholder(made[n].shape, made[n].dtype, name=n) for n in step.given]
        return te.create_prim_func([*given, step.make(*given)], name=step.name)

    def _tensors(self) -> dict[str, Tensor]:
        made = {name: te.placeholder(shape, name=name) for name, shape in self.shapes.items()}
        for step in self.steps:
            made[step.name] = step.make(*[made[name] for name in step.given])
        return made


def composed(tiny: bool = False) -> list[Composed]:
    """The programs, or tiny ones of the same steps."""

    def size(n: int) -> int:
        return min(n, 6 + n % 5) if tiny else n

    c, rows, many, columns = size(64), size(512), size(4096), size(1024)
    small, large = (1, c, size(28), size(28)), (1, c, size(56), size(56))
    taps = (c, c, 3, 3)
    m, k, n = size(256), size(64), size(256)
    channel = dict.fromkeys(("gamma", "beta", "mean", "var"), (c,))
    heads, keys = size(8), size(128)
    head = {"q": (heads, keys, k), "k": (heads, k, keys), "v": (heads, keys, k)}
    first, second = Step("a", ("x", "w"), _conv), Step("b", ("a_", "v"), _conv)
    relu = Step("a_", ("a",), ops.relu)
    return [
        _made("conv-relu-conv", {"x": small, "w": taps, "v": taps}, "wv", (first, relu, second)),
        _made("conv + batch norm + relu", {"x": large, "w": taps, **channel},
              ("w", *channel), (first, Step("b", ("a", *channel), _normalised))),
        _made("residual block", {"x": small, "w": taps, "v": taps}, "wv",
              (first, relu, second, Step("c", ("b", "x"), _added))),
        _made("conv + max pool", {"x": large, "w": taps}, "w",
              (first, Step("b", ("a",), lambda a: ops.max_pool2d(a, 2)))),
        _made("depthwise + pointwise", {"x": large, "w": (c, 1, 3, 3), "v": (2 * c, c, 1, 1)}, "wv",
              (Step("a", ("x", "w"), lambda x, w: ops.conv2d(x, w, padding=1, groups=c)),
               Step("b", ("a", "v"), ops.conv2d))),
        _made("two softmaxes", {"x": (many, columns), "y": (many, columns)}, (),
              (Step("a", ("x",), ops.softmax), Step("b", ("y",), ops.softmax)), ("a", "b")),
        _made("softmax + transpose", {"x": (rows, columns)}, (),
              (Step("a", ("x",), ops.softmax), Step("b", ("a",), ops.transpose))),
        _made("softmax + row sum", {"x": (rows, columns), "y": (rows, columns)}, (),
              (Step("a", ("x",), ops.softmax),
               Step("b", ("a", "y"), lambda a, y: ops.sum(a * y, 1)))),
        _made("matmul-softmax-matmul", {"x": (m, k), "w": (k, n), "v": (n, k)}, "wv",
              (Step("a", ("x", "w"), ops.matmul), Step("b", ("a",), ops.softmax),
               Step("c", ("b", "v"), ops.matmul))),
        _made("heads: product, softmax, product", head, (),
              (Step("a", ("q", "k"), ops.matmul), Step("b", ("a",), ops.softmax),
               Step("c", ("b", "v"), ops.matmul))),
        _made("rms norm + matmul", {"x": (size(128), columns), "g": (columns,),
                                    "w": (columns, columns)}, "gw",
              (Step("a", ("x", "g"), ops.rms_norm), Step("b", ("a", "w"), ops.matmul))),
        _made("matmul + layer norm", {"x": (size(128), columns), "w": (columns, columns)}, "w",
              (Step("a", ("x", "w"), ops.matmul), Step("b", ("a",), ops.layer_norm))),
    ]  # fmt: skip


def _made(
    name: str, shapes: Mapping[str, Any], constants: Sequence[str], steps: tuple[Step, ...],
    results: tuple[str, ...] = (),
) -> Composed:  # fmt: skip
    return Composed(name, shapes, tuple(constants), steps, results or (steps[-1].name,))


def _conv(x: Tensor, w: Tensor) -> Tensor:
    return ops.conv2d(x, w, padding=1)


def _normalised(a: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return ops.relu(ops.batch_norm(a, mean, var, gamma, beta))


def _added(a: Tensor, x: Tensor) -> Tensor:
    return ops.relu(ops.add(a, x))
