"""What every operator computes: its inputs, the right answer in float64, and how much work it is.

Only NumPy is needed; a library sees the inputs and never the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from benchmarks.peers.invented import INVENTED, invented_inputs
from benchmarks.peers.rows import Sizes

Arrays = dict[str, np.ndarray]
Sample = Callable[..., np.ndarray]
EPSILON = 1e-5
"""Added to the variance in layer norms."""


@dataclass(frozen=True)
class Kind:
    """An operator over all of its sizes.

    inputs     from the sizes and a maker of samples in [-1, 1) to the inputs by name
    expected   from the sizes and the inputs to the answer, float64 (int64 for integers)
    flops      additions and multiplications of the usual algorithm; 0 where only memory matters
    constants  the inputs that are weights: libraries may prepare them ahead of time
    tolerance  largest error allowed, relative to the largest expected value
    numerics   what our default is asked for: the class in which other libraries compute it, where
               that is a looser one than defaults have
    dtype      what the arithmetic limit is looked up for
    out_bytes  of one element of the output
    """

    inputs: Callable[[Sizes, Sample], Arrays]
    expected: Callable[[Sizes, Arrays], np.ndarray]
    flops: Callable[[Sizes], int]
    constants: tuple[str, ...] = ()
    tolerance: float = 1e-5
    dtype: str = "float32"
    out_bytes: int = 4
    numerics: str | None = None


def make_inputs(kind: str, sizes: Sizes, seed: int = 0) -> Arrays:
    """The inputs of a row by name, in the order of the arguments."""
    rng = np.random.default_rng((seed, *kind.encode()))

    def sample(*shape: int) -> np.ndarray:
        return rng.random(shape, np.float32) * 2 - 1

    return KINDS[kind].inputs(sizes, sample)


def moved_bytes(kind: str, inputs: Arrays, answer: np.ndarray) -> int:
    """Bytes of all inputs and of the output: what has to be moved at least."""
    return sum(a.nbytes for a in inputs.values()) + KINDS[kind].out_bytes * prod(answer.shape)


def tolerance_of(kind: str, sizes: Sizes) -> float:
    """The largest error allowed: that of the row, if it has one, else that of its kind."""
    return float(sizes.get("tolerance", KINDS[kind].tolerance))


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """float32 values rounded to nearest even, as the bits of bfloat16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    """The values of bfloat16 bits, float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def operator_inputs(s: Sizes, sample: Sample) -> Arrays:
    """The inputs of a row of the set `operators`, which names their types, sizes and limits."""
    return _sampled({f"x{n}": text for n, text in enumerate(s["inputs"])}, sample)


def _sampled(texts: Mapping[str, str], sample: Sample) -> Arrays:
    """Inputs by their texts, as "float32 3,4" or "int64 7 <5" for numbers from 0 to 4."""
    made = {}
    for name, text in texts.items():
        dtype, shape, *limit = text.split()
        a = sample(*map(int, shape.split(",")))
        if limit:
            a = np.abs(a) * int(limit[0][1:])
        elif dtype == "bool":
            a = a > 0
        made[name] = a.astype(dtype)
    return made


def _invented(s: Sizes, x: Arrays) -> np.ndarray:
    exact = {name: _exact(a) if a.dtype.kind == "f" else a for name, a in x.items()}
    return INVENTED[s["op"]].answer(s, exact)


def _operator(s: Sizes, x: Arrays) -> np.ndarray:
    """By the reference that every operator brings along; of several outputs the first."""
    from tensorir.ops import OPERATORS

    found = OPERATORS[s["op"]]
    answer: np.ndarray = found.expected(operator_example(s), list(x.values()))[0]
    return answer.astype(np.int64) if answer.dtype == np.bool_ else answer


OUT_DTYPES = {
    "greater": "bool", "isnan": "bool", "argsort": "int64", "one_hot": "float32",
    "dequantize": "float32", "where": "float32",
}  # fmt: skip


def operator_out(s: Sizes) -> str:
    """The type of the first output of a row of the set `operators`: that of x0 unless it says."""
    first: str = s["inputs"][0].split()[0]
    found: str = s["attrs"].get("dtype") or OUT_DTYPES.get(s["op"], first)
    return found


def operator_example(s: Sizes) -> Any:
    """The row as an example of its operator."""
    from tensorir.ops import Example

    parts = [text.split() for text in s["inputs"]]
    shapes = [tuple(map(int, shape.split(","))) for _, shape, *_ in parts]
    return Example(shapes, s["attrs"], [dtype for dtype, *_ in parts])


def _exact(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64)


def _matmul_inputs(s: Sizes, sample: Sample) -> Arrays:
    return {"a": sample(s["m"], s["k"]), "b": sample(s["k"], s["n"])}


def _matmul(s: Sizes, x: Arrays) -> np.ndarray:
    return _exact(x["a"]) @ _exact(x["b"])


def _int8_inputs(s: Sizes, sample: Sample) -> Arrays:
    a, b = sample(s["m"], s["k"]), sample(s["k"], s["n"])
    return {"a": (a * 127 + 128).astype(np.uint8), "b": (b * 127).astype(np.int8)}


def _bf16_inputs(s: Sizes, sample: Sample) -> Arrays:
    return {name: bf16_bits(a) for name, a in _matmul_inputs(s, sample).items()}


def _bf16_matmul(s: Sizes, x: Arrays) -> np.ndarray:
    return _exact(bf16_values(x["a"])) @ _exact(bf16_values(x["b"]))


def _linear_inputs(s: Sizes, sample: Sample) -> Arrays:
    shape = (s["n"], s["k"]) if s["by_output"] else (s["k"], s["n"])
    # Weights as small as a network's, so that the activation sees both of its sides.
    return {
        "x": sample(s["m"], s["k"]), "w": sample(*shape) / np.float32(s["k"] ** 0.5),
        "bias": sample(s["n"]),
    }  # fmt: skip


def _linear(s: Sizes, x: Arrays) -> np.ndarray:
    w = _exact(x["w"])
    y = _exact(x["x"]) @ (w.T if s["by_output"] else w) + x["bias"]
    if s["activation"] == "relu":
        return np.maximum(y, 0)
    from scipy.special import erf

    return y * 0.5 * (1 + erf(y / np.sqrt(2)))


def _batch_inputs(s: Sizes, sample: Sample) -> Arrays:
    return {"a": sample(s["b"], s["m"], s["k"]), "b": sample(s["b"], s["n"], s["k"])}


def _conv_inputs(s: Sizes, sample: Sample) -> Arrays:
    size, r, each = s["size"], s["r"], s["c"] // s["groups"]
    last = channels_last(s)
    return {
        "x": sample(1, size, size, s["c"]) if last else sample(1, s["c"], size, size),
        "w": sample(r, r, each, s["k"]) if last else sample(s["k"], each, r, r),
        "bias": sample(s["k"]),
    }


def channels_last(s: Sizes) -> bool:
    """Whether a convolution is in layout NHWC, its weights in HWIO, not NCHW and OIHW."""
    return bool(s.get("layout") == "NHWC")


def channels_first(x: Arrays) -> Arrays:
    """The inputs of a convolution in NHWC as views in NCHW and OIHW."""
    return {**x, "x": x["x"].transpose(0, 3, 1, 2), "w": x["w"].transpose(3, 2, 0, 1)}


def out_size(s: Sizes) -> int:
    """Rows and columns of a convolution's output."""
    return (s["size"] + 2 * (s["r"] // 2) - s["r"]) // s["stride"] + 1


def _conv(s: Sizes, x: Arrays) -> np.ndarray:
    if channels_last(s):
        return _conv({**s, "layout": "NCHW"}, channels_first(x)).transpose(0, 2, 3, 1)
    pad, step, groups, size = s["r"] // 2, s["stride"], s["groups"], out_size(s)
    padded = np.pad(_exact(x["x"][0]), ((0, 0), (pad, pad), (pad, pad)))
    w = _exact(x["w"]).reshape(groups, -1, s["c"] // groups, s["r"], s["r"])
    total = np.zeros((groups, s["k"] // groups, size * size))
    for dy, dx in np.ndindex(s["r"], s["r"]):
        tap = padded[:, dy : dy + step * size : step, dx : dx + step * size : step]
        total += w[..., dy, dx] @ tap[:, :size, :size].reshape(groups, -1, size * size)
    return np.maximum(total.reshape(1, s["k"], size, size) + x["bias"][:, None, None], 0)


def _softmax(x: np.ndarray) -> np.ndarray:
    power = np.exp(x - x.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


def _layer_norm_inputs(s: Sizes, sample: Sample) -> Arrays:
    return {"x": sample(s["m"], s["n"]), "gamma": sample(s["n"]), "beta": sample(s["n"])}


def _layer_norm(s: Sizes, x: Arrays) -> np.ndarray:
    v = _exact(x["x"])
    scale = np.sqrt(v.var(axis=1, keepdims=True) + EPSILON)
    return (v - v.mean(axis=1, keepdims=True)) / scale * x["gamma"] + x["beta"]


def _elementwise(s: Sizes, x: Arrays) -> np.ndarray:
    a, b, c, d = (_exact(x[name]) for name in "abcd")
    return np.maximum(a * b + c, 0) / (1 + np.exp(-d))


def _attention_inputs(s: Sizes, sample: Sample) -> Arrays:
    return {n: sample(1, s["heads"], s["length"], s["depth"]) for n in ("q", "k", "v")}


def _attention(s: Sizes, x: Arrays) -> np.ndarray:
    q, k, v = (_exact(x[name]) for name in ("q", "k", "v"))
    return _softmax(q @ k.swapaxes(2, 3) / np.sqrt(s["depth"])) @ v


def _matrix(s: Sizes, sample: Sample) -> Arrays:
    return {"x": sample(s["m"], s["n"])}


def _product(*names: str) -> Callable[[Sizes], int]:
    return lambda s: 2 * prod(s[name] for name in names)


def _conv_flops(s: Sizes) -> int:
    return 2 * s["k"] * s["c"] // s["groups"] * s["r"] ** 2 * out_size(s) ** 2


def _no_arithmetic(s: Sizes) -> int:
    return 0


MNK = _product("m", "n", "k")

KINDS: Mapping[str, Kind] = {
    "matmul": Kind(_matmul_inputs, _matmul, MNK, ("b",)),
    "int8_matmul": Kind(_int8_inputs, _matmul, MNK, ("b",), tolerance=0.0, dtype="int8"),
    "bf16_matmul": Kind(_bf16_inputs, _bf16_matmul, MNK, ("b",), 1e-2, "bfloat16", 2),
    "linear": Kind(_linear_inputs, _linear, MNK, ("w", "bias")),
    "batch_matmul": Kind(
        _batch_inputs, lambda s, x: _exact(x["a"]) @ _exact(x["b"]).swapaxes(1, 2),
        _product("b", "m", "n", "k"),
    ),
    # Minimal filtering such as F(4x4, 3x3) rounds about twenty times as much as plain sums.
    "conv2d": Kind(
        _conv_inputs, _conv, _conv_flops, ("w", "bias"), tolerance=5e-5, numerics="algebraic"
    ),
    "softmax": Kind(_matrix, lambda s, x: _softmax(_exact(x["x"])), _no_arithmetic),
    "layer_norm": Kind(_layer_norm_inputs, _layer_norm, _no_arithmetic, ("gamma", "beta")),
    "row_sum": Kind(_matrix, lambda s, x: _exact(x["x"]).sum(axis=1), _no_arithmetic),
    "elementwise": Kind(
        lambda s, sample: {name: sample(s["n"]) for name in "abcd"}, _elementwise, _no_arithmetic
    ),
    "transpose": Kind(_matrix, lambda s, x: _exact(x["x"]).T, _no_arithmetic, tolerance=0.0),
    "attention": Kind(
        _attention_inputs, _attention,
        lambda s: 4 * s["heads"] * s["length"] ** 2 * s["depth"],
    ),
    "operator": Kind(operator_inputs, _operator, _no_arithmetic),
    "invented": Kind(
        lambda s, sample: _sampled(invented_inputs(s), sample), _invented,
        lambda s: INVENTED[s["op"]].flops(s),
    ),
}  # fmt: skip
"""Every operator by name; adding one here and in rows.py makes the libraries report it missing."""
