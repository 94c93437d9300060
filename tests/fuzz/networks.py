"""Random networks of operators, for the schedules that rules and the library make of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from workloads import Draw, Workload

from tensorir import dtype, int_value, ops, te

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33, 48, 64, 65]
MOST = 1 << 15
"""Elements of the largest tensor of most networks."""

STEPS = 5
FLOATS = ["float32"] * 8 + ["float64", "float16", "bfloat16"]


class Network:
    """Tensors made so far, and the parameters that they are made of."""

    def __init__(self, d: Draw) -> None:
        self.d = d
        self.params: list[Any] = []
        self.tensors: list[Any] = []

    def param(self, shape: tuple[Any, ...], kind: str = "float32") -> Any:
        name = f"p{len(self.params)}"
        self.params.append(te.placeholder(shape, kind, name=name))
        return self.params[-1]

    def size(self, most: int = 64) -> int:
        return int(self.d.pick([s for s in SIZES if s <= most]))

    def numbers(self, x: Any) -> tuple[int, ...]:
        """The shape of `x` with drawn values for symbolic sizes."""
        found = []
        for size in x.shape:
            value = int_value(size)
            found.append(self.d.sizes[size.name] if value is None else value)
        return tuple(found)

    def axis(self, x: Any) -> int:
        return int(self.d.pick(list(range(len(x.shape)))))


Step = Callable[[Network, Any], Any]
"""A tensor made of a tensor; None where it does not fit."""

UNARY = (
    "relu relu6 leaky_relu elu gelu silu hardswish softplus mish sigmoid tanh exp abs negative "
    "square floor round sign erf"
).split()
BINARY = "add subtract multiply maximum minimum".split()


def known(sizes: Any) -> bool:
    """Whether all sizes are numbers."""
    return all(int_value(size) is not None for size in sizes)


def unary(n: Network, x: Any) -> Any:
    if not dtype.is_float(x.dtype):
        return None
    return getattr(ops, n.d.pick(UNARY))(x)


def binary(n: Network, x: Any) -> Any:
    """With an earlier tensor of the same shape, or a new one that broadcasts."""
    same = [t for t in n.tensors if alike(t, x)]
    if same and n.d.flag():
        other = n.d.pick(same)
    else:
        shape = tuple(n.d.pick([s, s, 1]) for s in x.shape)
        other = n.param(shape[n.d.pick(list(range(len(shape) + 1))) :], x.dtype)
    op = getattr(ops, n.d.pick(BINARY))
    return op(x, other) if n.d.flag() else op(other, x)


def matmul(n: Network, x: Any) -> Any:
    if len(x.shape) < 2 or not dtype.is_float(x.dtype):
        return None
    out = n.size(65)
    transpose = n.d.flag()
    k = x.shape[-1]
    batch = tuple(n.d.pick([s, 1]) for s in x.shape[:-2]) if n.d.flag() else ()
    w = n.param((*batch, *((out, k) if transpose else (k, out))), x.dtype)
    bias = n.param((out,), x.dtype) if n.d.flag() else None
    activation = n.d.pick([None, None, "relu", "gelu", "sigmoid"])
    return ops.matmul(x, w, bias, activation=activation, transpose_b=transpose)


def gram(n: Network, x: Any) -> Any:
    if len(x.shape) < 2 or not dtype.is_float(x.dtype):
        return None
    return ops.matmul(x, x, transpose_b=True) if n.d.flag() else ops.matmul(x, x, transpose_a=True)


def int8_matmul(n: Network, x: Any) -> Any:
    if len(x.shape) != 2 or not dtype.is_float(x.dtype):
        return None
    q = ops.quantize(x, 0.125, dtype=n.d.pick(["int8", "uint8"]))
    w = n.param((x.shape[1], n.size(65)), "int8")
    return ops.cast(ops.matmul(q, w, out_dtype="int32"), "float32")


def conv(n: Network, x: Any) -> Any:
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3) or not dtype.is_float(x.dtype):
        return None
    last = n.d.flag()
    layout = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[rank][last]
    shape = n.numbers(x)
    channels = shape[-1] if last else shape[1]
    if not channels or not known([x.shape[-1] if last else x.shape[1]]):
        return None
    sizes, places = (x.shape[1:-1], shape[1:-1]) if last else (x.shape[2:], shape[2:])
    if not known(sizes):
        return None
    kernel = tuple(n.d.pick([1, 1, 2, 3, 3, 5]) for _ in range(rank))
    dilation = n.d.pick([1, 1, 1, 2])
    padding = n.d.pick([0, 1, 1, 2])
    if any(s + 2 * padding < dilation * (k - 1) + 1 for s, k in zip(places, kernel)):
        return None
    groups = n.d.pick([g for g in (1, 1, 1, 2, 4, channels) if channels % g == 0])
    out = groups * n.d.pick([1, 2, 3, 8, 16, 17])
    if out > 96:
        return None
    per = channels // groups
    w_shape = (*kernel, per, out) if last else (out, per, *kernel)
    w = n.param(w_shape, x.dtype)
    bias = n.param((out,), x.dtype) if n.d.flag() else None
    op = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    return op(
        x, w, bias, stride=n.d.pick([1, 1, 2, 3]), padding=padding, dilation=dilation,
        groups=groups, layout=layout, activation=n.d.pick([None, "relu", "silu"]),
    )  # fmt: skip


def pool(n: Network, x: Any) -> Any:
    if len(x.shape) != 4 or not dtype.is_float(x.dtype):
        return None
    layout = n.d.pick(["NCHW", "NHWC"])
    if not known(x.shape[1:3] if layout == "NHWC" else x.shape[2:]):
        return None
    op = n.d.pick([ops.max_pool2d, ops.avg_pool2d])
    kernel = n.d.pick([2, 3])
    shape = n.numbers(x)
    places = shape[2:] if layout == "NCHW" else shape[1:3]
    if min(places) < kernel:
        return None
    if n.d.pick([True, False, False]):
        return ops.global_avg_pool(x, layout)
    return op(x, kernel, stride=n.d.pick([None, 1, 2]), padding=n.d.pick([0, 1]), layout=layout)


def softmax(n: Network, x: Any) -> Any:
    if not dtype.is_float(x.dtype):
        return None
    op = n.d.pick([ops.softmax, ops.log_softmax, ops.layer_norm, ops.rms_norm])
    kwargs = {}
    if op not in (ops.rms_norm,) and n.d.pick([True, False, False]):
        kwargs["algorithm"] = {ops.layer_norm: "welford"}.get(op, "online")
    return op(x, axis=n.axis(x), **kwargs)


def reduction(n: Network, x: Any) -> Any:
    if not dtype.is_float(x.dtype):
        return None
    name = n.d.pick("sum mean max min var argmax argmin norm logsumexp prod".split())
    axes = n.d.pick([[n.axis(x)], sorted({n.axis(x), n.axis(x)}), None])
    if name in ("argmax", "argmin"):
        axes = axes if axes is None else axes[0]
    found = getattr(ops, name)(x, axis=axes, keepdims=n.d.flag())
    return found if dtype.is_float(found.dtype) else ops.cast(found, "float32")


def scan(n: Network, x: Any) -> Any:
    return ops.cumsum(x, axis=n.axis(x), exclusive=n.d.flag(), reverse=n.d.flag())


def transpose(n: Network, x: Any) -> Any:
    axes = list(range(len(x.shape)))
    order = []
    while axes:
        order.append(axes.pop(n.d.pick(list(range(len(axes))))))
    return ops.transpose(x, order)


def reshape(n: Network, x: Any) -> Any:
    """Two dimensions as one, or one as two."""
    if not known(x.shape):
        return None
    shape, at = n.numbers(x), n.axis(x)
    if at and n.d.flag():
        return ops.reshape(x, (*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]))
    factors = [f for f in range(1, shape[at] + 1) if shape[at] % f == 0]
    if not factors or len(shape) > 4:
        return None
    factor = n.d.pick(factors)
    return ops.reshape(x, (*shape[:at], factor, shape[at] // factor, *shape[at + 1 :]))


def rearranged(n: Network, x: Any) -> Any:
    """The same elements in other places, some of them twice or not at all."""
    if not known(x.shape):
        return None
    axis = n.axis(x)
    size = n.numbers(x)[axis]
    pads = [(0, 0)] * len(x.shape)
    pads[axis] = (n.d.pick([0, 1, 3]), n.d.pick([0, 2]))
    moves: dict[str, Callable[[], Any]] = {
        "flip": lambda: ops.flip(x, axis),
        "concat": lambda: ops.concat([x, n.d.pick([t for t in n.tensors if alike(t, x)])], axis),
        "stack": lambda: ops.stack([x, x], axis),
        "slice": lambda: ops.slice(x, [size // 3], [size], [n.d.pick([1, 1, 2])], [axis]),
        "pad": lambda: ops.pad(x, pads, mode=n.d.pick(["constant", "edge"])),
        "roll": lambda: ops.roll(x, n.d.pick([1, -1, 3]), axis),
        "repeat": lambda: ops.repeat(x, 2, axis),
        "take": lambda: ops.take(x, n.param((n.size(17),), n.d.pick(["int32", "int64"])), axis),
    }
    name = n.d.pick(sorted(moves))
    return None if name in ("pad", "roll", "take") and not size else moves[name]()


def casted(n: Network, x: Any) -> Any:
    return ops.cast(x, n.d.pick(FLOATS))


def attention(n: Network, x: Any) -> Any:
    if len(x.shape) != 4 or not dtype.is_float(x.dtype):
        return None
    b, h, m, k = x.shape
    if int_value(k) is None:  # it decides the scale
        return None
    length = n.size(33)
    keys = n.param((b, h, length, k), x.dtype)
    values = n.param((b, h, length, n.size(33)), x.dtype)
    return ops.attention(x, keys, values, causal=n.d.flag() and int_value(m) == length)


def sorted_rows(n: Network, x: Any) -> Any:
    if not x.dtype == "float32":
        return None
    return ops.sort(x, axis=n.axis(x))


def conditional(n: Network, x: Any) -> Any:
    if not dtype.is_float(x.dtype):
        return None
    return ops.where(ops.greater(x, n.param((), x.dtype)), x, ops.multiply(x, x))


KINDS: tuple[Step, ...] = (
    unary, unary, binary, binary, matmul, matmul, gram, int8_matmul, conv, conv, conv, pool,
    softmax, softmax, reduction, reduction, scan, transpose, reshape, rearranged, rearranged,
    casted, attention, conditional, sorted_rows,
)  # fmt: skip


ELEMENTWISE = (unary, binary, casted, conditional)
"""What also takes a single number."""


def draw(pick: Callable[[list[Any]], Any]) -> Workload:
    """A network of up to STEPS operators, with one or several outputs."""
    n = Network(Draw(pick))
    most = MOST * pick([1, 1, 1, 8])
    rank = pick([1, 2, 2, 2, 3, 3, 4, 4, 4])
    shape: list[Any] = [n.size({1: 65, 2: 65, 3: 33, 4: 17}[rank]) for _ in range(rank)]
    if most > MOST:
        shape[pick(list(range(rank)))] = pick([100, 128, 129, 200])
    if pick([True, False, False, False]):
        n.d.sizes["n"] = int(shape[0])
        shape[0] = te.var("n")
    x = n.param(tuple(shape), pick(FLOATS))
    n.tensors.append(x)
    outputs: list[Any] = []
    for _ in range(pick(list(range(1, STEPS + 1)))):
        source = pick([n.tensors[-1], n.tensors[-1], pick(n.tensors)])
        before, step = len(n.params), pick(list(KINDS))
        made = step(n, source) if source.shape or step in ELEMENTWISE else None
        if made is None or prod(n.numbers(made)) > most:
            del n.params[before:]
            continue
        n.tensors.append(made)
        if pick([True, False, False, False, False]):
            outputs.append(made)
    last = ops.negative(x) if n.tensors[-1] is x else n.tensors[-1]
    if not any(last is out for out in outputs):
        outputs.append(last)
    func = te.create_prim_func([*n.params, *outputs], name="network")
    return Workload(func, n.d.sizes)


def alike(a: Any, b: Any) -> bool:
    """Whether two tensors have one shape and type."""
    same = len(a.shape) == len(b.shape) and all(s is t for s, t in zip(a.shape, b.shape))
    return same and a.dtype == b.dtype
