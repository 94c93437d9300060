"""PyTorch, eager: the functions one calls, with `out=` where they take it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.peers.kinds import EPSILON, channels_last
from benchmarks.peers.libraries.invented_torch import FUNCTIONS as INVENTED
from benchmarks.peers.libraries.operators_torch import FUNCTIONS, INTO
from benchmarks.peers.task import Call, Task, Unsupported

Function = Callable[..., torch.Tensor]


def start(threads: int) -> None:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)


def version() -> str:
    return torch.__version__


def as_array(result: Any) -> np.ndarray:
    """The result, of several the first."""
    if isinstance(result, tuple):
        result = result[0]
    if result.dtype == torch.bfloat16:
        return result.float().numpy()
    return result.numpy()


def tensors_of(task: Task) -> list[torch.Tensor]:
    """The inputs; they share memory with the arrays."""
    if task.kind == "bf16_matmul":
        return [torch.from_numpy(a).view(torch.bfloat16) for a in task.arrays]
    return [torch.from_numpy(a) for a in task.arrays]


def function_of(task: Task) -> Function:
    """The row as a function of its tensors that returns a new one."""
    s = task.sizes
    gelu, last = s.get("activation") == "gelu", channels_last(s)

    def linear(x: Any, w: Any, bias: Any) -> torch.Tensor:
        y = F.linear(x, w if s["by_output"] else w.T, bias)
        return F.gelu(y) if gelu else F.relu(y)

    def conv(x: Any, w: Any, bias: Any) -> torch.Tensor:
        if last:
            x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        y = F.relu(F.conv2d(x, w, bias, s["stride"], s["r"] // 2, groups=s["groups"]))
        return y.permute(0, 2, 3, 1) if last else y

    if task.kind == "operator":
        if s["op"] not in FUNCTIONS:
            raise Unsupported(f"no form of {s['op']} is written for it")
        return partial(FUNCTIONS[s["op"]], s["attrs"])
    if task.kind == "invented":
        return partial(INVENTED[s["op"]], s)

    functions: dict[str, Function] = {
        "matmul": torch.matmul,
        "bf16_matmul": torch.matmul,
        "linear": linear,
        "batch_matmul": lambda a, b: torch.bmm(a, b.transpose(1, 2)),
        "conv2d": conv,
        "softmax": lambda x: torch.softmax(x, 1),
        "layer_norm": lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b, EPSILON),
        "row_sum": lambda x: torch.sum(x, 1),
        "elementwise": lambda a, b, c, d: F.relu(a * b + c) * torch.sigmoid(d),
        "transpose": lambda x: x.T.contiguous(),
        "attention": F.scaled_dot_product_attention,
    }
    if task.kind not in functions:
        raise Unsupported("PyTorch multiplies no uint8 by int8 matrices on a CPU")
    return functions[task.kind]


def prepare(task: Task) -> dict[str, Call]:
    tensors, function = tensors_of(task), function_of(task)
    forms: dict[str, Call] = {"eager": lambda: function(*tensors)}
    into = _into(task, tensors)
    if into is not None:
        forms["eager out="] = into
    if task.kind == "conv2d":
        forms["channels last"] = _channels_last(task, tensors, function)
    return forms


def _into(task: Task, tensors: list[torch.Tensor]) -> Call | None:
    """The row into an output made once; None where PyTorch has no such form."""
    if task.kind in ("bf16_matmul", "invented"):
        return None
    if task.kind == "operator":
        if task.sizes["op"] not in INTO:
            return None
        function, attrs = INTO[task.sizes["op"]], task.sizes["attrs"]
        made = torch.empty_like(function_of(task)(*tensors).contiguous())
        return lambda: function(attrs, made, *tensors).view(task.out_shape)
    out = torch.from_numpy(task.out())
    if task.kind == "matmul":
        return lambda: torch.matmul(*tensors, out=out)
    if task.kind == "batch_matmul":
        right = tensors[1].transpose(1, 2)
        return lambda: torch.bmm(tensors[0], right, out=out)
    if task.kind == "softmax":
        return lambda: torch.softmax(tensors[0], 1, out=out)
    if task.kind == "row_sum":
        return lambda: torch.sum(tensors[0], 1, out=out)
    if task.kind == "transpose":
        return lambda: out.copy_(tensors[0].T)
    return None


def _channels_last(task: Task, tensors: list[torch.Tensor], function: Function) -> Call:
    """The network's inner layers in the layout that oneDNN likes best; the bytes are as many."""
    last = torch.channels_last
    x, w, bias = tensors
    if not channels_last(task.sizes):
        x, w = (t.contiguous(memory_format=last) for t in (x, w))
        return lambda: function(x, w, bias)
    # A permuted view of the picture is in channels_last already; the weights become so, too.
    w = w.permute(3, 2, 0, 1).contiguous(memory_format=last).permute(2, 3, 1, 0)
    return lambda: function(x, w, bias)
