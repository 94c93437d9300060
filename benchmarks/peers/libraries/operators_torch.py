"""PyTorch: a function for each operator of the set `operators`, of attributes and tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

Attrs = Mapping[str, Any]


def _first(t: torch.Tensor, a: Attrs) -> torch.Tensor:
    """Pictures in layout NHWC as PyTorch sees them: other strides of the same memory."""
    return t.permute(0, 3, 1, 2) if a.get("layout") == "NHWC" else t


def _last(t: torch.Tensor, a: Attrs) -> torch.Tensor:
    return t.permute(0, 2, 3, 1) if a.get("layout") == "NHWC" else t


def _pool(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda a, x: _last(
        function(_first(x, a), a["kernel"], a.get("stride"), a.get("padding", 0)), a
    )


def _resize(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    corners = a.get("coordinates") == "align_corners"
    mode = {"mode": "nearest"} if a.get("method") == "nearest" else {
        "mode": "bilinear", "align_corners": corners
    }  # fmt: skip
    return _last(F.interpolate(_first(x, a), (a["size"],) * 2, **mode), a)


def _to_space(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    b = a["block"]
    parts = x.view(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // b**2, h * b, w * b)


def _to_depth(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    b = a["block"]
    parts = x.view(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b**2, h // b, w // b)


def _pad(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    sides = [side for pair in reversed(a["padding"][2:]) for side in pair]
    return F.pad(x, sides, a.get("mode", "constant"))


def _slice(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    at = [slice(None)] * x.ndim
    for d, begin, end, step in zip(
        a["axes"], a["begin"], a["end"], a.get("strides", [1] * len(a["axes"]))
    ):
        at[d] = slice(begin, end, step)
    return x[tuple(at)].contiguous()


def _take(a: Attrs, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    if a.get("axis", 0) == 0:
        return F.embedding(indices, x)
    return x.index_select(a["axis"], indices)


def _batch_norm(a: Attrs, x: Any, mean: Any, var: Any, gamma: Any, beta: Any) -> torch.Tensor:
    if a.get("axis") == 3:
        y = F.batch_norm(x.permute(0, 3, 1, 2), mean, var, gamma, beta)
        return y.permute(0, 2, 3, 1)
    return F.batch_norm(x, mean, var, gamma, beta)


def _quantize(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(x, a["scale"], 0, torch.qint8).int_repr()


FUNCTIONS: Mapping[str, Callable[..., torch.Tensor]] = {
    "max_pool2d": _pool(F.max_pool2d),
    "avg_pool2d": _pool(F.avg_pool2d),
    "global_avg_pool": lambda a, x: _last(F.adaptive_avg_pool2d(_first(x, a), 1), a),
    "adaptive_avg_pool": lambda a, x: F.adaptive_avg_pool2d(x, a["output_size"]),
    "resize2d": _resize,
    "depth_to_space": _to_space,
    "space_to_depth": _to_depth,
    "pad": _pad,
    "flip": lambda a, x: torch.flip(x, [a["axis"]]),
    "roll": lambda a, x: torch.roll(x, a["shift"], a["axis"]),
    "concat": lambda a, *x: torch.cat(x, a["axis"]),
    "stack": lambda a, *x: torch.stack(x, a["axis"]),
    "slice": _slice,
    "take": _take,
    "gather": lambda a, x, i: torch.gather(x, a["axis"], i),
    "one_hot": lambda a, i: torch.zeros(len(i), a["depth"]).scatter_(1, i[:, None], 1.0),
    "repeat": lambda a, x: torch.repeat_interleave(x, a["repeats"], a["axis"]),
    "tile": lambda a, x: torch.tile(x, a["reps"]),
    "tril": lambda a, x: torch.tril(x),
    "transpose": lambda a, x: x.permute(a["axes"]).contiguous(),
    "add": lambda a, x, y: x + y,
    "multiply": lambda a, x, y: x * y,
    "where": lambda a, c, x, y: torch.where(c, x, y),
    "clip": lambda a, x: torch.clamp(x, a["low"], a["high"]),
    "greater": lambda a, x, y: x > y,
    "logical_and": lambda a, x, y: torch.logical_and(x, y),
    "bitwise_xor": lambda a, x, y: x ^ y,
    "batch_norm": _batch_norm,
    "prelu": lambda a, x, slope: F.prelu(x, slope),
    "gelu": lambda a, x: F.gelu(x),
    "silu": lambda a, x: F.silu(x),
    "mish": lambda a, x: F.mish(x),
    "hardswish": lambda a, x: F.hardswish(x),
    **{
        name: (lambda f: lambda a, x: f(x))(getattr(torch, name))
        for name in ("tanh", "exp", "sigmoid", "relu", "erf", "sqrt", "isnan", "log", "sin")
    },
    "power": lambda a, x, y: torch.pow(x, y),
    "cast": lambda a, x: x.to(getattr(torch, a["dtype"])),
    "quantize": _quantize,
    "dequantize": lambda a, x: x * torch.tensor(a["scale"]),
    "cumsum": lambda a, x: torch.cumsum(x, a.get("axis", -1)),
    "cumprod": lambda a, x: torch.cumprod(x, a.get("axis", -1)),
    "topk": lambda a, x: torch.topk(x, a["k"])[0],
    "sort": lambda a, x: torch.sort(x)[0],
    "argsort": lambda a, x: torch.argsort(x, stable=True),
}

INTO: Mapping[str, Callable[..., torch.Tensor]] = {
    "concat": lambda a, out, *x: torch.cat(x, a["axis"], out=out),
    "stack": lambda a, out, *x: torch.stack(x, a["axis"], out=out),
    "transpose": lambda a, out, x: out.copy_(x.permute(a["axes"])),
    "slice": lambda a, out, x: out.copy_(x[:, a["begin"][0] : a["end"][0]])
    if a["axes"] == [1]
    else out.copy_(x[:, :, ::2, ::2]),
    "cast": lambda a, out, x: out.copy_(x),
    "add": lambda a, out, x, y: torch.add(x, y, out=out),
    "multiply": lambda a, out, x, y: torch.mul(x, y, out=out),
    "where": lambda a, out, c, x, y: torch.where(c, x, y, out=out),
    "clip": lambda a, out, x: torch.clamp(x, a["low"], a["high"], out=out),
    "greater": lambda a, out, x, y: torch.gt(x, y, out=out),
    "logical_and": lambda a, out, x, y: torch.logical_and(x, y, out=out),
    "bitwise_xor": lambda a, out, x, y: torch.bitwise_xor(x, y, out=out),
    **{
        name: (lambda f: lambda a, out, x: f(x, out=out))(getattr(torch, name))
        for name in ("tanh", "exp", "sigmoid", "erf", "sqrt", "log", "sin", "tril")
    },
    "power": lambda a, out, x, y: torch.pow(x, y, out=out),
    "cumsum": lambda a, out, x: torch.cumsum(x, a.get("axis", -1), out=out),
    "cumprod": lambda a, out, x: torch.cumprod(x, a.get("axis", -1), out=out),
    "gather": lambda a, out, x, i: torch.gather(x, a["axis"], i, out=out),
    "take": lambda a, out, x, i: torch.index_select(x, a.get("axis", 0), i.view(-1), out=out),
    "dequantize": lambda a, out, x: torch.mul(x, a["scale"], out=out),
}
"""The same into an output that is made once, where PyTorch has such a form."""
